"""What a server leaves on its volume when it stops in good order."""

from __future__ import annotations

from valkey_operator.api.directives import as_set
from valkey_operator.api.words import saves
from valkey_operator.model.deployment import Deployment


def keeps_data(deployment: Deployment) -> bool:
    """A server that stops in good order leaves everything on a volume that the next one finds."""
    if not deployment.value("persistence.enabled"):
        return False
    config = deployment.value("config", {})
    has_snapshots = bool(
        deployment.value("persistence.rdb.enabled", True)
        and deployment.value("persistence.rdb.savePolicy", [])
    )
    if "save" in config:
        has_snapshots = saves(as_set("save", config["save"]))
    has_log = deployment.value("persistence.aof.enabled", False)
    if "appendonly" in config:
        has_log = as_set("appendonly", config["appendonly"]) == "yes"
    return has_snapshots or bool(has_log)

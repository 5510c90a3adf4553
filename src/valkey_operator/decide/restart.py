"""May a server without replicas be restarted? It is away meanwhile, and comes back with what is on its volume."""

from __future__ import annotations

from valkey_operator.model.deployment import Deployment


def held_back(deployment: Deployment, pod: str, *, has_run: bool) -> str:
    """Why not, and what a person can do; empty when it may. A pod that never ran has nothing to lose."""
    if deployment.value("update.strategy") == "OnDelete":
        return f"and update.strategy is OnDelete: delete pod {pod} when it suits you"
    if not has_run:
        return ""
    if not keeps_data(deployment):
        return (
            f"and would lose all data, for nothing is kept on a volume: delete pod {pod} if that is all right"
        )
    if deployment.value("update.supervised"):
        return f"and update.supervised is set: delete pod {pod} when it suits you"
    if deployment.value("update.window"):
        return f"and this version cannot wait for update.window: delete pod {pod} when it suits you"
    return ""


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
        has_snapshots = config["save"] not in ("", '""', [])
    has_log = deployment.value("persistence.aof.enabled", False)
    if "appendonly" in config:
        has_log = config["appendonly"] in (True, "yes")
    return has_snapshots or bool(has_log)

"""The Services that clients use."""

from __future__ import annotations

from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import marks


def primary_service(deployment: Deployment, primary: str) -> dict[str, Any]:
    """Moved by one write, of its selector: measured, no gap and no overlap. Moving a label takes two."""
    metadata = marks.metadata(deployment, deployment.name, "service")
    metadata["annotations"] |= deployment.value("service.annotations", {})
    spec = {
        "type": deployment.value("service.type", "ClusterIP"),
        "selector": {marks.NODE: primary},
        "ports": [{"name": "valkey", "port": 6379, "targetPort": "valkey"}],
    }
    return {"metadata": metadata, "spec": spec}

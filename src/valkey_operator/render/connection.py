"""The Secret that applications mount or read their environment from: where the deployment is."""

from __future__ import annotations

from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import marks
from valkey_operator.render.service import PORT, host, read_name
from valkey_operator.render.system_users import encoded


def connection_name(deployment: Deployment) -> str:
    return f"{deployment.name}-connection"


def connection_secret(deployment: Deployment) -> dict[str, Any]:
    """Names that stay when the primary changes. Every client library knows the scheme `redis`, not all know ours."""
    content = {"host": host(deployment, deployment.name), "port": str(PORT)}
    content["uri"] = f"redis://{content['host']}:{PORT}"
    if deployment.value("readService.enabled"):
        content["readHost"] = host(deployment, read_name(deployment))
        content["readUri"] = f"redis://{content['readHost']}:{PORT}"
    metadata = marks.metadata(deployment, connection_name(deployment), "connection")
    return {"metadata": metadata, "type": "Opaque", "data": encoded(content)}

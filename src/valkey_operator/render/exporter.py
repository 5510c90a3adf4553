"""The metrics exporter beside a server: its container, its password, and where its metrics are.

It is somebody else's program. So it speaks to the server as any client does, over the network of its own pod, and does
not see the volume where the server's socket and the gate are; and it runs as another user than server and sidecar,
whose files it could else read through the process namespace that the pod shares.
"""

from __future__ import annotations

import json
from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import users

Part = dict[str, Any]

NAME = "exporter"
PORT_NAME = "metrics"
# One key of the Secret with the system users, and all that the exporter sees of it.
PASSWORD_FILE = "exporter.json"  # noqa: S105 - a file's name
FOLDER = "/etc/valkey-exporter"
ADDRESS = "redis://localhost:6379"
RESOURCES: Part = {
    "requests": {"cpu": "10m", "memory": "32Mi"},
    "limits": {"memory": "128Mi"},
}


def is_wanted(deployment: Deployment) -> bool:
    return bool(deployment.value("exporter.enabled"))


def port(deployment: Deployment) -> int:
    return int(deployment.value("exporter.port"))


def service_name(deployment: Deployment) -> str:
    return f"{deployment.name}-metrics"


def status(deployment: Deployment) -> Part:
    """As `status.exporter` says it."""
    if not is_wanted(deployment):
        return {"enabled": False}
    host = f"{service_name(deployment)}.{deployment.namespace}.svc"
    return {"enabled": True, "metricsEndpoint": f"http://{host}:{port(deployment)}/metrics"}


def password_file(password: str) -> str:
    """In the form that the exporter reads: passwords by address, which names the user."""
    return json.dumps({ADDRESS.replace("//", f"//{users.EXPORTER}@"): password})


def container(deployment: Deployment, security: Part) -> Part:
    """`security` is what all containers of the pod have."""
    pull = deployment.value("imagePullPolicy")
    return {
        "name": NAME,
        "image": deployment.value("exporter.image"),
        "imagePullPolicy": deployment.value("exporter.imagePullPolicy", pull),
        "args": [
            f"-redis.addr={ADDRESS}",
            f"-redis.user={users.EXPORTER}",
            f"-redis.password-file={FOLDER}/{PASSWORD_FILE}",
            f"-web.listen-address=:{port(deployment)}",
            # CONFIG GET shows passwords in clear; what matters of it is in INFO as well.
            "-config-command=-",
        ],
        "ports": [{"name": PORT_NAME, "containerPort": port(deployment)}],
        "resources": deployment.value("exporter.resources", RESOURCES),
        "securityContext": {**security, **_other_user(deployment)},
        "volumeMounts": [{"name": NAME, "mountPath": FOLDER, "readOnly": True}],
    }


def volume(deployment: Deployment) -> Part:
    items = [{"key": PASSWORD_FILE, "path": PASSWORD_FILE}]
    return {"name": NAME, "secret": {"secretName": users.secret_name(deployment.name), "items": items}}


def _other_user(deployment: Deployment) -> Part:
    """Where the platform chooses the pod's user, it chooses this one as well."""
    user = deployment.value("securityContext.runAsUser")
    return {} if user is None else {"runAsUser": user + 1}

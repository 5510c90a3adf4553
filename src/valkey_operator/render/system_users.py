"""The Secret with the system users of a deployment: what servers load, and each one's password for the one it is of."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import exporter, marks, users


def system_users(deployment: Deployment, passwords: Mapping[str, str]) -> dict[str, Any]:
    """`passwords` of every user in `users.RULES`."""
    default = users.OPEN_IN_A_CLUSTER if deployment.kind == "ValkeyCluster" else users.OPEN_DEFAULT
    content = {
        "users.acl": users.users_acl({user: passwords[user] for user in users.RULES}, default),
        "sidecar-password": passwords[users.SIDECAR],
        "replication-password": passwords[users.REPLICATION],
        exporter.PASSWORD_FILE: exporter.password_file(passwords[users.EXPORTER]),
    }
    metadata = marks.metadata(deployment, users.secret_name(deployment.name), "users")
    return {"metadata": metadata, "data": encoded(content)}


def encoded(content: Mapping[str, str]) -> dict[str, str]:
    """As a Secret holds it."""
    return {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}

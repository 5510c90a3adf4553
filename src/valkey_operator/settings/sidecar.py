"""What the sidecar is told by its pod's template."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SidecarSettings:
    """Names of this pod, and where things are mounted."""

    namespace: str
    kind: str
    deployment: str
    node: str
    pod_uid: str
    pod_ip: str
    run: Path = Path("/run/valkey")
    data: Path = Path("/data")
    config: Path = Path("/etc/valkey-operator/config")
    users: Path = Path("/etc/valkey-operator/users")
    identity: Path = Path("/etc/valkey-operator/identity")
    operator_namespace: str = "valkey-system"
    trust_domain: str = "valkey.io"
    channel_port: int = 9443
    probe_port: int = 8080
    log_level: str = "info"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> SidecarSettings:
        names = ("NAMESPACE", "KIND", "DEPLOYMENT", "NODE", "POD_UID", "POD_IP")
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise ValueError(f"the environment lacks {', '.join(missing)}; the pod's template must set them")
        namespace, kind, deployment, node, pod_uid, pod_ip = (environment[name] for name in names)
        return cls(
            namespace, kind, deployment, node, pod_uid, pod_ip,
            operator_namespace=environment.get("OPERATOR_NAMESPACE", cls.operator_namespace),
            trust_domain=environment.get("TRUST_DOMAIN", cls.trust_domain),
            log_level=environment.get("LOG_LEVEL", cls.log_level),
        )  # fmt: skip

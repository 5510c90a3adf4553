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
    operator_address: str
    operator_namespace: str
    trust_domain: str
    run: Path = Path("/run/valkey")
    data: Path = Path("/data")
    config: Path = Path("/etc/valkey-operator/config")
    users: Path = Path("/etc/valkey-operator/users")
    identity: Path = Path("/etc/valkey-operator/identity")
    channel_port: int = 9443
    log_level: str = "info"
    # The one before was told to end, and did not live to do so.
    is_stopping: bool = False

    def server_of(self, node: str) -> tuple[str, int]:
        """Where a node's server listens: at its own Service, which leads to it even while it is not ready."""
        return f"{node}.{self.namespace}.svc", 6379

    def sidecar_of(self, node: str) -> tuple[str, int]:
        return f"{node}.{self.namespace}.svc", self.channel_port

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> SidecarSettings:
        names = (
            "NAMESPACE", "KIND", "DEPLOYMENT", "NODE", "POD_UID", "POD_IP",
            "OPERATOR_ADDRESS", "OPERATOR_NAMESPACE", "TRUST_DOMAIN",
        )  # fmt: skip
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise ValueError(f"the environment lacks {', '.join(missing)}; the pod's template must set them")
        namespace, kind, deployment, node, pod_uid, pod_ip, *operator = (environment[name] for name in names)
        address, operator_namespace, trust_domain = operator
        return cls(
            namespace, kind, deployment, node, pod_uid, pod_ip, address, operator_namespace, trust_domain,
            log_level=environment.get("LOG_LEVEL", cls.log_level), is_stopping=bool(environment.get("STOPPING")),
        )  # fmt: skip

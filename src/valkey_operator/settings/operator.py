"""What the operator is told by its Deployment."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorSettings:
    """Where it runs, what it looks after, and which image its sidecars come from."""

    namespace: str
    identity: str
    # The image of the sidecars: the operator's own, so that both are always of one version.
    image: str
    # Empty: all namespaces.
    namespaces: tuple[str, ...] = ()
    trust_domain: str = "valkey.io"
    lease_seconds: int = 8
    health_port: int = 8081
    log_level: str = "info"
    # How the identities of all processes begin that ran in this pod before; None: it is in no pod.
    place: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> OperatorSettings:
        names = ("NAMESPACE", "POD_NAME", "POD_IP", "OPERATOR_IMAGE")
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise ValueError(
                f"the environment lacks {', '.join(missing)}; the operator's Deployment must set them"
            )
        namespace, pod, address, image = (environment[name] for name in names)
        watched = [part.strip() for part in environment.get("WATCH_NAMESPACES", "").split(",")]
        return cls(
            namespace=namespace,
            # Another one after each restart of the container; with the address where sidecars find it.
            identity=f"{pod}_{address}_{uuid.uuid4().hex[:8]}",
            place=f"{pod}_",
            image=image,
            namespaces=tuple(part for part in watched if part),
            trust_domain=environment.get("TRUST_DOMAIN", cls.trust_domain),
            log_level=environment.get("LOG_LEVEL", "info"),
        )

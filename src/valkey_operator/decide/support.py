"""May the operator act on this deployment at all? Reasons against it, each with its sentence; none when it may."""

from __future__ import annotations

from typing import NamedTuple

from valkey_operator.api.reasons import Reason
from valkey_operator.api.validation import faults
from valkey_operator.model.deployment import Deployment


class Refusal(NamedTuple):
    """Nothing is changed, and this is why."""

    reason: Reason
    message: str


def refusal(deployment: Deployment) -> Refusal | None:
    wrong = faults(deployment.kind, deployment.values)
    if wrong:
        return Refusal(Reason.INVALID_SPEC, "; ".join(map(str, wrong)))
    missing = list(_not_yet(deployment))
    if missing:
        return Refusal(
            Reason.NOT_YET, f"this version cannot do {', '.join(missing)} yet; nothing was changed"
        )
    return None


def _not_yet(deployment: Deployment) -> list[str]:
    """Asked for in good faith, and not built: said, not ignored."""
    asked = {
        "spec.tls": bool(deployment.value("tls.enabled") or deployment.value("tls.policyRef")),
        "spec.auth": any(deployment.value(f"auth.{name}") for name in ("aclRef", "password", "acl")),
        "spec.sentinel": bool(deployment.value("sentinel")),
        "spec.azDistribution": bool(deployment.value("azDistribution")),
    }
    return [name for name, is_asked in asked.items() if is_asked]

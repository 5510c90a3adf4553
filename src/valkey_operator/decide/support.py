"""May the operator act on this deployment at all? Reasons against it, each with its sentence; none when it may."""

from __future__ import annotations

from typing import NamedTuple

from valkey_operator.api.reasons import Reason
from valkey_operator.api.validation import LIVED_WITH, Fault, faults, moved, unmet
from valkey_operator.model.deployment import Deployment

# What nobody can have from this version.
NOT_BUILT = ("spec.tls", "spec.auth", "spec.sentinel", "spec.azDistribution")


class Refusal(NamedTuple):
    """Nothing is changed, and this is why."""

    reason: Reason
    message: str


def refusal(deployment: Deployment, *, runs_already: bool = False) -> Refusal | None:
    """What `runs_already` is looked after though it takes no writes, or tells no metrics: it has data."""
    wrong = faults(deployment.kind, deployment.values) + moved(deployment.values, deployment.pinned)
    wrong = [each for each in wrong if not (runs_already and _field(each) in LIVED_WITH)]
    if wrong:
        return Refusal(Reason.INVALID_SPEC, "; ".join(_told(each, deployment) for each in wrong))
    lacking = unmet(deployment.kind, deployment.values, deployment.required)
    if lacking:
        return Refusal(Reason.NOT_AS_REQUIRED, "; ".join(map(_lacking, lacking)))
    missing = list(_not_yet(deployment))
    if missing:
        return Refusal(
            Reason.NOT_YET, f"this version cannot do {', '.join(missing)} yet; nothing was changed"
        )
    return None


def _told(fault: Fault, deployment: Deployment) -> str:
    """What does not stand in the spec is not looked for there."""
    field = _field(fault)
    lenders = (whose for name, whose in deployment.lent.items() if f"{field}.".startswith(f"{name}."))
    whose = next(lenders, "")
    return f"{field}, which comes from the {whose}: {fault.sentence}" if whose else str(fault)


def _field(fault: Fault) -> str:
    """As it is called in every kind."""
    return fault.field.removeprefix("spec.").removeprefix("template.")


def _lacking(fault: Fault) -> str:
    """Who sets what is required is not sent from one refusal into the next without a word."""
    name = fault.field.rpartition(".")[2]
    way_out = f", which this version cannot do yet: until then only defaults without require.{name} let it be"
    return f"{fault}{way_out if f'spec.{name}' in NOT_BUILT else ''}"


def _not_yet(deployment: Deployment) -> list[str]:
    """Asked for in good faith, and not built: said, not ignored."""
    asked = {
        "spec.tls": bool(deployment.value("tls.enabled") or deployment.value("tls.policyRef")),
        "spec.auth": any(deployment.value(f"auth.{name}") for name in ("aclRef", "password", "acl")),
        "spec.sentinel": bool(deployment.value("sentinel")),
        "spec.azDistribution": bool(deployment.value("azDistribution")),
    }
    return [name for name in NOT_BUILT if asked[name]]

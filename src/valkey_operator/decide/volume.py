"""How large a claim may be asked to be, and what is still missing until it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from valkey_operator.api.quantity import amount

# A kubelet that can grow a mounted file system has done it by then.
PATIENCE = timedelta(minutes=2)


@dataclass(frozen=True)
class SeenClaim:
    """What is asked for, what there is, and since when the file system waits."""

    asked: str
    capacity: str = ""
    # Why the API server does not take more, for the size that was tried.
    refused: str = ""
    file_system_waits_since: datetime | None = None


@dataclass(frozen=True)
class Plan:
    """The size to ask for; a sentence where that is not what is wanted, or not yet there."""

    size: str
    message: str = ""
    needs_restart: str = ""
    # When to look again, because only time has to pass.
    again: timedelta | None = None


def plan(wanted: str, claim: SeenClaim | None, pod_since: datetime | None, now: datetime) -> Plan:
    if claim is None:
        return Plan(wanted)
    is_smaller = (amount(wanted) or 0) < (amount(claim.asked) or 0)
    if is_smaller:
        return Plan(claim.asked, f"the volume has {claim.asked} and cannot shrink to {wanted}")
    if claim.refused:
        return Plan(claim.asked, f"the volume cannot grow to {wanted}: {claim.refused}")
    since = claim.file_system_waits_since
    if since is not None:
        return _file_system(wanted, since, pod_since, now)
    is_there = not claim.capacity or (amount(claim.capacity) or 0) >= (amount(wanted) or 0)
    return Plan(wanted, "" if is_there else f"the volume has {claim.capacity} and grows to {wanted}")


def _file_system(wanted: str, since: datetime, pod_since: datetime | None, now: datetime) -> Plan:
    """It grows while it is mounted, or at the next start of a pod; one that started meanwhile did not help."""
    left = since + PATIENCE - now
    if left > timedelta(0):
        return Plan(wanted, f"the file system of the volume grows to {wanted}", again=left)
    if pod_since is None or pod_since >= since:
        return Plan(
            wanted, f"the file system of the volume has not grown to {wanted}, not even with a new pod"
        )
    return Plan(
        wanted, needs_restart=f"the file system of the volume grows to {wanted} with the pod's next start"
    )

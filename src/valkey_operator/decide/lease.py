"""Who may write, and on whom a primary must be able to count: the answer to a lease request, and `status.promotable`.

Whatever is in `status.promotable` is counted on by the primary: a name enters it after the primary has said so,
and leaves it before a grant is sent without it.
"""

from __future__ import annotations

from dataclasses import dataclass

from valkey_operator.decide import handover, members, roll, sight
from valkey_operator.decide.actions import SetPromotable, Step
from valkey_operator.model.instance import SeenInstance, SeenNode


@dataclass(frozen=True)
class Request:
    """What a primary's sidecar asks."""

    node: str
    pod_uid: str
    epoch: int


@dataclass(frozen=True)
class Grant:
    """It may write, and counts on these from now on."""

    epoch: int
    promotable: tuple[str, ...]


def answer(seen: SeenInstance, request: Request) -> Grant | str:
    """The grant, or a sentence why there is none."""
    record, node = seen.record, seen.node(request.node)
    if request.node != record.primary:
        return f"the primary is {record.primary}, in epoch {record.epoch}"
    if request.epoch != record.epoch:
        return f"epoch {request.epoch} is not {record.epoch}, in which {record.primary} is primary"
    if node is None or node.pod is None or node.pod.uid != request.pod_uid:
        return f"this is not the pod of {request.node}"
    if seen.change() is not None or record.primary in seen.promotable:
        return f"{record.primary} was not seen in office yet"
    return Grant(record.epoch, named(seen))


def named(seen: SeenInstance) -> tuple[str, ...]:
    """All that are promotable, and those that could be."""
    return tuple(sorted(_fit(seen) | set(seen.promotable)))


def promotable(seen: SeenInstance, primary: SeenNode) -> Step:
    """Only while the primary is seen in office: a cut network makes nobody unfit."""
    known, epoch = set(seen.promotable), seen.record.epoch
    if not sight.is_in_office(primary) or seen.change() is not None or primary.name in known:
        return Step()
    if primary.said is None or primary.said.record.epoch != epoch:
        return Step()
    wanted = _fit(seen) & (known | seen.lease.counted_on)
    return Step((SetPromotable(tuple(sorted(wanted))),)) if wanted != known else Step()


def _fit(seen: SeenInstance) -> set[str]:
    """In sync, with this epoch noted: they can say that they follow, and can be trusted with the data."""
    primary, epoch = seen.record.primary, seen.record.epoch
    return {
        node.name
        for node in sight.others(seen, primary, _going(seen))
        if sight.is_in_sync(node, primary) and node.said is not None and node.said.record.epoch == epoch
    }


def _going(seen: SeenInstance) -> str:
    """It is about to be stopped; empty for nobody."""
    primary = seen.node(seen.record.primary)
    if primary is None or not sight.is_in_office(primary):
        return ""
    found = members.going(seen, primary)
    if found is None and seen.wish.replicas and handover.wanted(seen, primary) is None:
        found = roll.going(seen, primary)
    return "" if found is None or found.name == primary.name else found.name

"""Slots whose data is gone for good: said, with what to do; served again only when a person has named the shard.

"Cannot see" is not "gone": as long as one node is silent, nothing is lost yet.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from valkey_operator.api.guards import Guard
from valkey_operator.decide.actions import Refusal, Wait
from valkey_operator.decide.cluster_actions import AssignSlots, ClusterAction, ClusterStep, Forget
from valkey_operator.model.cluster import (
    SLOTS,
    ClusterView,
    SeenCluster,
    SeenMember,
    as_ranges,
    as_text,
    others_than,
)

ANNOTATION = "valkey.io/allow-data-loss"


def plan(seen: SeenCluster, may_be_lost: frozenset[int]) -> ClusterStep:
    """The old owners are forgotten by everybody first: one that still knew them would keep their slots for them."""
    was_formed = seen.is_formed or len(seen.owned) == SLOTS  # its resource may be new
    if not was_formed:
        return ClusterStep(refusals=tuple(_no_beginning(seen)))
    if any(node.view is None for node in seen.nodes):
        return ClusterStep()
    lost = _lost(seen)
    refill = {shard: slots for shard, slots in lost.items() if shard in may_be_lost}
    refused = tuple(_refusal(shard, slots) for shard, slots in lost.items() if shard not in refill)
    forget = tuple(_forget(seen, frozenset(refill)))
    assign = tuple(
        AssignSlots(heir, as_ranges(slots), 0)
        for shard, slots in refill.items()
        if (heir := _heir(seen, shard)) is not None
    )
    stages: tuple[tuple[ClusterAction, ...], ...] = tuple(stage for stage in (forget, assign) if stage)
    waits = (Wait("slots without data are served again", 0.5),) if stages else ()
    return ClusterStep(stages, waits, refused)


def strangers_in(seen: SeenCluster, view: ClusterView) -> Iterable[SeenMember]:
    """Members that are none of our nodes; one of ours whose id was never heard may be among them, and then none is."""
    if all(node.id for node in seen.nodes):
        yield from (each for each in view.by_id.values() if each.id not in seen.by_id)


def is_alive(member: SeenMember) -> bool:
    """As far as anybody knows: the others have not agreed that it failed, and it has not become another one."""
    return bool(member.address) and not member.is_failed


def _no_beginning(seen: SeenCluster) -> Iterable[Refusal]:
    unowned = others_than(seen.owned)
    if unowned and any(node.keys for node, _ in seen.answered):
        yield Refusal(
            f"assign slots {as_text(unowned)}",
            Guard.LOST_SLOTS_ARE_NOT_REFILLED,
            f"nobody owns slots {as_text(unowned)}, and there are keys already: this is no new cluster; bring back the "
            "volumes that are missing, or delete it with its volumes and restore a backup",
        )


def _lost(seen: SeenCluster) -> dict[int, frozenset[int]]:
    """By shard: what belongs to servers that are gone with their data, and what nobody owns."""
    found: dict[int, frozenset[int]] = {}
    for each in _gone_owners(seen).values():
        shard = _shard_of(seen, each)
        found[shard] = found.get(shard, frozenset()) | each.slots
    unowned = others_than(seen.owned)
    if unowned:
        shard = _empty(seen, found)
        found[shard] = found.get(shard, frozenset()) | unowned
    return found


def _gone_owners(seen: SeenCluster) -> dict[str, SeenMember]:
    """Nobody follows them: a replica would have their data."""
    followed = {view.own.primary_id for _, view in seen.answered}
    found = [
        each
        for _, view in seen.answered
        for each in strangers_in(seen, view)
        if each.slots and each.id not in followed and _is_gone(seen, each)
    ]
    # Those last that know its name.
    return {each.id: each for each in sorted(found, key=lambda each: bool(each.hostname))}


def _is_gone(seen: SeenCluster, member: SeenMember) -> bool:
    """The others agree that it failed; or, where too few are left to agree, it is a former node of ours that none
    reaches, and in whose place another one answers. One without a node is made again first: its volume may be there."""
    if seen.is_absent(member):
        return False
    if not is_alive(member):
        return seen.is_former(member) or seen.is_known_to_all(member)
    known = [each for _, view in seen.answered if (each := view.by_id.get(member.id)) is not None]
    is_replaced = any(node.name == each.node for node in seen.nodes for each in known)
    is_reached = any(each.is_connected and not each.is_suspected for each in known)
    return seen.is_former(member) and is_replaced and not is_reached


def _shard_of(seen: SeenCluster, member: SeenMember) -> int:
    """By the name it had; where it announced none, the shard that owns nothing."""
    named = next((node.shard for node in seen.nodes if node.name == member.node), None)
    return named if named is not None else _empty(seen, ())


def _empty(seen: SeenCluster, but: Container[int]) -> int:
    """The first shard that owns nothing; the first of all where each does, for a person must be able to name it."""
    empty = (shard for shard in seen.shards if shard not in but and not _owns(seen, shard))
    return next(empty, seen.shards[0])


def _owns(seen: SeenCluster, shard: int) -> bool:
    return any(view.own.slots for node, view in seen.answered if node.shard == shard)


def _heir(seen: SeenCluster, shard: int) -> str | None:
    """One that has joined: its claim must be newer than any that the others remember."""
    primary = seen.primary_of(shard)
    if primary is None or primary.view is None or primary.view.is_alone:
        return None
    return primary.name


def _forget(seen: SeenCluster, shards: frozenset[int]) -> Iterable[Forget]:
    gone = {each for each, member in _gone_owners(seen).items() if _shard_of(seen, member) in shards}
    for node, view in seen.answered:
        known = tuple(sorted(gone & view.by_id.keys()))
        if known:
            yield Forget(node.name, known, though_they_own_slots=True)


def _refusal(shard: int, slots: frozenset[int]) -> Refusal:
    return Refusal(
        f"serve slots {as_text(slots)}",
        Guard.LOST_SLOTS_ARE_NOT_REFILLED,
        f"the data of shard {shard}, slots {as_text(slots)}, is lost, for no node has it: restore a backup, or set the "
        f"annotation {ANNOTATION}: {shard} to have them served again, empty",
    )

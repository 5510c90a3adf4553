"""Slots on the move, as a part of the whole: what they weigh, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping

from valkey_operator.decide import resharding
from valkey_operator.decide.actions import Doing, Wait
from valkey_operator.decide.cluster_actions import ClusterStep
from valkey_operator.decide.resharding import Resharding
from valkey_operator.decide.slots import Load, coarse, size_text
from valkey_operator.model.sharded import Progress, SeenSharded

SCALING = "Scaling"
LOOK_AGAIN = 0.1
# While a source that failed is left alone; another one may still be at it.
LOOK_SELDOM = 1.0
# What holds moves back, such as the lack of memory, may end without any event.
HELD_BACK = 10.0


def find(seen: SeenSharded) -> Resharding:
    wished = range(seen.wish.shards)
    loads = {shard: _load(seen, shard) for shard in {*seen.cluster.shards, *wished}}
    versions = {each.name: each.major_version for each in seen.nodes}
    return resharding.plan(seen.cluster, wished, loads, versions, seen.wish.is_stopped)


def step(seen: SeenSharded, found: Resharding) -> ClusterStep:
    if found.is_done:
        return ClusterStep()
    stages = (found.actions,) if found.actions else ()
    if not found.actions and not found.under_way and found.again is None:
        return ClusterStep(waits=_held_back(found), refusals=found.refusals)
    sentences = (_sentence(found), *found.troubles)
    if found.actions or (found.again is None and not found.is_held):
        again = LOOK_AGAIN
    else:
        again = HELD_BACK if found.again is None else min(found.again, LOOK_SELDOM)
    progress = after(seen.progress, found.remaining)
    doing = Doing(SCALING, "; ".join(sentences), progress.done, progress.total)
    return ClusterStep(stages, (Wait("; ".join(sentences), again),), found.refusals, doing)


def after(before: Progress | None, remaining: int) -> Progress:
    """How far it is now. What is called off comes back on top of what there was to do."""
    if before is None:
        return Progress(0, remaining)
    done = max(before.done, before.total - remaining)
    return Progress(done, done + remaining)


def _held_back(found: Resharding) -> tuple[Wait, ...]:
    return tuple(Wait(each.why, HELD_BACK) for each in found.refusals[:1] if each.guard != resharding.BY_HAND)


def _sentence(found: Resharding) -> str:
    moving = [*found.under_way, *found.plan.moves]
    left = f"{found.remaining} slots ({size_text(coarse(found.remaining_bytes))}) are still to move"
    return f"{left}; now {moving[0]}" if moving else left


def _load(seen: SeenSharded, shard: int) -> Load:
    owner = seen.primary_of(shard)
    view = owner.node.view if owner is not None else None
    if owner is None or view is None:
        return Load()
    # A server's own needs are counted as data where there is any: too much rather than too little.
    data = owner.used_bytes if owner.node.keys else 0
    return Load(
        view.own.slots,
        owner.used_bytes,
        owner.max_bytes,
        data,
        _weights(seen.slot_keys or {}, view.own.slots, data),
    )


def _weights(keys: Mapping[int, int], slots: frozenset[int], data: int) -> dict[int, int]:
    """Each its share of what is there now, by the keys it had; nothing where some of them were not counted."""
    counted = {slot: keys[slot] for slot in slots & keys.keys()}
    total = sum(counted.values())
    if not total or len(counted) < len(slots):
        return {}
    return {slot: data * count // total for slot, count in counted.items()}

"""Slots on the move, as a part of the whole: what they weigh, and how far it is."""

from __future__ import annotations

from valkey_operator.decide import resharding
from valkey_operator.decide.actions import Doing, Wait
from valkey_operator.decide.cluster_actions import ClusterStep
from valkey_operator.decide.slots import Load
from valkey_operator.model.sharded import SeenSharded, ShardNode

SCALING = "Scaling"
LOOK_AGAIN = 0.1


def plan(seen: SeenSharded) -> ClusterStep:
    wished = range(seen.wish.shards)
    loads = {shard: _load(seen.primary_of(shard)) for shard in {*seen.cluster.shards, *wished}}
    versions = {each.name: each.major_version for each in seen.nodes}
    found = resharding.plan(seen.cluster, wished, loads, versions)
    if found.is_done:
        return ClusterStep(refusals=found.refusals)
    moving = [*found.under_way, *found.plan.moves]
    step = f"{found.remaining} slots are still to move" + (f"; now {moving[0]}" if moving else "")
    waits = (
        (Wait("; ".join((step, *found.troubles)), LOOK_AGAIN),) if found.actions or found.under_way else ()
    )
    stages = (found.actions,) if found.actions else ()
    return ClusterStep(stages, waits, found.refusals, Doing(SCALING, step))


def _load(owner: ShardNode | None) -> Load:
    view = owner.node.view if owner is not None else None
    if owner is None or view is None:
        return Load()
    return Load(view.own.slots, owner.used_bytes, owner.max_bytes, owner.used_bytes)

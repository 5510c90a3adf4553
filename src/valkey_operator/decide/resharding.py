"""Slots on the move: what is under way, what may begin now, and what is called off.

What is seen decides: a migration that was cut is planned anew from who owns what.
"""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.decide import slots
from valkey_operator.decide.actions import Doing, Refusal, Wait
from valkey_operator.decide.cluster_actions import (
    CancelMigrations,
    ClaimSlots,
    ClusterAction,
    ClusterStep,
    ImportSlots,
    MigrateSlots,
)
from valkey_operator.model.cluster import MigrationState, SeenMigration, as_ranges, as_slots
from valkey_operator.model.sharded import SeenSharded, ShardNode

SCALING = "Scaling"
# In one go: writes to these slots pause when they are handed over.
MOST_SLOTS, MOST_BYTES = 2048, 64 * 1024 * 1024
LOOK_AGAIN = 0.2


def plan(seen: SeenSharded) -> ClusterStep:
    owners = {shard: owner for shard in seen.cluster.shards if (owner := seen.primary_of(shard)) is not None}
    loads = {shard: _load(owner) for shard, owner in owners.items()}
    wished = [shard for shard in range(seen.wish.shards) if shard in owners]
    if len(wished) < seen.wish.shards:
        return ClusterStep()
    claims = tuple(_claims(seen))
    if claims:
        return ClusterStep((claims,), doing=Doing(SCALING, "slots that have arrived are taken over"))
    under_way = [move for _, move in _under_way(seen, owners)]
    found = slots.plan(loads, wished, under_way)
    if found.too_small and not under_way:
        refused = tuple(Refusal("move slots", "what_arrives_must_fit", why) for why in found.too_small)
        return ClusterStep(refusals=refused)
    doing = _doing(found, under_way)
    if found.cancel:
        sources = sorted({owners[move.source].name for move in found.cancel})
        return ClusterStep(
            (tuple(map(CancelMigrations, sources)),), (Wait("moves are called off", LOOK_AGAIN),), doing=doing
        )
    begin = [
        slots.batch(move, loads[move.source], MOST_SLOTS, MOST_BYTES)
        for move in slots.may_begin(found.moves, under_way)
    ]
    stages = _begin(owners, begin)
    if not stages and not under_way:
        return ClusterStep()
    return ClusterStep(
        stages, (Wait(doing.step if doing is not None else "slots move", LOOK_AGAIN),), doing=doing
    )


def _load(owner: ShardNode) -> slots.Load:
    view = owner.node.view
    return slots.Load(
        view.own.slots if view is not None else frozenset(),
        owner.used_bytes,
        owner.max_bytes,
        owner.used_bytes,
    )


def _doing(found: slots.SlotPlan, under_way: list[slots.Move]) -> Doing | None:
    moving = [*under_way, *found.moves]
    if not moving:
        return None
    left = found.remaining + sum(len(move.slots) for move in under_way)
    return Doing(SCALING, f"{left} slots are still to move; now {moving[0]}")


def _under_way(seen: SeenSharded, owners: dict[int, ShardNode]) -> Iterable[tuple[SeenMigration, slots.Move]]:
    """As their sources say."""
    shards = {each.node.id: each.node.shard for each in seen.nodes if each.node.id}
    for owner in owners.values():
        view = owner.node.view
        for each in view.migrations if view is not None else ():
            if each.state == MigrationState.UNDER_WAY and each.is_export and each.target_id in shards:
                moving = as_slots(each.ranges)
                yield each, slots.Move(owner.node.shard, shards[each.target_id], moving)


def _claims(seen: SeenSharded) -> Iterable[ClaimSlots]:
    """Moved key by key: the source has none of them left, and nobody has claimed them."""
    by_id = {each.node.id: each for each in seen.nodes if each.node.id}
    for source in seen.nodes:
        view = source.node.view
        for each in view.migrations if view is not None else ():
            target = by_id.get(each.target_id)
            left = as_slots(each.ranges) & (view.own.slots if view is not None else frozenset())
            if each.state == MigrationState.EMPTIED and target is not None and left:
                yield ClaimSlots(target.name, source.name, source.node.id, as_ranges(left))


def _begin(owners: dict[int, ShardNode], moves: list[slots.Move]) -> tuple[tuple[ClusterAction, ...], ...]:
    imports: list[ClusterAction] = []
    migrations: list[ClusterAction] = []
    for move in moves:
        source, target = owners[move.source], owners[move.target]
        ranges = as_ranges(move.slots)
        key_by_key = not (source.moves_whole_slots and target.moves_whole_slots)
        if key_by_key:
            imports.append(ImportSlots(target.name, source.node.id, ranges))
        migrations.append(MigrateSlots(source.name, target.name, target.node.id, ranges, key_by_key))
    return tuple(tuple(stage) for stage in (imports, migrations) if stage)

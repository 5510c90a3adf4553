"""Puts what a server says of its cluster into the contract's words."""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import (
    ClusterView,
    MigrationState,
    OpenSlot,
    SeenMember,
    SeenMigration,
    SlotRange,
    as_ranges,
    as_slots,
)

STATES = {
    MigrationState.UNDER_WAY: contract.SlotMigration.STATE_UNDER_WAY,
    MigrationState.EMPTIED: contract.SlotMigration.STATE_EMPTIED,
    MigrationState.DONE: contract.SlotMigration.STATE_DONE,
    MigrationState.FAILED: contract.SlotMigration.STATE_FAILED,
    MigrationState.CANCELLED: contract.SlotMigration.STATE_CANCELLED,
}


def view(seen: ClusterView, moved: Iterable[SeenMigration] = ()) -> contract.ClusterView:
    """With what the sidecar itself moves, key by key."""
    return contract.ClusterView(
        node_id=seen.own_id,
        state="ok" if seen.is_ok else "fail",
        current_epoch=seen.current_epoch,
        nodes=map(_node, seen.members),
        shard_id=seen.shard_id,
        migrating=_open(seen.migrating),
        importing=_open(seen.importing),
        migrations=[_migration(each) for each in (*moved, *seen.migrations)],
        shards_digest=seen.shards_digest,
        is_hurrying=seen.is_hurrying,
    )


def slots_of(ranges: Iterable[contract.SlotRange]) -> frozenset[int]:
    return as_slots((each.first, each.last) for each in ranges)


def _ranges(ranges: Iterable[SlotRange]) -> list[contract.SlotRange]:
    return [contract.SlotRange(first=first, last=last) for first, last in ranges]


def _node(seen: SeenMember) -> contract.ClusterNode:
    return contract.ClusterNode(
        id=seen.id,
        address=seen.address,
        hostname=seen.hostname,
        role=contract.ROLE_PRIMARY if seen.is_primary else contract.ROLE_REPLICA,
        primary_id=seen.primary_id,
        config_epoch=seen.config_epoch,
        is_connected=seen.is_connected,
        is_failed=seen.is_failed,
        is_suspected=seen.is_suspected,
        is_in_handshake=seen.is_in_handshake,
        slots=_ranges(seen.ranges),
    )


def _open(marks: Iterable[OpenSlot]) -> list[contract.OpenSlots]:
    by_other: dict[str, list[int]] = {}
    for mark in marks:
        by_other.setdefault(mark.other_id, []).append(mark.slot)
    return [
        contract.OpenSlots(slots=_ranges(as_ranges(slots)), other_id=other)
        for other, slots in by_other.items()
    ]


def _migration(seen: SeenMigration) -> contract.SlotMigration:
    return contract.SlotMigration(
        name=seen.name,
        source_id=seen.source_id,
        target_id=seen.target_id,
        slots=_ranges(seen.ranges),
        state=STATES[seen.state],
        message=seen.message,
        is_export=seen.is_export,
        is_key_by_key=seen.is_key_by_key,
        remaining_bytes=seen.remaining_bytes,
        milliseconds_ago=round(seen.age * 1000),
    )

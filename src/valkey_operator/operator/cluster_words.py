"""What a sidecar says of a cluster, as decisions see it."""

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
)

STATES = {
    contract.SlotMigration.STATE_UNDER_WAY: MigrationState.UNDER_WAY,
    contract.SlotMigration.STATE_EMPTIED: MigrationState.EMPTIED,
    contract.SlotMigration.STATE_DONE: MigrationState.DONE,
    contract.SlotMigration.STATE_FAILED: MigrationState.FAILED,
    contract.SlotMigration.STATE_CANCELLED: MigrationState.CANCELLED,
}


def view_of(said: contract.ClusterView) -> ClusterView:
    return ClusterView(
        said.node_id,
        said.state == "ok",
        said.current_epoch,
        said.shard_id,
        tuple(map(_member, said.nodes)),
        tuple(_open(said.migrating)),
        tuple(_open(said.importing)),
        tuple(map(_migration, said.migrations)),
        said.shards_digest,
        said.is_hurrying,
    )


def ranges_of(said: Iterable[contract.SlotRange]) -> tuple[SlotRange, ...]:
    return tuple((each.first, each.last) for each in said)


def as_said(ranges: Iterable[SlotRange]) -> list[contract.SlotRange]:
    return [contract.SlotRange(first=first, last=last) for first, last in ranges]


def _member(said: contract.ClusterNode) -> SeenMember:
    return SeenMember(
        said.id,
        said.address,
        said.hostname,
        said.role == contract.ROLE_PRIMARY,
        said.primary_id,
        said.config_epoch,
        said.is_connected,
        said.is_failed,
        said.is_suspected,
        said.is_in_handshake,
        ranges_of(said.slots),
    )


def _open(said: Iterable[contract.OpenSlots]) -> Iterable[OpenSlot]:
    for each in said:
        for first, last in ranges_of(each.slots):
            yield from (OpenSlot(slot, each.other_id) for slot in range(first, last + 1))


def _migration(said: contract.SlotMigration) -> SeenMigration:
    return SeenMigration(
        said.name,
        said.source_id,
        said.target_id,
        ranges_of(said.slots),
        STATES.get(said.state, MigrationState.FAILED),
        said.message,
        said.is_export,
        said.is_key_by_key,
        said.remaining_bytes,
    )

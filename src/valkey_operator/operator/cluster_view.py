"""What a sidecar says of its server's cluster, as the frozen values that decisions are made of."""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import (
    ClusterNode,
    ClusterView,
    MigrationState,
    OpenSlot,
    SeenMember,
    SeenMigration,
    SlotRange,
    as_slots,
)

STATES = {
    contract.SlotMigration.STATE_UNDER_WAY: MigrationState.UNDER_WAY,
    contract.SlotMigration.STATE_EMPTIED: MigrationState.EMPTIED,
    contract.SlotMigration.STATE_DONE: MigrationState.DONE,
    contract.SlotMigration.STATE_CANCELLED: MigrationState.CANCELLED,
}


def node(name: str, shard: int, index: int, said: contract.Server | None, known_id: str = "") -> ClusterNode:
    """`said` is what its server answered during this look; None, or one that does not answer, is silence."""
    if said is None or not said.answers or not said.HasField("cluster"):
        return ClusterNode(name, shard, index, known_id=known_id)
    return ClusterNode(
        name,
        shard,
        index,
        view(said.cluster),
        keys=said.keys,
        libraries=said.libraries,
        is_in_sync=said.replication.link_is_up and not said.is_loading,
    )


def slot_keys(said: contract.Server) -> dict[int, int]:
    """Of a primary that has counted the keys of its slots."""
    slots = next((_ranges(each.slots) for each in said.cluster.nodes if each.id == said.cluster.node_id), ())
    return dict(zip(sorted(as_slots(slots)), said.cluster.slot_keys, strict=False))


def view(said: contract.ClusterView) -> ClusterView:
    return ClusterView(
        own_id=said.node_id,
        is_ok=said.state == "ok",
        current_epoch=said.current_epoch,
        shard_id=said.shard_id,
        members=tuple(map(_member, said.nodes)),
        migrating=tuple(_open(said.migrating)),
        importing=tuple(_open(said.importing)),
        migrations=tuple(map(_migration, said.migrations)),
        shards_digest=said.shards_digest,
        is_hurrying=said.is_hurrying,
    )


def _ranges(said: Iterable[contract.SlotRange]) -> tuple[SlotRange, ...]:
    return tuple((each.first, each.last) for each in said)


def _member(said: contract.ClusterNode) -> SeenMember:
    return SeenMember(
        id=said.id,
        address=said.address,
        hostname=said.hostname,
        is_primary=said.role == contract.ROLE_PRIMARY,
        primary_id=said.primary_id,
        config_epoch=said.config_epoch,
        is_connected=said.is_connected,
        is_failed=said.is_failed,
        is_suspected=said.is_suspected,
        is_in_handshake=said.is_in_handshake,
        ranges=_ranges(said.slots),
    )


def _open(said: Iterable[contract.OpenSlots]) -> Iterable[OpenSlot]:
    for each in said:
        for slot in sorted(as_slots(_ranges(each.slots))):
            yield OpenSlot(slot, each.other_id)


def _migration(said: contract.SlotMigration) -> SeenMigration:
    """A state that came later than this operator is none that it may build on."""
    return SeenMigration(
        name=said.name,
        source_id=said.source_id,
        target_id=said.target_id,
        ranges=_ranges(said.slots),
        state=STATES.get(said.state, MigrationState.FAILED),
        message=said.message,
        is_export=said.is_export,
        is_key_by_key=said.is_key_by_key,
        remaining_bytes=said.remaining_bytes,
        age=said.milliseconds_ago / 1000,
    )

"""Orders that move slots: as a whole where both servers can, else key by key, from the server beside us."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from valkey_operator.api.guards import Guard
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import (
    ClusterView,
    MigrationState,
    SeenMember,
    as_ranges,
    as_slots,
    as_text,
)
from valkey_operator.sidecar import cluster_orders
from valkey_operator.sidecar.cluster_orders import Known, seen
from valkey_operator.sidecar.cluster_words import slots_of
from valkey_operator.sidecar.hush import Hush
from valkey_operator.sidecar.mover import Mover
from valkey_operator.sidecar.refusals import Refusal
from valkey_operator.sidecar.slot_marks import set_slots
from valkey_operator.valkey.cluster import moves_whole_slots
from valkey_operator.valkey.connection import Refused

# Not one that is done: that may be from an earlier time, and the slots may have come back since.
EMPTIED = contract.SlotMigration.STATE_EMPTIED

# At one go: once it is granted, the target may own the slots before the source has heard of it. A source that is
# called off then accepts writes again, and loses them.
CALL_OFF = """
for _, job in ipairs(server.call('CLUSTER', 'GETSLOTMIGRATIONS')) do
    for i = 1, #job, 2 do
        if job[i] == 'state' and job[i + 1] == 'failover-granted' then return 0 end
    end
end
return server.call('CLUSTER', 'CANCELSLOTMIGRATIONS')
"""


class Pod(cluster_orders.Pod, Protocol):
    @property
    def mover(self) -> Mover: ...

    @property
    def hush(self) -> Hush: ...


class SlotOrders:
    """One pod's."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def known(self) -> Known:
        return {
            "migrate_slots": self._migrate,
            "cancel_migration": self._cancel,
            "import_slots": self._import,
            "claim_slots": self._claim,
        }

    async def _migrate(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        wished, target = order.migrate_slots, _known_primary(view, order.migrate_slots.to_node_id)
        slots = slots_of(wished.slots) - target.slots
        _check_owner(view, slots, view.own_id)
        if wished.key_by_key:
            await self._pod.mover.begin(server, view.own_id, target, slots)
            return
        if not moves_whole_slots((server.info or {}).get("valkey_version", "")):
            raise Refusal(Guard.SLOTS_GO_KEY_BY_KEY_BEFORE_9, "this server cannot move slots as a whole")
        waiting = slots - _under_way(view, target)
        if waiting:
            ranges = [end for each in as_ranges(waiting) for end in each]
            await self._pod.hush.begin(server)
            await server.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *ranges, "NODE", target.id)

    async def _cancel(self, _order: contract.Order) -> None:
        server, _ = await seen(self._pod)
        await self._pod.mover.cancel()
        if moves_whole_slots((server.info or {}).get("valkey_version", "")):
            try:
                await server.call("EVAL_RO", CALL_OFF, 0)
            except Refused as refusal:
                if "No migrations ongoing" not in str(refusal):
                    raise

    async def _import(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        source = order.import_slots.from_node_id
        slots = slots_of(order.import_slots.slots) - view.own.slots
        _known_primary(view, source)
        _check_owner(view, slots, source)
        marked = {mark.slot for mark in view.importing if mark.other_id == source}
        await set_slots(server, slots - marked, "IMPORTING", source)

    async def _claim(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        source = order.claim_slots.from_node_id
        slots = slots_of(order.claim_slots.slots) - view.own.slots
        if not slots:
            return
        _check_owner(view, slots, source)
        unmarked = slots - {mark.slot for mark in view.importing if mark.other_id == source}
        if unmarked:
            raise Refusal(
                Guard.ONLY_IMPORTED_SLOTS_ARE_CLAIMED, f"slots {as_text(unmarked)} were not imported"
            )
        await self._check_emptied(order.claim_slots, view.own_id, slots)
        await set_slots(server, slots, "NODE", view.own_id)

    async def _check_emptied(self, wished: contract.ClaimSlots, own_id: str, slots: frozenset[int]) -> None:
        said = await self._pod.peer(wished.from_node)
        view = said.server.cluster if said is not None else contract.ClusterView()
        emptied = frozenset(
            slot
            for each in view.migrations
            if each.target_id == own_id and each.state == EMPTIED and each.is_key_by_key
            for slot in slots_of(each.slots)
        )
        if view.node_id != wished.from_node_id or slots - emptied:
            raise Refusal(
                Guard.ONLY_EMPTIED_SLOTS_ARE_CLAIMED,
                f"{wished.from_node} does not say that slots {as_text(slots - emptied) or 'of this id'} are empty",
            )


def _known_primary(view: ClusterView, node_id: str) -> SeenMember:
    member = view.by_id.get(node_id)
    if member is None or not member.is_primary:
        raise Refusal(Guard.SLOTS_GO_BETWEEN_PRIMARIES, f"{node_id} is not known here as a primary")
    if not view.own.is_primary or node_id == view.own_id:
        raise Refusal(Guard.SLOTS_GO_BETWEEN_PRIMARIES, "this node is no primary, or the other one is itself")
    return member


def _check_owner(view: ClusterView, slots: Iterable[int], owner: str) -> None:
    others = {slot for slot in slots if view.owner_of(slot) != owner}
    if others:
        raise Refusal(Guard.SLOTS_GO_FROM_THEIR_OWNER, f"slots {as_text(others)} do not belong to {owner}")


def _under_way(view: ClusterView, target: SeenMember) -> frozenset[int]:
    """Asked again, what goes there already is left alone."""
    exports = (
        each.ranges
        for each in view.migrations
        if each.is_export and each.state == MigrationState.UNDER_WAY and each.target_id == target.id
    )
    return as_slots(part for ranges in exports for part in ranges)

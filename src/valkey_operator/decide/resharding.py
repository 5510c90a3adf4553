"""Moves slots to where the wish has them: which orders to give now, from what all nodes say.

Pure. Slots that are open are finished first, for their keys are at both ends; then a plan is made of what is owned, and
as much of it is begun as can run at once. Whatever was cut is seen as what it is: under way, open, or not begun.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

from valkey_operator.api.guards import Guard
from valkey_operator.decide import slots
from valkey_operator.decide.actions import Refusal
from valkey_operator.decide.slots import Load, Move, SlotPlan
from valkey_operator.model.cluster import (
    ClusterNode,
    ClusterView,
    MigrationState,
    OpenSlot,
    SeenCluster,
    SeenMigration,
    as_slots,
    as_text,
)

# Writes to a slot wait while it is handed over, for as long as its keys take to be let go at the source.
MOST_SLOTS, MOST_BYTES = 4096, 32 << 20
# Key by key all slots of a batch are open at once, and a client that asks for a key of them is sent to and fro; but
# each batch costs three orders, one after the other.
MOST_OPEN_SLOTS, MOST_OPEN_BYTES = 1024, 8 << 20
# After a migration that failed, in seconds; twice as long after each one that follows.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
FORGOTTEN = 600.0
NO_PLAN = SlotPlan()
BY_HAND = Guard.A_PERSON_STOPPED_IT
GO_ON = "`kubectl valkey reshard` goes on, with --shards to another number"


@dataclass(frozen=True)
class MigrateSlots:
    """From the primary `node` to the primary `to`; it goes on by itself."""

    node: str
    to: str
    to_id: str
    slots: frozenset[int]
    key_by_key: bool

    def __str__(self) -> str:
        way = "key by key" if self.key_by_key else "as a whole"
        return f"MigrateSlots {as_text(self.slots)} from {self.node} to {self.to}, {way}"


@dataclass(frozen=True)
class ImportSlots:
    """The primary `node` takes keys of these from `source` from now on."""

    node: str
    source: str
    source_id: str
    slots: frozenset[int]

    def __str__(self) -> str:
        return f"ImportSlots {as_text(self.slots)} from {self.source} into {self.node}"


@dataclass(frozen=True)
class ClaimSlots:
    """`source` has emptied them; they are `node`'s now."""

    node: str
    source: str
    source_id: str
    slots: frozenset[int]

    def __str__(self) -> str:
        return f"ClaimSlots {as_text(self.slots)} of {self.source} for {self.node}"


@dataclass(frozen=True)
class CancelMigration:
    node: str


@dataclass(frozen=True)
class CarryFunctions:
    """What FUNCTION LOAD has put into `source` is put into `node` too; slots bring only keys."""

    node: str
    source: str


SlotAction = MigrateSlots | ImportSlots | ClaimSlots | CancelMigration | CarryFunctions


@dataclass(frozen=True)
class Resharding:
    """What to do now, how much is left, and why nothing more is begun."""

    actions: tuple[SlotAction, ...] = ()
    plan: SlotPlan = NO_PLAN
    # Moves that are under way or open.
    under_way: tuple[Move, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    # What servers say of migrations that ended badly, one sentence for each that was not begun again.
    troubles: tuple[str, ...] = ()
    # In how many seconds the first of these is begun again; None when none waits for that.
    again: float | None = None
    # What is open cannot go on now, nothing else is on its way, and restarts may be what it waits for.
    is_held: bool = False

    @property
    def remaining(self) -> int:
        return self.plan.remaining + sum(len(move.slots) for move in self.under_way)

    @property
    def remaining_bytes(self) -> int:
        """Estimated."""
        return self.plan.remaining_bytes + sum(move.bytes for move in self.under_way)

    @property
    def is_done(self) -> bool:
        """Who could not look at all shards cannot say so."""
        return not self.actions and not self.remaining and not self.refusals


def plan(
    seen: SeenCluster,
    wished: Collection[int],
    loads: Mapping[int, Load],
    versions: Mapping[str, int],
    is_stopped: bool = False,
) -> Resharding:
    """`loads` by shard, `versions` the major one by node. Nothing is begun while a primary is not seen in office.

    Where a person has stopped it, what goes as a whole is called off, and what is open is finished.
    """
    primaries = {shard: seen.primary_of(shard) for shard in {*seen.shards, *wished}}
    away = sorted(shard for shard, node in primaries.items() if node is None or node.view is None)
    if away:
        return Resharding(refusals=(_refused(Guard.EVERY_SHARD_HAS_A_PRIMARY, _without_primary(away)),))
    there = {shard: node for shard, node in primaries.items() if node is not None}
    transfers = _Transfers(seen, there, versions)
    under_way = tuple(slots.weighed(move, loads) for move in transfers.under_way())
    found = slots.plan(loads, wished, under_way)
    off = under_way if is_stopped else found.cancel
    cancel = [CancelMigration(there[move.source].name) for move in off if transfers.is_whole(move)]
    if cancel:
        return Resharding(tuple(cancel), found, under_way)
    pauses = {shard: transfers.pause(shard) for shard in there}
    going = tuple(
        action
        for move in under_way
        if not pauses[move.source]
        for action in transfers.next_of(move)
        # Who may not get keys may have what has no more of them.
        if isinstance(action, ClaimSlots) or not transfers.why_not(move)
    )
    begins_none = is_stopped or bool(found.too_small)
    # Where nothing more is begun, only what is open is tried again.
    tried = {move.source for move in under_way} if begins_none else there.keys()
    troubles = tuple(transfers.troubles(tried))
    again = min((pauses[shard] for shard in tried if pauses[shard]), default=None)
    may = [move for move in found.moves if not transfers.why_not(move) and not pauses[move.source]]
    chosen = () if begins_none else slots.may_begin(may, under_way)
    begun = [transfers.sized(move, loads[move.source]) for move in chosen]
    actions = (*going, *(action for move in begun for action in transfers.first_of(move)))
    is_held = not actions and transfers.are_held(under_way)
    refusals = _refusals(found, transfers, is_stopped, under_way)
    return Resharding(actions, found, under_way, refusals, troubles, again, is_held)


def _refusals(
    found: SlotPlan, transfers: _Transfers, is_stopped: bool, under_way: Iterable[Move]
) -> tuple[Refusal, ...]:
    if is_stopped:
        why = f"a person has stopped it, and {found.remaining} slots have not moved: {GO_ON}"
        return (*((_refused(BY_HAND, why),) if found.moves else ()), *transfers.against(under_way))
    if found.too_small:
        too_small = (_refused(Guard.EVERY_TARGET_HAS_ROOM, why) for why in found.too_small)
        return (*too_small, *transfers.against(under_way))
    return transfers.against((*under_way, *found.moves))


def _without_primary(shards: Iterable[int]) -> str:
    return f"no primary is seen in shard {', '.join(map(str, shards))}"


def _refused(guard: Guard, why: str) -> Refusal:
    return Refusal("move slots", guard, why)


@dataclass(frozen=True)
class _Transfers:
    """What the two ends of each move say."""

    seen: SeenCluster
    primaries: Mapping[int, ClusterNode]
    versions: Mapping[str, int]

    def is_whole(self, move: Move) -> bool:
        """Both servers can move slots as a whole, and none of these is open."""
        ends = (self.primaries[move.source], self.primaries[move.target])
        return all(self.versions.get(node.name, 0) >= 9 for node in ends) and not (
            self._open(move) & move.slots
        )

    def sized(self, move: Move, load: Load) -> Move:
        most = (MOST_SLOTS, MOST_BYTES) if self.is_whole(move) else (MOST_OPEN_SLOTS, MOST_OPEN_BYTES)
        return slots.batch(move, load, *most)

    def under_way(self) -> tuple[Move, ...]:
        return tuple(
            Move(source, target, found)
            for source in sorted(self.primaries)
            for target in sorted(self.primaries)
            if source != target and (found := self._moving(source, target))
        )

    def why_not(self, move: Move) -> str:
        """An older server does not understand the keys of a newer one."""
        source, target = self.primaries[move.source], self.primaries[move.target]
        is_older = self.versions.get(target.name, 0) < self.versions.get(source.name, 0)
        return f"{target.name} is older than {source.name}: finish the upgrade first" if is_older else ""

    def against(self, moves: Iterable[Move]) -> tuple[Refusal, ...]:
        against = sorted({why for move in moves if (why := self.why_not(move))})
        return tuple(_refused(Guard.SLOTS_DO_NOT_GO_TO_AN_OLDER_SERVER, why) for why in against)

    def are_held(self, under_way: Collection[Move]) -> bool:
        """All of them are open, and none can go on before its source is tried again, or its target is another one."""
        begun = (MigrationState.UNDER_WAY, MigrationState.EMPTIED)
        states = {each.state for node in self.primaries.values() for each in _view(node).migrations}
        cannot = all(self.pause(move.source) or self.why_not(move) for move in under_way)
        return bool(under_way) and cannot and states.isdisjoint(begun)

    def troubles(self, shards: Collection[int]) -> Iterable[str]:
        """Nothing in them counts down: who reads the status later reads it all the same."""
        for shard in sorted(shards):
            failed = self._failed(shard)
            if failed:
                yield (
                    f"{self.primaries[shard].name} could not move slots ({len(failed)} times, tried again within a "
                    f"minute): {failed[0].message}"
                )

    def pause(self, shard: int) -> float:
        """How long this source is still left alone: longer with each failure that follows another."""
        failed = self._failed(shard)
        if not failed:
            return 0.0
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(len(failed) - 1, 10))
        return max(0.0, pause - failed[0].age)

    def _failed(self, shard: int) -> list[SeenMigration]:
        """Its last migrations, newest first, as long as they failed; not those of an earlier day."""
        exports = (each for each in _view(self.primaries[shard]).migrations if each.is_export)
        return list(takewhile(_has_just_failed, exports))

    def first_of(self, move: Move) -> Iterable[SlotAction]:
        """Before any slot comes: its scripts may need the functions."""
        source, target = self.primaries[move.source], self.primaries[move.target]
        if target.libraries < source.libraries:
            yield CarryFunctions(target.name, source.name)
        else:
            yield from self.next_of(move)

    def next_of(self, move: Move) -> Iterable[SlotAction]:
        """One order at a time; none while the servers are at it."""
        source, target = self.primaries[move.source], self.primaries[move.target]
        left = move.slots & _view(source).own.slots
        if not left or left <= self._migrating(source, target, MigrationState.UNDER_WAY):
            return
        if self.is_whole(move):
            yield MigrateSlots(source.name, target.name, target.id, left, key_by_key=False)
            return
        unmarked = left - _marked(_view(target).importing, source.id)
        emptied = left & self._migrating(source, target, MigrationState.EMPTIED)
        if unmarked:
            yield ImportSlots(target.name, source.name, source.id, unmarked)
        elif emptied == left:
            yield ClaimSlots(target.name, source.name, source.id, left)
        else:
            yield MigrateSlots(source.name, target.name, target.id, left, key_by_key=True)

    def _open(self, move: Move) -> frozenset[int]:
        source, target = self.primaries[move.source], self.primaries[move.target]
        return _marked(_view(source).migrating, target.id) | _marked(_view(target).importing, source.id)

    def _moving(self, source: int, target: int) -> frozenset[int]:
        """As the source owns them still: under way, or open at either end."""
        ends = self.primaries[source], self.primaries[target]
        begun = self._open(Move(source, target, frozenset()))
        return (begun | self._migrating(*ends, MigrationState.UNDER_WAY)) & _view(ends[0]).own.slots

    def _migrating(self, source: ClusterNode, target: ClusterNode, state: MigrationState) -> frozenset[int]:
        return _slots_of(
            each
            for each in _view(source).migrations
            if each.is_export and each.target_id == target.id and each.state == state
        )


def _has_just_failed(migration: SeenMigration) -> bool:
    return migration.state == MigrationState.FAILED and migration.age < FORGOTTEN


def _view(node: ClusterNode) -> ClusterView:
    assert node.view is not None
    return node.view


def _marked(marks: Iterable[OpenSlot], other_id: str) -> frozenset[int]:
    return frozenset(mark.slot for mark in marks if mark.other_id == other_id)


def _slots_of(migrations: Iterable[SeenMigration]) -> frozenset[int]:
    return as_slots(part for each in migrations for part in each.ranges)

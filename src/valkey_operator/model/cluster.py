"""A cluster as its servers see it: who is a member, who owns which slots, what is being moved.

A member is known by its id, never by its address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

SLOTS = 16384

SlotRange = tuple[int, int]


def others_than(slots: Collection[int]) -> frozenset[int]:
    """The rest. A set of all slots is not kept: it would be a megabyte in every process."""
    return frozenset(range(SLOTS)).difference(slots) if len(slots) < SLOTS else frozenset()


def as_ranges(slots: Iterable[int]) -> tuple[SlotRange, ...]:
    """The fewest ranges, first and last included, in ascending order."""
    found: list[SlotRange] = []
    for slot in sorted(slots):
        if found and found[-1][1] == slot - 1:
            found[-1] = (found[-1][0], slot)
        else:
            found.append((slot, slot))
    return tuple(found)


def as_slots(ranges: Iterable[SlotRange]) -> frozenset[int]:
    return frozenset(slot for first, last in ranges for slot in range(first, last + 1))


def as_text(slots: Collection[int]) -> str:
    """As people read it: `0-5461,9000`."""
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in as_ranges(slots))


@dataclass(frozen=True)
class SeenMember:
    """One member in the view of one server."""

    id: str
    # `ip:port@bus port`; empty when the server does not know it.
    address: str = ""
    hostname: str = ""
    is_primary: bool = True
    # Of a replica.
    primary_id: str = ""
    config_epoch: int = 0
    is_connected: bool = True
    is_failed: bool = False
    # It has been silent for the node timeout, but the others have not agreed on it.
    is_suspected: bool = False
    # It has not said yet who it is, and its id is not its own.
    is_in_handshake: bool = False
    ranges: tuple[SlotRange, ...] = ()

    @cached_property
    def slots(self) -> frozenset[int]:
        return as_slots(self.ranges)

    @property
    def node(self) -> str:
        """The name of the node that this server runs in, or ran in, as it announces it."""
        return self.hostname.partition(".")[0]

    @property
    def family(self) -> str:
        """Which deployment it is of: its name without shard and number, and where that is; empty when not announced."""
        name, _, place = self.hostname.partition(".")
        return f"{name.rsplit('-', 2)[0]}.{place}" if place else ""

    @property
    def may_vote(self) -> bool:
        return self.is_connected and not self.is_failed and not self.is_suspected


class MigrationState(StrEnum):
    """How a migration of slots stands."""

    UNDER_WAY = "UnderWay"
    # Key by key: the source has no more keys of these slots, and the target may claim them.
    EMPTIED = "Emptied"
    DONE = "Done"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


@dataclass(frozen=True)
class SeenMigration:
    """Slots on their way from one member to another, or what came of it, as one of the two says."""

    name: str
    source_id: str
    target_id: str
    ranges: tuple[SlotRange, ...]
    state: MigrationState
    # In the server's own words.
    message: str = ""
    # Whether the one who says it is the source.
    is_export: bool = True
    is_key_by_key: bool = False
    remaining_bytes: int = 0
    # Since its state changed, in seconds.
    age: float = 0.0


@dataclass(frozen=True)
class OpenSlot:
    """A slot that is moved key by key: marked at one end; `other_id` is the other end."""

    slot: int
    other_id: str


@dataclass(frozen=True)
class ClusterView:
    """What one server says of its cluster."""

    own_id: str
    is_ok: bool = False
    current_epoch: int = 0
    shard_id: str = ""
    members: tuple[SeenMember, ...] = ()
    migrating: tuple[OpenSlot, ...] = ()
    importing: tuple[OpenSlot, ...] = ()
    migrations: tuple[SeenMigration, ...] = ()
    # A digest of CLUSTER SHARDS without what changes by itself; empty when it was not asked for.
    shards_digest: str = ""
    # Its timers are short, so that what it knows travels fast.
    is_hurrying: bool = False
    # It logs warnings only; said by servers, not by sidecars.
    is_hushed: bool = False
    # It does not stand for election; said by servers, not by sidecars.
    is_barred: bool = False
    # What it does when it cannot write down what it knows of the others; said by servers that leave a choice.
    saving: str = ""

    @cached_property
    def by_id(self) -> dict[str, SeenMember]:
        return {member.id: member for member in self.members if not member.is_in_handshake}

    @property
    def own(self) -> SeenMember:
        return self.by_id.get(self.own_id, SeenMember(self.own_id))

    @property
    def is_alone(self) -> bool:
        return len(self.members) <= 1

    @property
    def sees_a_majority(self) -> bool:
        """Of those that vote: primaries with slots."""
        voters = [each for each in self.by_id.values() if each.is_primary and each.ranges]
        return sum(each.may_vote for each in voters) > len(voters) // 2

    def owner_of(self, slot: int) -> str:
        """The id, or nothing when nobody owns it."""
        return self._owners.get(slot, "")

    @cached_property
    def _owners(self) -> dict[int, str]:
        return {slot: member.id for member in self.by_id.values() for slot in member.slots}


@dataclass(frozen=True)
class ClusterNode:
    """One node of ours, as it was seen during this look."""

    name: str
    shard: int
    index: int
    # None when it did not answer.
    view: ClusterView | None = None
    # Its id at the last time it answered; empty when it never did.
    known_id: str = ""
    keys: int = 0
    # Of functions.
    libraries: int = 0
    # Of a replica: it has its primary's data and gets what follows.
    is_in_sync: bool = False
    # A silent one that never ran and has no volume holds nothing; any other may.
    may_hold_data: bool = True

    @property
    def id(self) -> str:
        return self.view.own_id if self.view is not None else self.known_id

    @property
    def address(self) -> str:
        return self.view.own.address if self.view is not None else ""


# Names of two nodes: of who does not hear, and of who is not heard.
Pair = tuple[str, str]


@dataclass(frozen=True)
class SeenCluster:
    """All nodes of ours, and whether every slot has had an owner before."""

    nodes: tuple[ClusterNode, ...]
    is_formed: bool = False
    # Names of nodes that are being removed, whose pods may still run.
    leaving: frozenset[str] = frozenset()
    # For how many seconds two nodes have not heard each other.
    apart_for: Mapping[Pair, float] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[str, ClusterNode]:
        return {node.id: node for node in self.nodes if node.id}

    @cached_property
    def answered(self) -> tuple[tuple[ClusterNode, ClusterView], ...]:
        return tuple((node, node.view) for node in self.nodes if node.view is not None)

    @property
    def shards(self) -> tuple[int, ...]:
        return tuple(sorted({node.shard for node in self.nodes}))

    @cached_property
    def _families(self) -> frozenset[str]:
        return frozenset(view.own.family for _, view in self.answered if view.own.family)

    @cached_property
    def _family_of(self) -> dict[str, str]:
        """By id. Names are not passed on: one who has never heard that member itself does not know its name."""
        known = (each for _, view in self.answered for each in view.by_id.values())
        return {each.id: each.family for each in known if each.family}

    def is_former(self, member: SeenMember) -> bool:
        """It announced the name of a node of this deployment."""
        return self._family_of.get(member.id) in self._families

    def was_removed(self, member: SeenMember) -> bool:
        """It announced the name of a node of this deployment that is no more, nor is its pod: that goes first."""
        return self.is_former(member) and self._name_of[member.id] not in self._names

    def is_leaving(self, member_id: str) -> bool:
        """Its node is being removed, and its server may still run, and own by now what was on its way to it."""
        return self._name_of.get(member_id) in self.leaving

    @cached_property
    def absent(self) -> frozenset[str]:
        """Names of nodes of this deployment that own slots which nobody serves, and that do not exist now: they have
        their data on their volumes."""
        known = (each for _, view in self.answered for each in view.by_id.values() if each.ranges)
        away = [each for each in known if each.id not in self.by_id and self.is_former(each)]
        there = self._names - self.leaving
        return frozenset(self._name_of[each.id] for each in away if each.slots - self.served) - there

    def is_absent(self, member: SeenMember) -> bool:
        return self._name_of.get(member.id) in self.absent

    @cached_property
    def _names(self) -> frozenset[str]:
        own = (view.own.node for _, view in self.answered)
        return self.leaving.union((node.name for node in self.nodes), own)

    @cached_property
    def _name_of(self) -> dict[str, str]:
        known = (each for _, view in self.answered for each in view.by_id.values())
        return {each.id: each.node for each in known if each.node}

    def is_foreign(self, member: SeenMember) -> bool:
        """It announces the name of a node of another deployment."""
        family = self._family_of.get(member.id)
        return family is not None and bool(self._families) and family not in self._families

    def is_known_to_all(self, member: SeenMember) -> bool:
        """So it came with none of them from elsewhere."""
        return all(member.id in view.by_id for _, view in self.answered if not view.is_alone)

    @cached_property
    def owned(self) -> frozenset[int]:
        """Slots that have an owner in anybody's view."""
        # Most views say the same: by ranges that is little to look at.
        return as_slots(
            {part for _, view in self.answered for member in view.by_id.values() for part in member.ranges}
        )

    @cached_property
    def served(self) -> frozenset[int]:
        """Slots that a node of ours owns in anybody's view; those of servers that are gone are not served."""
        members = (each for _, view in self.answered for each in view.by_id.values() if each.id in self.by_id)
        return as_slots({part for each in members for part in each.ranges})

    def primary_of(self, shard: int) -> ClusterNode | None:
        """Who owns its slots, by the newest word on it; else who is followed; else the first that is a primary.

        Nobody while one of the shard follows an owner that is none of our nodes any more: that one has the data, and
        must not follow an empty one that came after it.
        """
        nodes = [node for node in self.nodes if node.shard == shard and node.id]
        epochs = {node.name: self._epoch_of(node) for node in nodes}
        owners = [node for node in nodes if epochs[node.name] is not None]
        if owners:
            return max(owners, key=lambda node: epochs[node.name] or 0)
        if self.orphaned(shard):
            return None
        followed = {node.view.own.primary_id for node in nodes if node.view is not None}
        primaries = [node for node in nodes if node.view is not None and node.view.own.is_primary]
        # Who takes slots has keys that nobody else has.
        return min(
            primaries,
            key=lambda node: (not node.view or not node.view.importing, node.id not in followed, node.index),
            default=None,
        )

    def orphaned(self, shard: int) -> SeenMember | None:
        """The owner of the shard's slots that is none of our nodes any more, and still has a replica among them; or who
        was to be their owner, key by key, when it went: that replica alone has the keys that had come."""
        for node, view in self.answered:
            owner = view.by_id.get(view.own.primary_id)
            is_gone = node.shard == shard and owner is not None and owner.id not in self.by_id
            if is_gone and owner is not None and (owner.ranges or view.importing):
                return owner
        return None

    def _epoch_of(self, node: ClusterNode) -> int | None:
        """The config epoch under which somebody sees it as an owner of slots."""
        seen = (view.by_id.get(node.id) for _, view in self.answered)
        return max((each.config_epoch for each in seen if each is not None and each.ranges), default=None)

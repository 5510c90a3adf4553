"""A cluster with its pods, as it was seen: what is asked for, and what each node says beside its own view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from valkey_operator.model.cluster import ClusterNode, Pair, SeenCluster
from valkey_operator.model.gate import Disk
from valkey_operator.model.instance import LastWord, SeenPod, TakenOver


@dataclass(frozen=True)
class ClusterWish:
    """What people ask for, as far as a decision depends on it."""

    shards: int = 3
    # Pods of each shard.
    replicas: int = 1
    is_paused: bool = False
    keeps_data: bool = True
    rolls: bool = True
    is_supervised: bool = False
    window_is_open: bool = True
    max_parallel_shards: int = 1
    # A person asks for another primary of a shard: the node that is to be it; None when nobody asks.
    switchover: str | None = None
    # A person has stopped the moves to this number of shards.
    is_stopped: bool = False
    # Shards that a person has named, and that have not been made use of: whose primary may be replaced without proof
    # that it is dead; and whose slots may be served again without what was in them.
    allows_takeover: frozenset[int] = frozenset()
    allows_data_loss: frozenset[int] = frozenset()
    # Of the request for another primary: its id, and for how many seconds it is known.
    request: str = ""
    asked_for: float = 0.0


@dataclass(frozen=True)
class Progress:
    """Of slots that move, by number."""

    done: int
    total: int


@dataclass(frozen=True)
class Change:
    """Of the primary of a shard."""

    shard: int
    former: str
    to: str
    is_planned: bool


# Of a server that is gone: its pod is, and the next one brings its volume.
POD_ENDED = "its kubelet has ended its pod for good"


@dataclass(frozen=True)
class ShardNode:
    """One node with its pod, and the last word of its sidecar."""

    node: ClusterNode
    is_being_deleted: bool = False
    pod: SeenPod | None = None
    # Its sidecar has said something; how long ago; and that its server does not run, since then.
    is_heard: bool = False
    age: float = 0.0
    is_dead: bool = False
    dead_for: float = 0.0
    # Its server runs, has not served yet, and has its data in a moment; or loads a copy of its primary.
    is_loading: bool = False
    # No other pod of this node can run a server unseen: what its sidecar says is true of the node.
    is_alone: bool = True
    # A pod that was there before, and of whose end nothing is known, may run a server on another machine.
    may_run_elsewhere: bool = False
    # How far its server was when it was last heard; None when it never was.
    last_up: LastWord | None = None
    disk: Disk = field(default_factory=Disk)
    volume_is_full: bool = False
    offset: int = 0
    # Of a replica: for how long its link to its primary is down; and whether it was up since its server started, where
    # that is known.
    unlinked_for: float = 0.0
    was_linked: bool | None = True
    # Its server waits to be let in.
    is_at_the_gate: bool = False
    # Of its server: from 9 on whole slots are handed over, before that key by key.
    major_version: int = 9
    used_bytes: int = 0
    max_bytes: int = 0
    # It was asked during this look, and answered or did not; None when it was not asked.
    answered: bool | None = None
    needs_restart: str = ""
    # What is told of it is of an older spec, or of the pod before: nobody knows yet what this one needs.
    is_behind: bool = False
    # Where its pod runs, or ran.
    machine: str = ""
    taken_over: TakenOver | None = None

    @property
    def name(self) -> str:
        return self.node.name

    def unheard(self) -> ShardNode:
        silent = replace(self.node, view=None, known_id=self.node.id)
        return replace(self, node=silent, is_heard=False, is_dead=False, is_loading=False)


@dataclass(frozen=True)
class SeenSharded:
    """Everything one decision stands on."""

    name: str
    wish: ClusterWish = ClusterWish()
    nodes: tuple[ShardNode, ...] = ()
    # Every slot has had an owner before.
    is_formed: bool = False
    # The kind of the operation that was under way at the last look; empty for none.
    operation: str = ""
    # How far it was then; None where it does not count, or where the wish has changed since.
    progress: Progress | None = None
    # Servers that cannot run any more, by id: how that is known, other than from their sidecars.
    gone: Mapping[str, str] = field(default_factory=dict)
    # The primary of each shard, as it was last known.
    primaries: Mapping[int, str] = field(default_factory=dict)
    # The change that was recorded last, before it was ordered, where nobody has seen since who is in office there.
    recorded: Change | None = None
    # For how many seconds two nodes have not heard each other.
    apart_for: Mapping[Pair, float] = field(default_factory=dict)
    # How many keys are in each slot, as far as they were counted; None: nobody was asked.
    slot_keys: Mapping[int, int] | None = None

    @property
    def is_to_be_counted(self) -> bool:
        """Slots are about to leave a shard, or to come to a new one: what is in them decides which."""
        if self.slot_keys is not None or not self.is_formed or not self.wish.replicas:
            return False
        wished = range(self.wish.shards)
        primaries = {shard: self.cluster.primary_of(shard) for shard in {*self.cluster.shards, *wished}}
        views = {shard: node.view if node is not None else None for shard, node in primaries.items()}
        if any(view is None for view in views.values()):
            return False  # somebody is away, and nothing moves
        return {shard for shard, view in views.items() if view and view.own.slots} != set(wished)

    @cached_property
    def cluster(self) -> SeenCluster:
        there = tuple(each.node for each in self.nodes if not each.is_being_deleted)
        leaving = frozenset(each.name for each in self.nodes if each.is_being_deleted)
        return SeenCluster(there, self.is_formed, leaving, self.apart_for)

    def of(self, name: str) -> ShardNode | None:
        return next((each for each in self.nodes if each.name == name), None)

    def primary_of(self, shard: int) -> ShardNode | None:
        found = self.cluster.primary_of(shard)
        return self.of(found.name) if found is not None else None

    def in_shard(self, shard: int) -> list[ShardNode]:
        return [each for each in self.nodes if each.node.shard == shard and not each.is_being_deleted]

    def remembered(self, limit: float) -> SeenSharded:
        """What was said longer ago than this was not said."""
        nodes = (each if each.age <= limit else each.unheard() for each in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def believed(self) -> SeenSharded:
        """Only what was said during this look: an older word may be from before our own last step."""
        nodes = (each if each.answered else each.unheard() for each in self.nodes)
        return replace(self, nodes=tuple(nodes))

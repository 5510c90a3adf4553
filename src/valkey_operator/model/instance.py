"""One primary and its replicas, as they were seen: what is asked for, what is recorded, and what each node says.

Times are seconds that have passed, by a clock that never jumps: what a lease depends on must not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf

from valkey_operator.model.gate import Disk, Record

# What a replica says that has never been in sync.
NEVER_IN_SYNC = 1


@dataclass(frozen=True)
class Wish:
    """What people ask for, as far as a decision depends on it."""

    replicas: int = 1
    is_paused: bool = False
    # A server that stops in good order leaves everything on a volume that the next one finds.
    keeps_data: bool = True
    min_replicas_to_write: int = 0
    rolls: bool = True  # update.strategy is Rolling
    is_supervised: bool = False
    window_is_open: bool = True
    # Nodes whose data a person has given up.
    gives_up: frozenset[str] = frozenset()
    # A person asks for another primary: its name, or "" for the best one; None when nobody asks.
    switchover: str | None = None
    # Of that request: its id, and for how many seconds it is known and was not taken up.
    request: str = ""
    asked_for: float = 0.0


@dataclass(frozen=True)
class SeenServer:
    """A server that runs, as it answered; one that does not answer has no role."""

    answers: bool = True
    is_primary: bool = False
    is_replica: bool = False
    is_loading: bool = False
    # Of a replica: the node it follows, whether the link is up, whether it takes over a whole copy.
    follows: str = ""
    link_is_up: bool = False
    is_syncing: bool = False
    history: str = ""
    offset: int = 0
    keys: int = 0
    # For how many seconds nothing came through the link.
    silent_for: int = 0
    # Of a primary: it has cut connections for which more waited than their buffer may hold.
    has_cut_off: bool = False

    @property
    def has_data(self) -> bool:
        """One whose keys were all deleted holds that fact, and its offset tells."""
        return not self.answers or self.is_loading or self.keys > 0 or self.offset > NEVER_IN_SYNC


@dataclass(frozen=True)
class TakenOver:
    """From whom a server took over with every write, and in which epoch; in a cluster its config epoch."""

    former: str
    epoch: int = 0
    # Whether it has every write is not known yet.
    is_under_way: bool = False


@dataclass(frozen=True)
class Said:
    """What a node's sidecar said last, and how long ago; no server means that none runs in this pod."""

    age: float = 0.0
    server: SeenServer | None = None
    gate_is_asked: bool = False
    gate_waits_for: str = ""
    disk: Disk = field(default_factory=Disk)
    record: Record = field(default_factory=Record)
    # Since when this operator knows that the sidecar has noted this record, in seconds.
    noted_for: float = 0.0
    is_fenced: bool = False
    volume_is_full: bool = False
    taken_over: TakenOver | None = None


@dataclass(frozen=True)
class LastWord:
    """How far a server was when it was last heard."""

    offset: int
    age: float
    # It took no writes any more, so it has not gone further since.
    is_final: bool = False


@dataclass(frozen=True)
class SeenPod:
    """The very pod the operator deals with."""

    uid: str = ""
    is_ready: bool = False
    is_being_deleted: bool = False
    # When it is killed, unless it has ended by then; None: it is not being stopped.
    ends_at: datetime | None = None
    # A machine was found for it; and for how long none was.
    is_placed: bool = True
    unplaced_for: float = 0.0
    # Its machine does not report any more, or its object says so.
    machine_is_lost: bool = False
    has_run: bool = True
    # Why a container does not come up, in a sentence; empty while nothing is known to be wrong.
    fault: str = ""
    # The same for the pod: also that no machine takes it.
    trouble: str = ""
    # Its sidecar is of another image than it would be now; it was told to change, and the new one does not run yet.
    has_old_sidecar: bool = False
    sidecar_is_changing: bool = False


@dataclass(frozen=True)
class NodeRecord:
    """What a node's spec says of the topology."""

    epoch: int
    primary: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class SeenNode:
    """One ValkeyNode with its pod and the last word of its sidecar."""

    name: str
    index: int
    is_being_deleted: bool = False
    # Its claim is bound: there may be data on it.
    has_volume: bool = False
    spec: NodeRecord | None = None
    pod: SeenPod | None = None
    said: Said | None = None
    # Without a word of it: for how long; None when it was never heard by this operator.
    unheard_for: float | None = None
    # It was asked during this look, and answered or did not; None when it was not asked.
    answered: bool | None = None
    # It was asked in vain at an earlier look, and nothing was heard of it since.
    has_not_answered: bool = False
    # Its end was seen, and nothing was heard of it since; and for how long no server runs, as far as known.
    was_seen_dying: bool = False
    dead_for: float = 0.0
    # An earlier pod of this node may still run somewhere: it was taken away by force, and nobody has seen its end.
    may_have_a_twin: bool = False
    # This run of the replica's server was in sync when the primary was last known to live; None: nobody knows.
    was_in_sync: bool | None = None
    last_up: LastWord | None = None
    # Why it needs a restart; empty when it does not.
    needs_restart: str = ""
    # What is asked of it now was not brought to its pod yet, so nobody knows what that needs.
    is_behind: bool = False

    @property
    def server(self) -> SeenServer | None:
        return self.said.server if self.said is not None else None


@dataclass(frozen=True)
class Loss:
    """How much a change can have lost at most; None is not known."""

    bytes: int | None = None
    seconds: int | None = None
    is_unknown: bool = False


NOTHING_LOST = Loss(0, 0)


@dataclass(frozen=True)
class LastFailover:
    """The last change of the primary, as the status holds it; done when the new primary was seen in office."""

    epoch: int
    former: str
    to: str
    is_planned: bool
    reason: str
    at: datetime
    is_done: bool = False
    loss: Loss = NOTHING_LOST


@dataclass(frozen=True)
class Lease:
    """What this operator has granted to the recorded primary."""

    # How long this operator leads, and how long ago it granted last; None: not yet.
    leads_for: float = 0.0
    last_grant: float | None = None
    # How long ago the primary asked last; None: not yet.
    last_request: float | None = None
    # Named in the last request and in the answer to it: the primary does not write without them or a grant.
    counted_on: frozenset[str] = frozenset()
    # Named in either of them: without a grant the primary may have to wait for their word.
    relied_on: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SeenInstance:
    """Everything one decision stands on."""

    name: str
    wish: Wish = Wish()
    record: Record = field(default_factory=Record)
    promotable: tuple[str, ...] = ()
    last_failover: LastFailover | None = None
    service: str = ""
    nodes: tuple[SeenNode, ...] = ()
    lease: Lease = field(default_factory=Lease)
    # The kind of the operation that was under way at the last look; empty for none.
    operation: str = ""
    # For how many seconds no pod has come, gone, or changed whether it is ready.
    quiet_for: float = inf
    # For how many seconds the Service leads where it does, as far as this operator has moved it.
    moved_for: float = inf
    # The one in office has refused to hand over, or could not, in this epoch.
    handover_failed: bool = False

    def node(self, name: str) -> SeenNode | None:
        return next((node for node in self.nodes if node.name == name), None)

    def change(self) -> LastFailover | None:
        """The change of the primary that is recorded and not done."""
        last = self.last_failover
        return last if last is not None and last.epoch == self.record.epoch and not last.is_done else None

    def remembered(self, limit: float, *, but: str = "") -> SeenInstance:
        """What was said longer ago than this was not said, nor was anything by the one that is named."""
        return self._believing(lambda node, said: said.age <= limit and node.name != but)

    def silence(self) -> float | None:
        """How long ago the primary said or asked something; None when it never asked this operator for a lease."""
        primary, asked = self.node(self.record.primary), self.lease.last_request
        if asked is None or primary is None:
            return None
        if primary.said is not None:
            return min(asked, primary.said.age)
        return asked if primary.unheard_for is None else min(asked, primary.unheard_for)

    def answered(self) -> SeenInstance:
        """Only what was said during this look: an older word may be from before our own last step."""
        return self._believing(lambda node, _said: node.answered is True)

    def _believing(self, is_believed: Callable[[SeenNode, Said], bool]) -> SeenInstance:
        nodes = (
            node
            if node.said is None or is_believed(node, node.said)
            else replace(node, said=None, unheard_for=node.said.age)
            for node in self.nodes
        )
        return replace(self, nodes=tuple(nodes))

"""What this process remembers of nodes beyond their last word: how far they were, since when they are gone.

Nothing here survives the process. A new leader knows less, and waits longer before it acts on silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator.observations import Events

# A primary that was heard of within this time is known to live.
LIVES = 10.0
DIED, STARTED = contract.Event.KIND_SERVER_DIED, contract.Event.KIND_SERVER_STARTED


@dataclass
class Remembered:
    """Of one node; times on this process's monotonic clock."""

    pod_uid: str = ""
    # In a cluster: as its server said last; and since when its link to its primary is down.
    node_id: str = ""
    link_lost_at: float | None = None
    # Whether that link was up in this run of the server; None: nobody knows.
    was_linked: bool | None = None
    # Where the server that was heard last runs, and in which pod.
    machine: str = ""
    placed_uid: str = ""
    # Ids of servers whose end their kubelet has told, and that were not heard since.
    ended: set[str] = field(default_factory=set)
    heard_at: float | None = None
    # It was asked in vain, and nothing was heard of it since.
    has_not_answered: bool = False
    # When each epoch was first seen noted, by this pod's sidecar.
    noted_at: dict[int, float] = field(default_factory=dict)
    # The server's offset when it was last heard, and whether it took no writes any more.
    last_offset: int = 0
    last_up_at: float | None = None
    was_final: bool = False
    died_at: float | None = None
    # Of this run of the server; None: nobody knows.
    in_sync: bool | None = None
    unplaced_since: float | None = None
    # The pod of which its kubelet has told the end, or whose machine is gone.
    ended_uid: str = ""
    # Machines of earlier pods that were gone before their server was seen to end, and since when that is known; without
    # a name where nobody knows where it ran.
    lost: dict[str, float] = field(default_factory=dict)

    def is_known_on(self, machine: str) -> bool:
        return machine == self.machine or machine in self.lost

    @property
    def was_up(self) -> bool:
        """When the pod that was heard last was, and nobody has seen its server end."""
        is_over = self.died_at is not None or self.ended_uid == self.pod_uid
        return bool(self.pod_uid) and self.last_up_at is not None and not is_over


class Memory:
    """By node."""

    def __init__(
        self, primary_of: Callable[[Key], Key | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.now = now
        self._primary_of = primary_of
        self._nodes: dict[Key, Remembered] = {}
        # When each request was first seen; the last one of a deployment counts.
        self._asked: dict[Key, tuple[str, float]] = {}
        # When a pod was last seen to change, by deployment.
        self._stirred: dict[Key, float] = {}
        # When this process moved its Service last, by deployment.
        self._moved: dict[Key, float] = {}
        # The last epoch in which the one in office did not hand over, by deployment.
        self._failed_handovers: dict[Key, int] = {}
        # Primaries that were seen in office since this process began.
        self._seen_in_office: set[Key] = set()

    def stir(self, deployment: Key) -> None:
        """A pod of it has come or gone, or is ready or not any more."""
        self._stirred[deployment] = self.now()

    def quiet_for(self, deployment: Key) -> float:
        return self.now() - self._stirred.get(deployment, -inf)

    def note_moved(self, deployment: Key) -> None:
        self._moved[deployment] = self.now()

    def moved_for(self, deployment: Key) -> float:
        return self.now() - self._moved.get(deployment, -inf)

    def note_failed_handover(self, deployment: Key, epoch: int) -> None:
        self._failed_handovers[deployment] = epoch

    def handover_failed(self, deployment: Key, epoch: int) -> bool:
        return self._failed_handovers.get(deployment) == epoch

    def asked_for(self, deployment: Key, request: str) -> float:
        """For how many seconds this request is known."""
        if self._asked.get(deployment, ("", 0.0))[0] != request:
            self._asked[deployment] = request, self.now()
        return self.now() - self._asked[deployment][1]

    def of(self, node: Key) -> Remembered:
        return self._nodes.setdefault(node, Remembered())

    def forget(self, node: Key) -> None:
        self._nodes.pop(node, None)
        self._seen_in_office.discard(node)

    def end(self, node: Key, pod_uid: str) -> None:
        """Its kubelet has ended this pod for good."""
        known = self.of(node)
        if known.pod_uid != pod_uid:
            return
        known.ended_uid = pod_uid
        if known.node_id:
            known.ended.add(known.node_id)

    def has_seen_in_office(self, primary: Key) -> bool:
        return primary in self._seen_in_office

    def hear(
        self, node: Key, _before: contract.Observation | None, seen: contract.Observation, events: Events
    ) -> None:
        """As a listener of `Observations`."""
        known = self.of(node)
        if known.pod_uid != seen.pod_uid:
            if known.was_up:
                known.lost[known.machine if known.placed_uid == known.pod_uid else ""] = self.now()
            known.was_linked = False if known.pod_uid else None
            known.pod_uid, known.noted_at, known.in_sync = seen.pod_uid, {}, None
        known.heard_at, known.has_not_answered = self.now(), False
        known.noted_at.setdefault(seen.record.epoch, self.now())
        if any(event.kind in (DIED, STARTED) for event in events):
            known.in_sync, known.was_linked = None, False
        if not seen.HasField("server"):
            known.died_at = known.died_at if known.died_at is not None else self.now()
            if seen.HasField("last_word"):
                known.was_final = known.was_final and known.last_offset == seen.last_word.offset
                known.last_offset = seen.last_word.offset
                known.last_up_at = self.now() - seen.last_word.milliseconds_ago / 1000
            return
        known.died_at, known.ended_uid = None, ""
        known.ended.discard(seen.server.cluster.node_id)
        if seen.server.answers:
            known.last_offset, known.last_up_at = seen.server.replication.offset, self.now()
            known.was_final = seen.is_fenced
            self._judge_sync(node, known, seen.server)
            self._note_link(known, seen.server)

    def _judge_sync(self, node: Key, known: Remembered, server: contract.Server) -> None:
        """Only while the primary is known to live does a broken link speak against a replica."""
        primary = self._primary_of(node)
        if primary is None or primary == node:
            if primary == node and server.role == contract.ROLE_PRIMARY:
                self._seen_in_office.add(node)
            return
        link = server.replication
        # One that follows another replica is only as far as that one.
        if link.link_is_up and link.primary_address.partition(".")[0] == primary.name:
            known.in_sync = True
            known.lost.clear()  # somebody else has been in office since
        elif self._lives(primary):
            known.in_sync = False

    def _note_link(self, known: Remembered, server: contract.Server) -> None:
        if server.replication.link_is_up:
            known.was_linked = True
            if server.HasField("cluster"):
                known.lost.clear()  # the others have voted for somebody else since
        if server.role == contract.ROLE_PRIMARY or server.replication.link_is_up:
            known.link_lost_at = None
        elif known.link_lost_at is None:
            known.link_lost_at = self.now()

    def _lives(self, primary: Key) -> bool:
        """Its server has answered: one that hangs holds no link, and that is not the replica's fault."""
        known = self.of(primary)
        is_recent = known.last_up_at is not None and self.now() - known.last_up_at <= LIVES
        return is_recent and known.died_at is None

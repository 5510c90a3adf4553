"""A world for one primary and its replicas: volumes, pods, servers, sidecars with the real gate, clients that write.

Data is a list of writes; a replica holds a beginning of its primary's. What the operator does is in instance_operator.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from valkey_operator.model.gate import Disk, Lineage, Member, Record, Silence, Start
from valkey_operator.model.instance import NodeRecord
from valkey_operator.sidecar import gate

TICK = 0.5
# What replicas acknowledge lasts no longer than a grant.
GRANT, ACKNOWLEDGED, ASKS_EVERY = 6.0, 4.0, 2.0
# How long a primary's pod waits to be handed over before it saves and stops.
GRACE = 8.0


@dataclass
class Volume:
    """What outlives a pod, and with a claim the node."""

    log: list[int] = field(default_factory=list)
    is_clean: bool = False
    record: Record = field(default_factory=Record)
    history: str = ""


@dataclass
class Server:
    run: int
    log: list[int]
    history: str
    follows: str = ""
    link_is_up: bool = False
    is_syncing: bool = False


@dataclass
class Pod:
    uid: str
    version: int
    volume: Volume
    told: NodeRecord
    server: Server | None = None
    is_allowed: bool = False
    stops_at: float | None = None
    is_cut_off: bool = False  # from everybody
    is_unheard: bool = False  # by the operator alone
    # Its sidecar is away, and its server goes on as it was: with or without the fence.
    has_no_sidecar: bool = False
    wrote: bool = False
    starts_at: float = 0.0
    waits_for: str = ""
    # The primary's lease: until when it may write, on whom it counts (None: it does not know), when it asks again.
    writes_until: float = 0.0
    counted_on: tuple[str, ...] | None = None
    asks_at: float = 0.0

    def record(self) -> Record:
        return max(
            self.volume.record, Record(self.told.epoch, self.told.primary), key=lambda each: each.epoch
        )


@dataclass
class Node:
    name: str
    spec: NodeRecord
    volume: Volume
    pod: Pod | None = None
    is_being_deleted: bool = False
    is_unplaced: bool = False
    unplaced_since: float = 0.0

    @property
    def server(self) -> Server | None:
        return self.pod.server if self.pod is not None else None


class World:
    """Everything but the operator."""

    def __init__(self, seed: int, *, keeps_data: bool = True, has_log: bool = False) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a game
        self.keeps_data, self.has_log = keeps_data, has_log
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.volumes: dict[str, Volume] = {}
        self.numbers: Iterator[int] = itertools.count(1)
        self.version, self.bad_versions = 1, set[int]()
        self.acknowledged: list[int] = []
        self.service = ""
        # Pairs of nodes between which the network is cut.
        self.cuts: set[frozenset[str]] = set()
        self.crashes = 0
        # The operator's answer to a lease request: on whom the primary counts, or None.
        self.grant_to: Callable[[Node, Pod], tuple[str, ...] | None] = lambda _node, _pod: None
        self.story: list[str] = []

    def tell(self, line: str) -> None:
        self.story.append(f"{self.now:7.1f} {line}")

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    # What Kubernetes does.

    def make_node(self, name: str, spec: NodeRecord) -> None:
        volume = self.volumes.setdefault(name, Volume()) if self.keeps_data else Volume()
        self.nodes[name] = Node(name, spec, volume)

    def stop(self, node: Node) -> None:
        """Its pod is deleted; a primary waits for a handover."""
        if node.pod is not None and node.pod.stops_at is None:
            self.tell(f"the pod of {node.name} is being stopped")
            node.pod.stops_at = self.now + GRACE

    def kubelet(self, node: Node) -> None:
        pod = node.pod
        if pod is None:
            if node.is_being_deleted:
                del self.nodes[node.name]
            elif not node.is_unplaced and self.chance(0.5):
                volume = node.volume if self.keeps_data else Volume()
                node.volume = volume
                number = next(self.numbers)
                node.pod = Pod(f"pod-{number}", self.version, volume, node.spec, starts_at=self.now + TICK)
            return
        if node.is_being_deleted:
            self.stop(node)
        if pod.stops_at is not None and not pod.is_cut_off:
            is_primary = pod.server is not None and not pod.server.follows
            if not is_primary or self.now >= pod.stops_at or len(pod.told.members) < 2:
                self.end_cleanly(node, pod)
        elif not pod.has_no_sidecar and self.may_ask(pod):
            self.knock(node, pod)

    def may_ask(self, pod: Pod) -> bool:
        return pod.server is None and pod.version not in self.bad_versions and self.now >= pod.starts_at

    def end_cleanly(self, node: Node, pod: Pod) -> None:
        """SHUTDOWN takes no writes any more and waits for replicas that are linked."""
        for other in self.nodes.values():
            server = other.server
            if (
                server is not None
                and server.follows == node.name
                and server.link_is_up
                and pod.server is not None
            ):
                server.log = list(pod.server.log)
        if pod.server is not None and self.keeps_data:
            node.volume.log, node.volume.history = list(pod.server.log), pod.server.history
            node.volume.is_clean = True
        self.tell(f"the pod of {node.name} has ended")
        node.pod = None

    def crash(self, node: Node) -> None:
        pod = node.pod
        if pod is None or pod.server is None:
            return
        self.tell(f"the server of {node.name} crashes as {'replica' if pod.server.follows else 'primary'}")
        self.crashes += 1
        pod.server, pod.starts_at = None, self.now + self.dice.choice([0.0, 1.0, 4.0])

    def take_sidecar(self, node: Node, pod: Pod) -> None:
        self.tell(f"the sidecar of {node.name} is away")
        pod.wrote, pod.has_no_sidecar = self.may_write(node), True

    # What sidecars do.

    def can_talk(self, one: Node, other: Node) -> bool:
        if one.pod is None or other.pod is None or one.pod.is_cut_off or other.pod.is_cut_off:
            return False
        return frozenset({one.name, other.name}) not in self.cuts

    def disk(self, volume: Volume) -> Disk:
        has_data = self.keeps_data and bool(volume.log)
        offset = 0 if self.has_log else len(volume.log)
        is_synced = has_data and self.has_log
        return Disk(has_data, volume.is_clean, is_synced, self.has_log and has_data, volume.history, offset)

    def answer(self, one: Node, name: str) -> Member | Silence:
        other = self.nodes.get(name)
        if other is None or other.pod is None or other.pod.has_no_sidecar or not self.can_talk(one, other):
            return Silence()
        server = other.pod.server
        has_data = server is not None and bool(server.log)
        return Member(server is not None, other.pod.record(), has_data, self.disk(other.volume))

    def knock(self, node: Node, pod: Pod) -> None:
        names = [name for name in pod.told.members if name != node.name]
        unasked: dict[str, Member | Silence] = dict.fromkeys(names, Silence())
        lineage = Lineage(node.volume.history)
        start = Start(node.name, pod.record(), self.disk(node.volume), unasked, lineage, pod.is_allowed)
        if gate.needs_members(start):
            start = replace(start, members={name: self.answer(node, name) for name in names})
        verdict = gate.decide(start)
        if isinstance(verdict, gate.Closed):
            pod.waits_for = str(verdict)
            return
        pod.waits_for, pod.is_allowed, node.volume.is_clean = "", False, False
        node.volume.record = Record(gate.newest_record(start).epoch, verdict.primary)
        follows = "" if verdict.primary == node.name else verdict.primary
        log = list(node.volume.log) if self.keeps_data else []
        pod.server = Server(next(self.numbers), log, node.volume.history or f"h{next(self.numbers)}", follows)
        pod.asks_at = self.now
        if follows:  # a primary begins fenced, with what is left of its lease
            pod.writes_until, pod.counted_on = 0.0, None
        self.tell(f"{node.name} starts as {follows or 'primary'} by {verdict.rule} with {len(log)}")
        if not follows:
            self.check_not_empty(node)

    def check_not_empty(self, node: Node) -> None:
        """An empty node never becomes primary while a full one is there."""
        server = node.server
        if server is None or server.log:
            return
        others = [each for each in self.nodes.values() if each is not node and not each.is_being_deleted]
        full = [each.name for each in others if each.server is not None and each.server.log]
        assert not full, self.failed(f"{node.name} leads empty, {full} are full")

    def promote(self, node: Node, *, by_hand: bool = False) -> None:
        server = node.server
        assert server is not None
        if server.follows:
            self.tell(f"{node.name} is promoted with {len(server.log)}")
            server.follows, server.history, server.link_is_up = "", f"h{next(self.numbers)}", False
            assert node.pod is not None
            node.pod.asks_at = self.now
            if not by_hand:
                node.pod.writes_until, node.pod.counted_on = self.now + GRANT, None
                self.check_not_empty(node)

    def follow(self, node: Node, primary: str) -> None:
        server = node.server
        assert server is not None
        assert node.pod is not None
        server.follows, server.link_is_up, node.pod.writes_until = primary, False, 0.0

    def ask_lease(self, node: Node, pod: Pod) -> None:
        others = [name for name in pod.told.members if name != node.name]
        if self.now < pod.asks_at or pod.has_no_sidecar:
            return
        pod.asks_at = self.now + ASKS_EVERY
        granted = None if pod.is_cut_off or pod.is_unheard else self.grant_to(node, pod)
        if granted is not None:
            pod.counted_on, pod.writes_until = granted, self.now + GRANT
            return
        counted = others if pod.counted_on is None else pod.counted_on
        if all(self.acknowledges(node, pod, name) for name in counted):
            pod.writes_until = max(pod.writes_until, self.now + ACKNOWLEDGED)

    def acknowledges(self, node: Node, pod: Pod, name: str) -> bool:
        other = self.nodes.get(name)
        if other is None or other.pod is None or other.pod.has_no_sidecar or not self.can_talk(node, other):
            return False
        record, server = other.pod.record(), other.pod.server
        follows = server is not None and server.follows == node.name
        return follows and record == Record(pod.record().epoch, node.name)

    def may_write(self, node: Node) -> bool:
        pod = node.pod
        if pod is None or pod.server is None or pod.server.follows:
            return False
        return pod.wrote if pod.has_no_sidecar else self.now < pod.writes_until

    # What time brings.

    def replicate(self, node: Node) -> None:
        server = node.server
        if server is None or not server.follows:
            return
        primary = self.nodes.get(server.follows)
        source = primary.server if primary is not None and self.can_talk(node, primary) else None
        # A replica that has lost its own primary gives its data to nobody.
        serves = source is not None and (not source.follows or source.link_is_up)
        server.link_is_up = serves and source is not server
        if source is None or not server.link_is_up:
            return
        is_part = server.log == source.log[: len(server.log)]
        if not is_part:
            self.tell(
                f"{node.name} takes a whole copy of {server.follows}: {len(source.log)} for {len(server.log)}"
            )
            server.log = list(source.log)
        count = self.dice.choice([0, 1, 1000])
        server.log += source.log[len(server.log) : len(server.log) + count]
        server.history = source.history
        server.is_syncing = False

    def save(self, node: Node) -> None:
        server = node.server
        if server is not None and self.keeps_data and (self.has_log or self.chance(0.05)):
            node.volume.log, node.volume.history = list(server.log), server.history

    def write(self) -> None:
        for node in self.nodes.values():
            if self.may_write(node) and node.server is not None:
                number = next(self.numbers)
                node.server.log.append(number)
                self.acknowledged.append(number)
                if self.has_log:
                    self.save(node)

    def tick(self) -> None:
        self.now += TICK
        for node in list(self.nodes.values()):
            self.kubelet(node)
            pod = node.pod
            if pod is not None and pod.told != node.spec and self.chance(0.6):
                pod.told = node.spec
            self.replicate(node)
            if pod is not None and pod.server is not None and not pod.server.follows:
                self.ask_lease(node, pod)
            self.check()
        self.write()
        for node in self.nodes.values():
            self.save(node)

    def check(self) -> None:
        """Never two that accept writes."""
        writers = [name for name, node in self.nodes.items() if self.may_write(node)]
        assert len(writers) < 2, self.failed(f"{writers} all accept writes")

    def failed(self, what: str) -> str:
        return "\n".join([*self.story[-60:], what])

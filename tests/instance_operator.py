"""An operator in that world: it remembers what it heard, looks, and carries out a plan, cut wherever the dice say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf

from tests.instance_world import Node, Pod, Server, World
from valkey_operator.decide import actions as do
from valkey_operator.decide import lease
from valkey_operator.decide.instance import RECENT, Plan, plan
from valkey_operator.decide.members import wanted_nodes
from valkey_operator.model.gate import Record
from valkey_operator.model.instance import (
    LastFailover,
    LastWord,
    Lease,
    Said,
    SeenInstance,
    SeenNode,
    SeenPod,
    SeenServer,
    Wish,
)

# What a pod says that it has; in this world it is ended sooner.
GRACE = 60
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class Failed(Exception):
    """An order that was refused, or did not arrive."""


@dataclass
class Status:
    """What survives the operator."""

    record: Record = field(default_factory=Record)
    promotable: tuple[str, ...] = ()
    last_failover: LastFailover | None = None
    losses: list[do.RecordPrimary] = field(default_factory=list)
    operation: str = ""


@dataclass
class Heard:
    said: Said
    at: float
    uid: str
    run: int


class Operator:
    def __init__(self, world: World, replicas: int) -> None:
        self.world, self.status, self.wish = world, Status(), Wish(replicas, keeps_data=world.keeps_data)
        self.is_up = True
        # Nobody changes roles by hand, which may lose data whatever the operator does.
        self.trusts_people = True
        world.grant_to = self.grant
        self.begin()

    def begin(self) -> None:
        """A new process: it remembers nothing."""
        self.leads_since = self.world.now
        self.heard: dict[str, Heard] = {}
        self.noted_at: dict[tuple[str, int], float] = {}
        self.in_sync: dict[int, bool] = {}
        self.last_up: dict[str, tuple[int, float]] = {}
        self.died_at: dict[str, float] = {}
        self.last_grant: float | None = None
        self.last_request: float | None = None
        self.counted_on: frozenset[str] = frozenset()
        self.relied_on: frozenset[str] = frozenset()
        self.saw_primary = False
        self.moved_at = -inf

    # What it hears.

    def hear(self, node: Node) -> bool:
        pod = node.pod
        if pod is None or pod.is_cut_off or pod.is_unheard or pod.has_no_sidecar:
            return False
        record, server = pod.record(), pod.server
        self.noted_at.setdefault((pod.uid, record.epoch), self.world.now)
        is_asked = server is None and self.world.now >= pod.starts_at
        said = Said(0.0, seen_server(server), is_asked, pod.waits_for, self.world.disk(node.volume), record)
        self.heard[node.name] = Heard(said, self.world.now, pod.uid, server.run if server else 0)
        if server is None:
            self.died_at.setdefault(node.name, self.world.now)
        else:
            self.died_at.pop(node.name, None)
            self.last_up[node.name] = len(server.log), self.world.now
            self.judge_sync(node, server)
        return True

    def judge_sync(self, node: Node, server: Server) -> None:
        """Only while the primary is known to live does a broken link speak against a replica."""
        if node.name == self.status.record.primary:
            self.saw_primary = self.saw_primary or not server.follows
            return
        known = self.heard.get(self.status.record.primary)
        lives = known is not None and known.said.server is not None and self.world.now - known.at <= 10
        if server.link_is_up:
            self.in_sync[server.run] = True
        elif lives:
            self.in_sync[server.run] = False

    def grant(self, node: Node, pod: Pod) -> tuple[str, ...] | None:
        if not self.is_up:
            return None
        seen = self.seen().remembered(RECENT)
        answer = lease.answer(seen, lease.Request(node.name, pod.uid, pod.record().epoch))
        if isinstance(answer, str):
            return None
        self.last_grant = self.last_request = self.world.now
        named = pod.counted_on or () if pod.counted_on is not None else ()
        self.counted_on = frozenset(named) & frozenset(answer.promotable)
        self.relied_on = frozenset(named) | frozenset(answer.promotable)
        return answer.promotable

    # What it sees.

    def seen(self, answered: dict[str, bool] | None = None) -> SeenInstance:
        now, status = self.world.now, self.status
        return SeenInstance(
            "v", self.wish, status.record, status.promotable, status.last_failover, self.world.service,
            tuple(self.seen_node(node, answered or {}) for node in self.world.nodes.values()),
            Lease(now - self.leads_since, *self.last_lease(), self.counted_on, self.relied_on),
            status.operation, moved_for=now - self.moved_at,
        )  # fmt: skip

    def last_lease(self) -> tuple[float | None, float | None]:
        """How long ago one was granted, and asked for."""
        granted, asked = (
            None if at is None else self.world.now - at for at in (self.last_grant, self.last_request)
        )
        return granted, asked

    def seen_node(self, node: Node, answered: dict[str, bool]) -> SeenNode:
        now, pod, heard = self.world.now, node.pod, self.heard.get(node.name)
        said = None
        if heard is not None and pod is not None and heard.uid == pod.uid:
            noted = self.noted_at[heard.uid, heard.said.record.epoch]
            said = replace(heard.said, age=now - heard.at, noted_for=now - noted)
        word = self.last_up.get(node.name)
        run = heard.run if heard is not None else 0
        is_old = pod is not None and pod.version != self.world.version
        return SeenNode(
            node.name,
            int(node.name.rpartition("-")[2]),
            node.is_being_deleted,
            has_volume=self.world.keeps_data and (pod is not None or bool(node.volume.record.epoch)),
            spec=node.spec,
            pod=self.seen_pod(node, pod) if pod is not None or node.is_unplaced else None,
            said=said,
            answered=answered.get(node.name),
            was_seen_dying=pod is None,
            dead_for=now - self.died_at.get(node.name, now),
            was_in_sync=self.in_sync.get(run, False if self.saw_primary else None),
            last_up=LastWord(word[0], now - word[1]) if word is not None else None,
            needs_restart="another template" if is_old else "",
        )

    def seen_pod(self, node: Node, pod: Pod | None) -> SeenPod:
        if pod is None:
            return SeenPod(is_placed=False, unplaced_for=self.world.now - node.unplaced_since, has_run=False)
        server, fault = pod.server, "it crashes" if pod.version in self.world.bad_versions else ""
        is_there = server is not None and not pod.is_cut_off and not pod.has_no_sidecar
        is_ready = is_there and server is not None and (not server.follows or server.link_is_up)
        return SeenPod(
            pod.uid, is_ready, pod.stops_at is not None,
            BEGIN + timedelta(seconds=pod.stops_at + GRACE) if pod.stops_at is not None else None,
            machine_is_lost=pod.is_cut_off, has_run=not fault, fault=fault,
        )  # fmt: skip

    # What it does.

    def look(self, cut: int | None = None) -> Plan:
        found = plan(self.seen(), self.moment())
        if found.ask:
            answered = {name: self.hear(self.world.nodes[name]) for name in found.ask}
            found = plan(self.seen(answered), self.moment())
            assert not found.ask, "who was asked in vain is not asked again"
        self.status.operation = found.report.operation.kind if found.report.operation else ""
        try:
            for action in found.actions[:cut]:
                self.world.tell(f"operator: {action}")
                self.carry_out(action)
                self.world.check()
        except Failed as why:
            self.world.tell(f"failed: {why}")
        return found

    def moment(self) -> datetime:
        return BEGIN + timedelta(seconds=self.world.now)

    def carry_out(self, action: do.Action) -> None:
        match action:
            case do.RecordPrimary():
                self.record(action)
            case do.SetPromotable(names):
                self.status.promotable = names
            case do.NoteFailover(epoch, _):
                assert self.status.last_failover is not None
                assert self.status.last_failover.epoch == epoch
                self.check_loss()
                self.status.last_failover = replace(self.status.last_failover, is_done=True)
            case do.MoveService(to):
                self.world.service, self.moved_at = to, self.world.now
            case do.MakeNode() | do.UpdateNodes() | do.RemoveNode() | do.RestartPod():
                self.change_nodes(action)
            case _:
                self.order(action)

    def record(self, action: do.RecordPrimary) -> None:
        status = self.status
        assert action.epoch > status.record.epoch, "the epoch never decreases"
        status.record, status.promotable = Record(action.epoch, action.primary), action.promotable
        source = action.primary if action.reason == do.Why.HANDED_BACK else action.former
        node = self.world.nodes.get(source)
        self.crashes = self.world.crashes
        self.before = list(node.server.log) if node is not None and node.server is not None else []
        if action.former:
            status.losses.append(action)
            status.last_failover = LastFailover(
                action.epoch, action.former, action.primary, action.planned, action.reason, self.moment(),
                loss=action.loss,
            )  # fmt: skip

    def check_loss(self) -> None:
        """What is said to lose nothing loses nothing."""
        last = self.status.last_failover
        server = self.world.nodes[self.status.record.primary].server
        if last is None or not last.is_planned or server is None:
            return
        if not self.trusts_people or self.crashes != self.world.crashes:
            return
        lost = set(self.before) - set(server.log)
        assert not lost, self.world.failed(f"{last.reason} lost {lost}")

    def change_nodes(self, action: do.Action) -> None:
        wanted = {each.name: each.record for each in wanted_nodes(self.seen())}
        match action:
            case do.MakeNode(name):
                self.world.make_node(name, wanted[name])
            case do.UpdateNodes(names):
                for name in names:
                    self.world.nodes[name].spec = wanted[name]
            case do.RemoveNode(name):
                self.world.nodes[name].is_being_deleted = True
            case do.RestartPod(name):
                self.world.stop(self.world.nodes[name])

    # What sidecars make of orders.

    def order(self, action: do.Action) -> None:
        name = action.source if isinstance(action, do.HandOver) else getattr(action, "node", "")
        node = self.world.nodes[name]
        pod = node.pod
        if pod is None or pod.is_cut_off or pod.is_unheard or pod.has_no_sidecar:
            raise Failed(f"{name} cannot be reached")
        epoch = getattr(action, "epoch", 0)
        if epoch < pod.record().epoch:
            raise Failed(f"{name} is in epoch {pod.record().epoch}")
        self.obey(action, node, pod)
        self.hear(node)

    def obey(self, action: do.Action, node: Node, pod: Pod) -> None:
        server = pod.server
        match action:
            case do.OpenGate():
                pod.is_allowed = server is None
            case do.NotePrimary(_, primary, epoch):
                if server is not None and not server.follows and primary != node.name:
                    raise Failed(f"{node.name} runs as a primary")
                node.volume.record = Record(epoch, primary)
            case _ if server is None:
                raise Failed(f"no server runs in {node.name}")
            case do.Promote(_, epoch):
                self.note(node, pod, Record(epoch, node.name))
                self.world.promote(node)
            case do.Follow(_, primary, epoch):
                self.note(node, pod, Record(epoch, primary))
                self.world.follow(node, primary)
            case do.HandOver(_, to, epoch):
                self.hand_over(node, pod, self.world.nodes[to], epoch)

    def note(self, node: Node, pod: Pod, record: Record) -> None:
        known = pod.record()
        if record.epoch == known.epoch and record.primary != known.primary:
            raise Failed("one primary per epoch")
        node.volume.record = record

    def hand_over(self, node: Node, pod: Pod, to: Node, epoch: int) -> None:
        """Cut anywhere there may be no primary, but never two."""
        world, mine, its = self.world, node.server, to.server
        self.note(node, pod, Record(epoch, to.name))
        assert mine is not None
        is_prefix = its is not None and its.log == mine.log[: len(its.log)]
        if (
            mine.follows
            or its is None
            or not world.can_talk(node, to)
            or its.follows != node.name
            or not is_prefix
            or to.pod is None
            or to.pod.has_no_sidecar
        ):
            raise Failed("the replica cannot take over")
        if world.chance(0.15):
            raise Failed("out of time, the primary stays in office")
        its.log = list(mine.log)
        world.follow(node, to.name)
        world.check()
        if world.chance(0.15) or to.pod is None:
            raise Failed("cut between the demotion and the promotion")
        self.note(to, to.pod, Record(epoch, to.name))
        world.promote(to)
        if world.chance(0.15):
            raise Failed("the answer was lost")


def seen_server(server: Server | None) -> SeenServer | None:
    if server is None:
        return None
    return SeenServer(
        is_primary=not server.follows,
        is_replica=bool(server.follows),
        follows=server.follows,
        link_is_up=server.link_is_up,
        history=server.history,
        offset=len(server.log),
        keys=len(server.log),
    )

"""Everything one sidecar knows of its pod, in one place: the gate, the server, the volume, the record."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from valkey_operator import __version__
from valkey_operator.api.guards import Guard
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Lineage, Record, Silence, Start
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import (
    cluster_gate,
    cluster_words,
    files,
    gate,
    metrics,
    modules,
    observer,
    saving,
)
from valkey_operator.sidecar.candidacy import Candidacy
from valkey_operator.sidecar.changes import Changes, is_almost_full
from valkey_operator.sidecar.cluster_leaving import ClusterLeaving
from valkey_operator.sidecar.cluster_orders import ClusterOrders, Known
from valkey_operator.sidecar.cluster_readiness import ClusterReadiness
from valkey_operator.sidecar.disk import Kept, Volume
from valkey_operator.sidecar.door import Door, Visitor
from valkey_operator.sidecar.fence import Fence, Reason
from valkey_operator.sidecar.handing import Handing
from valkey_operator.sidecar.haste import Haste
from valkey_operator.sidecar.hush import Hush
from valkey_operator.sidecar.lease import Lease, clock
from valkey_operator.sidecar.leaving import Leaving
from valkey_operator.sidecar.live_config import LiveConfig
from valkey_operator.sidecar.liveness import Watchdog
from valkey_operator.sidecar.log_mode import LogMode, is_to_be_written_anew
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.metrics import Count, Counts
from valkey_operator.sidecar.mover import Mover
from valkey_operator.sidecar.parsed import parsed
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer
from valkey_operator.sidecar.slot_orders import SlotOrders
from valkey_operator.valkey.connection import Ended, Refused, Silent

USER = "valkey-operator-sidecar"
# From the order to the kubelet's signal.
STEP_ASIDE = 20.0
# Of a pod that ends: from the signal to the question of the server's preStop hook.
ASKED_WITHIN = 0.5
LOOK_AGAIN = 0.5
# Before a server is started again that has ended before it served.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# So many times in a row: then its container ends once, so that its last words are in the pod's status.
TOLD_AFTER = 2
# Below the pod's grace period, which has to cover the rest of the stop as well.
STOP_LIMIT = 90.0
# Of a volume.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
FAILED = "the server has ended before it served and is tried again; its log says why"
HELD = gate.Closed(
    Guard.A_NODE_HAS_ONE_POD, "another pod of this node holds its volume: waits until that one has ended"
)
log = logging.getLogger(__name__)

Tell = Callable[[contract.Event.Kind, str], None]


class Pod:
    """The pod this sidecar is in."""

    def __init__(
        self,
        settings: SidecarSettings,
        tell: Tell,
        shown: Callable[[], contract.Fingerprints],
        heard_at: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._shown = shown
        self._changes = Changes(tell)
        self.counts = Counts()
        self._volume = Volume(settings.data)
        self._door = Door(settings.run)
        scope = Scope(settings.namespace, settings.kind, settings.deployment, settings.trust_domain)
        self.members = Members(scope, settings.identity, settings.sidecar_of)
        # One at a time: orders, and what the pod does for the same ends by itself.
        self.turn = asyncio.Lock()
        self.lease = Lease.kept_in(settings.run / files.LEASE)
        self.mover, self.haste, self.hush = Mover(), Haste(self.directive), Hush(self.directive)
        self._candidacy = Candidacy(self.directive)
        self._readiness = ClusterReadiness()
        self._cluster_orders, self._slot_orders = ClusterOrders(self), SlotOrders(self)
        self._handing = Handing(self, self.members)
        self._leaving = Leaving(self, heard_at)
        self._server: LivingServer | None = None
        self._fence: Fence | None = None
        self._watchdog: Watchdog | None = None
        self._is_gone = asyncio.Event()
        self._is_gone.set()
        self._is_ready = asyncio.Event()
        self._leaves = asyncio.Event()
        self._steps_aside_until = 0.0
        self._waits_for = "the server's container has not started yet"
        self._opened_by = ""
        self._config = LiveConfig(settings)
        self._log_mode = LogMode(self._volume)
        self._noted_in_memory = files.noted_record(settings)
        self._last_told: Mapping[str, Any] = {}
        self._is_asked = False
        self._is_allowed = False
        self._failed_starts = 0
        self._noticed: Lineage | None = None
        # Of the server that ran before, and when that was.
        self._last_word: tuple[int, float] | None = None
        self._sequence = 0
        self._run = files.begin_run(settings)

    async def run(self) -> None:
        """Keep the door for ever. A server that runs already is watched, not touched."""
        process = self._door.inside()
        while True:
            if process is not None:
                await self._watch(process)
            found = await self._door.knock()
            process = await self._admit(found) if isinstance(found, Visitor) else found

    async def _watch(self, process: ServerProcess) -> None:
        log.info("the server runs as process %d", process.pid)
        if not self._volume.lock():  # one that ran before this sidecar: it is watched all the same
            log.error("another pod of this node holds the volume of the server that runs here")
        self._waits_for = FAILED if self._failed_starts else ""
        self._is_gone.clear()
        socket = self._settings.run / files.SOCKET
        self._config = LiveConfig(self._settings)
        self._server = LivingServer(
            process, socket, USER, lambda: files.passwords(self._settings), self._follow
        )
        self._fence = Fence(self._server, self.directive)
        self.counts.add(Count.SERVER_STARTS)
        self._tell(contract.Event.KIND_SERVER_STARTED, f"process {process.pid} {self._opened_by}".rstrip())
        await self._live(self._server)
        self._failed_starts = 0 if self._server.has_served else self._failed_starts + 1
        self._last_word = self._server.last_word
        self._is_ready.clear()
        self._server, self._waits_for = None, "the server has ended and was not started again yet"
        self.counts.add(Count.SERVER_ENDS)
        self._changes.see_readiness(self._waits_for)
        self._tell(contract.Event.KIND_SERVER_DIED, f"process {process.pid} has ended")
        self._is_gone.set()
        log.warning("the server has ended")

    async def _live(self, server: LivingServer) -> None:
        """Until its end, which may be of our own making when it hangs."""
        self._watchdog = Watchdog(server, self, self._tell)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watchdog.run())
            await server.watch()
            watching.cancel()
        self._watchdog = None

    async def successors(self) -> tuple[str, ...]:
        if self.is_in_cluster:
            return await ClusterLeaving(self).successors()
        return await self._leaving.successors()

    @property
    def is_complete_on_disk(self) -> bool:
        """A server that is killed now comes back with all that it has acknowledged."""
        return self._volume.seen(appendonly=self._volume.kept.appendonly).is_synced_always

    def _see(self, server: LivingServer) -> None:
        if server.info is not None:
            self._waits_for = ""
        self._changes.see(server.info, self._volume.space())
        why_not = self.why_not_ready()
        self._changes.see_readiness(why_not or "", answers=server.is_settled)
        if why_not is None:
            self._is_ready.set()

    async def _follow(self, server: LivingServer) -> None:
        self._see(server)
        if server.info is not None:
            self._notice(server.info)
            await self._follow_config(server)

    async def _follow_config(self, server: LivingServer) -> None:
        """What cannot be set now is tried again with the next look."""
        try:
            if server.fence is not None:
                self.fence.see(*server.fence)
            await self.haste.look(server)
            await self.hush.look(server)
            await self._candidacy.look(server)
            await saving.look(server, self.directive, is_full=self._changes.is_full)
            await self._fence_a_full_volume()
            # First: what is noted must hold while the change is being made, too.
            self._note_fewer_snapshots()
            if files.has_other_users(self._settings):
                await self.load_users()
            in_force = files.kept(self._config.directives)
            await self._log_mode.follow(server, in_force, synced_always=self._config.is_synced_always)
            changed = await self._config.follow(server)
        except (Silent, Refused) as error:
            log.warning("the configuration was not followed: %s", error)
            return
        if changed:
            await server.look()  # what is told with it must not be from before the change
            waiting = ", ".join(self._config.needs_restart) or self._config.refused or "all is in force"
            self._tell(contract.Event.KIND_CONFIG_CHANGED, waiting)

    async def _fence_a_full_volume(self) -> None:
        """A server that syncs every write ends when it cannot; fenced, it refuses writes and goes on serving reads."""
        would_end = self._changes.is_full and self.is_primary and self._config.is_synced_always
        is_fenced = Reason.VOLUME in self.fence.reasons
        if would_end and not is_fenced:
            await self.fence.put_up(Reason.VOLUME)
            log.error("writes are refused: %s", Reason.VOLUME.value)
        elif is_fenced and not would_end:
            await self.fence.take_down(Reason.VOLUME)

    async def _admit(self, visitor: Visitor) -> ServerProcess | None:
        """Let the server in as soon as a rule of the gate allows it."""
        self._is_asked, self._waits_for, told = True, "the gate asks the other members", ""
        try:
            await self._pause()
            if self._failed_starts == TOLD_AFTER:
                self._failed_starts += 1  # once only: the kubelet waits longer each time
                visitor.send_away()
                return None
            while isinstance(verdict := self._verdict(start := await self._start()), gate.Closed):
                self._waits_for = str(verdict)
                if verdict.reason != told:
                    told = verdict.reason
                    log.warning("the server may not start: %s", verdict)
                    self._tell(contract.Event.KIND_GATE_CLOSED, str(verdict))
                await asyncio.sleep(LOOK_AGAIN)
            self._prepare(verdict, start, modules.found(visitor.root))
            return visitor.let_in()
        finally:
            visitor.leave()
            self._is_asked = self._is_allowed = False

    async def _pause(self) -> None:
        """A server that ends before it has served is not started again and again without a pause."""
        if self._failed_starts:
            pause = min(FIRST_PAUSE * 2.0 ** (self._failed_starts - 1), LONGEST_PAUSE)
            self._waits_for = FAILED
            log.warning("%s; again in %.1f s", self._waits_for, pause)
            await asyncio.sleep(pause)

    def _prepare(self, verdict: gate.Open, start: Start, loaded: Sequence[str]) -> None:
        wanted = self._wanted()
        is_primary = verdict.primary == self._settings.node
        # Who comes back as primary may have been replaced meanwhile: it writes when somebody says that it may.
        fenced = is_primary and bool(self.others) and not self.is_in_cluster
        files.write(
            self._settings, verdict.primary, with_log=wanted.appendonly, modules=loaded, fenced=fenced
        )
        self._volume.note_start(wanted)
        self._noticed = None
        if self.is_in_cluster:
            if verdict.primary not in (self._settings.node, cluster_gate.NOBODY):
                cluster_gate.end_imports(self._settings.data)
        else:
            self.note_record(Record(gate.newest_record(start).epoch, verdict.primary))
        self._opened_by = verdict.rule
        if not is_primary:
            self.end_office()
        if is_primary and not start.disk.has_data:
            why = verdict.note or "nothing is on its disk: starts empty"
            self._tell(contract.Event.KIND_STARTED_EMPTY, why)
        role = "primary" if is_primary else f"replica of {verdict.primary}"
        log.info("the server may start as %s by %s %s", role, verdict.rule, verdict.note)

    def _verdict(self, start: Start) -> gate.Verdict:
        """A second pod of this node stays behind its gate, whatever the rules say."""
        return gate.decide(start) if self._volume.lock() else HELD

    async def _start(self) -> Start:
        """Looked at anew each time: the record and the members may be others by now."""
        start = Start(
            self._settings.node,
            self._record_at_the_gate(),
            self._volume.seen(appendonly=self._wanted().appendonly),
            dict.fromkeys(sorted(self.others), Silence()),
            self._volume.lineage,
            self._is_allowed,
        )
        if gate.needs_members(start):
            members = await self.members.ask(start.members)
            # Another primary may have been noted while they were asked.
            record = self._record_at_the_gate()
            return replace(start, members=members, record=record, is_allowed=self._is_allowed)
        return start

    def _record_at_the_gate(self) -> Record:
        """A cluster keeps its own, without anybody's word."""
        if self.is_in_cluster:
            return cluster_gate.own_record(self._settings.data, self._settings.node)
        return self.record

    def _wanted(self) -> Kept:
        """What the next server is to keep on its disk: as rendered, but begun in the mode of the last run."""
        kept, asked = self._volume.kept, files.kept(files.directives(self._settings))
        snapshots = asked.snapshots or kept.counts_snapshots(asked)
        with_log = self._volume.starts_with_log(asked.appendonly)
        return replace(asked, snapshots=snapshots, appendonly=with_log)

    def _notice(self, info: Mapping[str, str]) -> None:
        """The history of this run, which the next start must know."""
        lineage = observer.lineage(info)
        if lineage == self._noticed:
            return
        try:
            self._volume.note_lineage(lineage)
            self._noticed = lineage
        except OSError as error:
            log.warning("what the next start must know cannot be noted, and is tried again: %s", error)

    def _note_fewer_snapshots(self) -> None:
        kept, mounted = self._volume.kept, files.kept(files.directives(self._settings))
        self._volume.note_kept(replace(kept, snapshots=kept.counts_snapshots(mounted)))

    def note_directives(self, told: Mapping[str, str]) -> None:
        """Before the running server is told so: less is kept from now on, more counts from the next start on."""
        kept, wished = self._volume.kept, files.kept(told)
        self._volume.note_kept(
            Kept(
                kept.snapshots and wished.snapshots,
                kept.appendonly and told.get("appendonly") != "no",
                kept.synced_always and told.get("appendfsync", "always") == "always",
            )
        )

    @property
    def pod_uid(self) -> str:
        return self._settings.pod_uid

    @property
    def record(self) -> Record:
        """The operator's word on who is primary, or our own note where that is newer."""
        told = self._told()
        record = Record(int(told.get("epoch", 0)), str(told.get("primary", self._settings.node)))
        return max(self._volume.record, self._noted_in_memory, record, key=lambda each: each.epoch)

    def _told(self) -> Mapping[str, Any]:
        """A file that is being replaced at this moment is not gone: without it this node would think it is alone."""
        with contextlib.suppress(FileNotFoundError):
            self._last_told = parsed(self._settings.config, "record.json", json.loads)
        return self._last_told

    def note_record(self, record: Record) -> None:
        """On a full volume there is no room for it, and a shard must not be without a primary for that: in memory it
        lasts as long as the pod, and by its end the mounted record has followed."""
        try:
            self._volume.note_record(record)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            files.note_record(self._settings, record)
            self._noted_in_memory = record

    @property
    def others(self) -> frozenset[str]:
        """Every other node that holds the same data."""
        return frozenset(self._told().get("members", [])) - {self._settings.node}

    def running_server(self) -> LivingServer | None:
        return self._server

    @property
    def fence(self) -> Fence:
        """Of the server that runs, or of the last one."""
        assert self._fence is not None, "no server was started yet"
        return self._fence

    @property
    def _is_fenced(self) -> bool:
        return self._server is not None and self.fence.is_up

    @property
    def is_primary(self) -> bool:
        """As the server said last."""
        info = self._server.info if self._server is not None else None
        return info is not None and info.get("role") == "master"

    @property
    def is_in_cluster(self) -> bool:
        return self.directive("cluster-enabled", "no") == "yes"

    def cluster_orders(self) -> Known:
        if not self.is_in_cluster:
            return {}
        return {**self._cluster_orders.known(), **self._slot_orders.known()}

    async def peer(self, node: str, host: str = "") -> contract.Observation | None:
        """How another node of the deployment says it is, under its own identity; None when it does not. Asked at its
        Service, or at this address, which is known sooner than its name."""
        return await self.members.observe(node, host)

    async def may_be_primary(self) -> bool:
        """Asked at this moment; a server that runs and does not answer may be anything."""
        if self._server is not None:
            await self._server.look_now()
        return self.is_primary or (self._server is not None and self._server.info is None)

    def begin_office(self) -> None:
        """This node is about to be primary, and was allowed to."""
        self.lease.begin(clock())
        self.lease.note()

    def end_office(self) -> None:
        """This node is a replica from now on."""
        self.lease.end(clock())
        self.lease.note()

    async def hand_over(self, epoch: int, to: str, limit: float) -> int:
        return await self._handing.hand_over(epoch, to, limit)

    async def take_over(self, epoch: int, by: str) -> None:
        if self.is_in_cluster:
            await self._cluster_orders.take_over(by)
        else:
            await self._handing.take_over(epoch, by)

    async def order_fence(self, is_on: bool) -> None:
        await self.fence.order(is_on)
        if is_on:
            await self.fence.drop_clients()

    def step_aside(self) -> None:
        self._steps_aside_until = time.monotonic() + STEP_ASIDE

    async def may_end(self) -> None:
        """Told to end: returns when nobody needs this sidecar. All containers of a pod that ends are told so at once,
        and its server has yet to hand over and to stop; but one that is replaced goes while its server stays."""
        process = self._door.somebody()
        if process is None:
            return
        if time.monotonic() < self._steps_aside_until and not await self._is_asked_to_leave():
            return
        await process.end()

    async def _is_asked_to_leave(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASKED_WITHIN):
                await self._leaves.wait()
        return self._leaves.is_set()

    async def server_is_gone(self) -> None:
        """Returns when no server runs, and that has been told."""
        await self._is_gone.wait()

    def why_not_ready(self) -> str | None:
        if self._server is None:
            return self._waits_for
        finding = self._watchdog.finding if self._watchdog is not None else ""
        why = finding or self._waits_for or observer.why_not_ready(self._server.info)
        if not why and self.is_in_cluster:
            why = self._readiness.why_not(self._server.cluster)
        return why or None

    async def starts(self) -> None:
        """Returns when the server is ready for the first time; at once where it was: then what it is now counts."""
        await self._is_ready.wait()

    def metrics(self) -> str:
        server = self._server
        return metrics.page(
            self.counts,
            gate_is_open=server is not None,
            gate_is_asked=self._is_asked,
            server_is_up=server is not None and server.info is not None,
            is_fenced=self._is_fenced,
        )

    async def observe_now(self) -> contract.Observation:
        """With what the server says at this moment; one that does not say it within a second does not answer."""
        if self._server is not None:
            await self._server.look_now()
            self._see(self._server)
        return self.observe()

    def observe(self) -> contract.Observation:
        self._sequence += 1
        gate_seen = contract.Gate(
            is_asked=self._is_asked, waits_for=self._waits_for, opened_by=self._opened_by
        )
        space = self._volume.space()
        return contract.Observation(
            node=self._settings.node,
            pod_uid=self._settings.pod_uid,
            sequence=self._sequence,
            run=self._run,
            sidecar_version=__version__,
            server=self._server_seen(self._server) if self._server is not None else None,
            gate=gate_seen,
            record=observer.record(self.record),
            disk=observer.disk(
                self._volume.seen(appendonly=self._wanted().appendonly),
                *space,
                is_full=self._changes.is_full if self._server is not None else is_almost_full(space),
            ),
            fingerprints=self._fingerprints(),
            configuration=contract.Configuration(
                mounted=self._config.mounted,
                needs_restart=self._config.needs_restart,
                refused=self._config.refused,
            ),
            not_ready=self.why_not_ready() or "",
            is_fenced=self._is_fenced,
            last_word=self._said_last(),
            taken_over=(self._cluster_orders if self.is_in_cluster else self._handing).taken_over,
        )

    def _said_last(self) -> contract.LastWord | None:
        if self._server is not None or self._last_word is None:
            return None
        offset, asked = self._last_word
        return contract.LastWord(offset=offset, milliseconds_ago=round((time.monotonic() - asked) * 1000))

    def _server_seen(self, server: LivingServer) -> contract.Server:
        seen = server.cluster
        cluster = cluster_words.view(seen, self.mover.seen) if seen is not None else None
        is_starting = not (server.has_served or server.is_settled)
        return observer.server(server.info, server.modules, cluster, is_starting=is_starting)

    def _fingerprints(self) -> contract.Fingerprints:
        found = self._shown()
        if self._server is not None:
            found.config = self._config.in_force
            found.users = files.users_in_force(self._settings)
        return found

    @property
    def node(self) -> str:
        return self._settings.node

    def open_gate(self) -> bool:
        """For the server that waits now; False when none does. A later one asks anew."""
        self._is_allowed = self._is_asked
        return self._is_allowed

    def address_of(self, node: str) -> tuple[str, int]:
        return self._settings.server_of(node)

    async def load_users(self) -> None:
        """Those that are mounted. The server ends connections of users that are others now, perhaps this one too."""
        assert self._server is not None
        files.write_users(self._settings)
        with contextlib.suppress(Ended):
            await self._server.call("ACL", "LOAD")
        files.note_users(self._settings)
        log.info("the server has the users that are mounted now")

    def directive(self, name: str, otherwise: str) -> str:
        """What the rendered configuration says."""
        return files.directives(self._settings).get(name, otherwise)

    @property
    def is_kept_on_disk(self) -> bool:
        """What the server holds can be loaded again after a clean stop."""
        return self._volume.kept.snapshots or self._volume.kept.appendonly

    async def leave(self) -> None:
        """Before the pod goes: a primary hands over, if there is somebody, and then the server is stopped."""
        begun = time.monotonic()
        self._leaves.set()
        self._tell(contract.Event.KIND_POD_STOPPING, "the pod is being stopped")
        if self.others and self.is_in_cluster:
            await ClusterLeaving(self).leave_office()
        elif self.others:
            await self._leaving.leave_office()
        async with self.turn:
            await self.stop(STOP_LIMIT - (time.monotonic() - begun))

    async def stop(self, limit: float = STOP_LIMIT) -> None:
        """A server that ends by this order, without an error, has stopped cleanly."""
        self.counts.add(Count.HANDOVERS)
        server, kept = self._server, self._volume.kept
        if server is None:
            return
        await server.look_now()
        info = server.info or {}
        is_whole = not is_to_be_written_anew(info)
        # By name: what a person has set on the running server must not decide whether data is saved.
        if await server.shut_down(limit, *(("SAVE",) if kept.snapshots else ())) and is_whole:
            if kept.snapshots and info.get("aof_enabled") == "0":
                # Turned off a moment ago: the log lacks what was written since, and the snapshot has it.
                self._volume.note_kept(replace(kept, appendonly=False, synced_always=False))
            self._volume.note_clean_stop()
            log.info("the server was stopped cleanly")

"""Everything one sidecar knows of its pod, in one place: the gate, the server, the volume, the record."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

from valkey_operator import __version__
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record, Start
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import files, gate, observer
from valkey_operator.sidecar.changes import Changes
from valkey_operator.sidecar.disk import Volume
from valkey_operator.sidecar.door import Door, Visitor
from valkey_operator.sidecar.live_config import LiveConfig
from valkey_operator.sidecar.log_mode import LogMode
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer
from valkey_operator.valkey.connection import Refused, Silent

USER = "valkey-operator-sidecar"
LOOK_AGAIN = 0.5
# Below the pod's grace period, which has to cover the rest of the stop as well.
STOP_LIMIT = 90.0
HELD = "another pod of this node holds its volume: waits until that one has ended"
log = logging.getLogger(__name__)

Tell = Callable[[contract.Event.Kind, str], None]


class Pod:
    """The pod this sidecar is in."""

    def __init__(
        self, settings: SidecarSettings, tell: Tell, shown: Callable[[], contract.Fingerprints]
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._shown = shown
        self._changes = Changes(tell)
        self._volume = Volume(settings.data)
        self._door = Door(settings.run)
        self._server: LivingServer | None = None
        self._is_gone = asyncio.Event()
        self._is_gone.set()
        self._waits_for = "the server's container has not started yet"
        self._opened_by = ""
        self._config = LiveConfig(settings)
        self._log_mode = LogMode(self._volume)
        self._is_allowed = False
        self._sequence = 0
        self._run = files.begin_run(settings)

    async def run(self) -> None:
        """Keep the door for ever. A server that runs already is watched, not touched."""
        process = self._door.inside()
        while True:
            if process is not None:
                await self._watch(process)
            process = await self._admit(await self._door.knock())

    async def _watch(self, process: ServerProcess) -> None:
        log.info("the server runs as process %d", process.pid)
        if not self._volume.lock():  # one that ran before this sidecar: it is watched all the same
            log.error("another pod of this node holds the volume of the server that runs here")
        self._waits_for = ""
        self._is_gone.clear()
        password = (self._settings.users / "sidecar-password").read_text().strip()
        socket = self._settings.run / files.SOCKET
        self._config = LiveConfig(self._settings)
        self._server = LivingServer(process, socket, USER, password, self._follow)
        self._tell(contract.Event.KIND_SERVER_STARTED, f"process {process.pid}")
        await self._server.watch()
        self._server, self._waits_for = None, "the server has ended and was not started again yet"
        self._changes.see_readiness(self._waits_for)
        self._tell(contract.Event.KIND_SERVER_DIED, f"process {process.pid} has ended")
        self._is_gone.set()
        log.warning("the server has ended")

    async def _follow(self, server: LivingServer) -> None:
        self._changes.see(server.info, self._volume.space())
        self._changes.see_readiness(self.why_not_ready() or "")
        if server.info is not None:
            await self._follow_config(server)

    async def _follow_config(self, server: LivingServer) -> None:
        """What cannot be set now is tried again with the next look."""
        try:
            # First: what is noted must hold while the change is being made, too.
            saves = bool(self._config.directives.get("save"))
            await self._log_mode.follow(server, saves=saves, synced_always=self._config.is_synced_always)
            changed = await self._config.follow(server)
        except (Silent, Refused) as error:
            log.warning("the configuration was not followed: %s", error)
            return
        if changed:
            waiting = ", ".join(self._config.needs_restart) or self._config.refused or "all is in force"
            self._tell(contract.Event.KIND_CONFIG_CHANGED, waiting)

    async def _admit(self, visitor: Visitor) -> ServerProcess | None:
        """Let the server in as soon as a rule of the gate allows it."""
        while isinstance(verdict := self._verdict(), gate.Closed):
            if verdict.reason != self._waits_for:
                log.warning("the server may not start: %s", verdict.reason)
                self._waits_for = verdict.reason
                self._tell(contract.Event.KIND_GATE_CLOSED, verdict.reason)
            await asyncio.sleep(LOOK_AGAIN)
        record = Record(self.record.epoch, verdict.primary)
        written = files.write(self._settings, verdict.primary, self._volume.starts_with_log)
        self._volume.note_start(appendonly=written.appendonly, synced_always=written.synced_always)
        self._volume.note_record(record)
        self._opened_by, self._is_allowed = verdict.rule, False
        role = "primary" if verdict.primary == self._settings.node else f"replica of {verdict.primary}"
        log.info("the server may start as %s by %s %s", role, verdict.rule, verdict.note)
        return visitor.let_in()

    def _verdict(self) -> gate.Verdict:
        """A second pod of this node stays behind its gate, whatever the rules say."""
        return gate.decide(self._start()) if self._volume.lock() else gate.Closed(HELD)

    def _start(self) -> Start:
        seen, record = self._volume.seen(), self.record
        return Start(self._settings.node, record, seen, is_allowed=self._is_allowed)

    @property
    def pod_uid(self) -> str:
        return self._settings.pod_uid

    @property
    def record(self) -> Record:
        """The operator's word on who is primary, or our own note where that is newer."""
        file = self._settings.config / "record.json"
        told = json.loads(file.read_text()) if file.exists() else {}
        record = Record(int(told.get("epoch", 0)), str(told.get("primary", self._settings.node)))
        return max(self._volume.record, record, key=lambda each: each.epoch)

    def running_server(self) -> LivingServer | None:
        return self._server

    async def server_is_gone(self) -> None:
        """Returns when no server runs, and that has been told."""
        await self._is_gone.wait()

    def why_not_ready(self) -> str | None:
        if self._server is None:
            return self._waits_for
        return observer.why_not_ready(self._server.info) or None

    def observe(self) -> contract.Observation:
        self._sequence += 1
        info = self._server.info if self._server is not None else None
        return contract.Observation(
            node=self._settings.node,
            pod_uid=self._settings.pod_uid,
            sequence=self._sequence,
            run=self._run,
            sidecar_version=__version__,
            server=observer.server(info) if info is not None else None,
            gate=contract.Gate(waits_for=self._waits_for, opened_by=self._opened_by),
            record=observer.record(self.record),
            disk=observer.disk(self._volume.seen(), *self._volume.space()),
            fingerprints=self._fingerprints(),
            configuration=contract.Configuration(
                mounted=self._config.mounted,
                needs_restart=self._config.needs_restart,
                refused=self._config.refused,
            ),
            not_ready=self.why_not_ready() or "",
        )

    def _fingerprints(self) -> contract.Fingerprints:
        found = self._shown()
        if self._server is not None:
            found.config = self._config.in_force
            found.users = files.users_in_force(self._settings)
        return found

    def open_gate(self) -> None:
        self._is_allowed = True

    def address_of(self, node: str) -> tuple[str, int]:
        return f"{node}.{self._settings.namespace}.svc", 6379

    def write_users(self) -> None:
        files.write_users(self._settings)

    def note_users(self) -> None:
        files.note_users(self._settings)

    def directive(self, name: str, otherwise: str) -> str:
        """What the rendered configuration says."""
        return files.directives(self._settings).get(name, otherwise)

    async def stop(self) -> None:
        """Before the pod goes: a server that ends by this order, without an error, has stopped cleanly."""
        self._tell(contract.Event.KIND_POD_STOPPING, "the pod is being stopped")
        if self._server is not None and await self._server.shut_down(STOP_LIMIT):
            self._volume.note_clean_stop()
            log.info("the server was stopped cleanly")

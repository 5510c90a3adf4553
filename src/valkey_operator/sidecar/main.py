"""The sidecar's own life: keep the door, let the server in when it may, watch it, answer probes.

It never ends because one of its parts has failed, and never touches a server that already runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal

from valkey_operator.model.gate import Record, Start
from valkey_operator.process import logs
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import files, gate, probes
from valkey_operator.sidecar.disk import Volume
from valkey_operator.sidecar.door import Door, Visitor
from valkey_operator.sidecar.handover import Handover
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer

USER = "valkey-operator-sidecar"
LOOK_AGAIN = 0.5
GRACE = 25.0
log = logging.getLogger(__name__)


class Sidecar:
    """One pod's."""

    def __init__(self, settings: SidecarSettings) -> None:
        self.settings = settings
        self.server: LivingServer | None = None
        self.waits_for = "the server's container has not started yet"
        self._volume = Volume(settings.data)
        self._door = Door(settings.run)

    async def run(self) -> None:
        checks = {"ready": self._why_not_ready, "live": lambda: None}
        handover = Handover(self.settings.run, self._hand_over)
        async with probes.opened(checks, self.settings.probe_port), asyncio.TaskGroup() as group:
            group.create_task(self._keep_door(), name="door")
            group.create_task(handover.run(), name="handover")

    async def _keep_door(self) -> None:
        process = self._door.inside()
        while True:
            if process is not None:
                log.info("the server runs as process %d", process.pid)
                password = (self.settings.users / "sidecar-password").read_text().strip()
                self.server = LivingServer(process, self.settings.run / files.SOCKET, USER, password)
                await self.server.watch()
                log.warning("the server has ended")
                self.server, self.waits_for = None, "the server has ended and was not started again yet"
            visitor = await self._door.knock()
            process = await self._admit(visitor)

    async def _admit(self, visitor: Visitor) -> ServerProcess | None:
        """Let the server in as soon as a rule of the gate allows it."""
        while isinstance(verdict := gate.decide(self._start()), gate.Closed):
            if verdict.reason != self.waits_for:
                log.warning("the server may not start: %s", verdict.reason)
                self.waits_for = verdict.reason
            await asyncio.sleep(LOOK_AGAIN)
        written = files.write(self.settings, verdict.primary)
        self._volume.note_start(appendonly=written.appendonly, synced_always=written.synced_always)
        self._volume.note_record(Record(self._record().epoch, verdict.primary))
        role = "primary" if verdict.primary == self.settings.node else f"replica of {verdict.primary}"
        log.info("the server may start as %s by the rule %s %s", role, verdict.rule, verdict.note)
        return visitor.let_in()

    def _start(self) -> Start:
        return Start(self.settings.node, self._record(), self._volume.seen())

    def _record(self) -> Record:
        """The operator's word on who is primary, or our own note where that is newer."""
        file = self.settings.config / "record.json"
        told = json.loads(file.read_text()) if file.exists() else {}
        record = Record(int(told.get("epoch", 0)), str(told.get("primary", self.settings.node)))
        return max(self._volume.record, record, key=lambda each: each.epoch)

    def _why_not_ready(self) -> str | None:
        return self.server.health.why_not_ready() if self.server is not None else self.waits_for

    async def _hand_over(self) -> None:
        if self.server is not None and await self.server.shut_down(GRACE):
            self._volume.note_clean_stop()
            log.info("the server was stopped cleanly")


async def run(settings: SidecarSettings) -> None:
    """Until SIGTERM, which comes when the server has ended."""
    running = asyncio.ensure_future(Sidecar(settings).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running


def main() -> None:
    settings = SidecarSettings.from_environment()
    logs.configure("json", settings.log_level)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()

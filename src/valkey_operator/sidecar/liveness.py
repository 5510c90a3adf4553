"""Answers for the server's liveness by acting: a server that hangs is ended, where `hang` says that nothing is lost.

There is no livenessProbe on the server's container: one that a restarting sidecar answers would kill healthy servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from valkey_operator.api.guards import Guard
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar import hang, process
from valkey_operator.sidecar.process import Stat
from valkey_operator.sidecar.server import LivingServer

PERIOD = 1.0
log = logging.getLogger(__name__)


class Pod(Protocol):
    """What is asked only of a server that is silent for too long."""

    async def successors(self) -> tuple[str, ...]: ...

    @property
    def is_complete_on_disk(self) -> bool: ...


class Watchdog:
    """Of one run of the server."""

    def __init__(
        self, server: LivingServer, pod: Pod, tell: Callable[[contract.Event.Kind, str], None]
    ) -> None:
        self._server, self._pod, self._tell = server, pod, tell
        self._answers = 0
        self._processor_time = 0
        self._silent_for = self._still_for = 0.0
        # Why it does not answer, once that is more than a moment; and whether it is ended.
        self.finding = ""

    async def run(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        last = time.monotonic()
        while not self._server.process.has_ended:
            await pause(PERIOD)
            now = time.monotonic()
            # One that was held up itself has not listened meanwhile.
            await self._look(min(now - last, 2 * PERIOD))
            last = now

    async def _look(self, passed: float) -> None:
        stat = self._server.process.stat()
        if stat is None:
            return
        self._still_for = self._still_for + passed if stat.processor_time == self._processor_time else 0.0
        self._silent_for = self._silent_for + passed if self._server.answers == self._answers else 0.0
        self._processor_time, self._answers = stat.processor_time, self._server.answers
        if self._silent_for < hang.STILL:
            self.finding = ""
            return
        await self._judge(self._seen(stat), stat)

    async def _judge(self, seen: hang.Silent, stat: Stat) -> None:
        left = hang.why_left(seen)
        if left is None:
            seen = replace(seen, successors=await self._pod.successors())
            if self._server.answers != self._answers:
                return  # it came back while they were asked
            left = hang.why_left(seen)
        if left is None:
            self._find(f"{seen.what}: it is ended, so that {_who(seen)}")
            self._end(stat)
        elif left.guard != Guard.A_HUNG_SERVER_IS_SILENT_FOR_LONG:
            self._find(left.why)

    def _seen(self, stat: Stat) -> hang.Silent:
        server, said = self._server, self._server.said
        return hang.Silent(
            self._silent_for,
            self._still_for,
            stat.state,
            has_served=server.has_served,
            was_loading=said is not None and said.get("loading") == "1",
            is_stopping=server.is_stopping,
            is_primary=said is None or said.get("role") != "slave",
            is_complete_on_disk=self._pod.is_complete_on_disk,
        )

    def _find(self, sentence: str) -> None:
        if sentence != self.finding:
            self.finding = sentence
            log.error("%s", sentence)
            self._tell(contract.Event.KIND_SERVER_HUNG, sentence)

    def _end(self, stat: Stat) -> None:
        """Whoever has stopped the whole container has stopped its entry point too, which starts the next server."""
        self._server.process.kill()
        entry_point = process.stat(stat.parent)
        if entry_point is not None and entry_point.state == hang.STOPPED:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(stat.parent, signal.SIGCONT)


def _who(seen: hang.Silent) -> str:
    if not seen.is_primary:
        return "it starts again and follows its primary"
    if seen.successors:
        return f"{' or '.join(seen.successors)} can take over"
    return "it starts again with all its data, which is on its volume"

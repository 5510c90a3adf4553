"""The server beside us, while it lives: asked over its socket, known dead only by its process."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.valkey import info
from valkey_operator.valkey.connection import Connection, Refused, Silent

PERIOD = 1.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Health:
    """The last look at it."""

    answers: bool = False
    loading: bool = False
    role: str = ""
    link_is_up: bool = True
    version: str = ""

    def why_not_ready(self) -> str | None:
        if not self.answers:
            return "the server does not answer"
        if self.loading:
            return "the server is loading its data"
        if self.role == "slave" and not self.link_is_up:
            return "the replica is not in sync with its primary"
        return None


class LivingServer:
    """One run of the server, from its start to its end."""

    def __init__(self, process: ServerProcess, socket: Path, user: str, password: str) -> None:
        self.process = process
        self.health = Health()
        self._socket, self._user, self._password = socket, user, password
        self._connection: Connection | None = None

    async def watch(self) -> None:
        """Look at it again and again until its process has ended."""
        ended = asyncio.ensure_future(self.process.end())
        try:
            while not self.process.has_ended:
                await self.look()
                await asyncio.wait({ended}, timeout=PERIOD if self.health.answers else 0.02)
        finally:
            ended.cancel()
            self.health = Health()
            if self._connection is not None:
                self._connection.close()

    async def look(self) -> None:
        try:
            fields = info.parse(await self.call("INFO", "server", "replication", "persistence"))
        except (Silent, Refused) as error:
            log.debug("the server does not answer: %s", error)
            self.health = Health()
            return
        self.health = Health(
            answers=True,
            loading=fields.get("loading") == "1",
            role=fields.get("role", ""),
            link_is_up=fields.get("master_link_status", "up") == "up",
            version=fields.get("valkey_version", ""),
        )

    async def call(self, *words: str | int) -> str:
        """One command, on a connection that is made anew after a silence."""
        if self._connection is None:
            self._connection = await Connection.open(self._socket, self._user, self._password)
        try:
            answer = await self._connection.call(*words)
        except Silent:
            self._connection = None
            raise
        return str(answer)

    async def shut_down(self, grace: float) -> bool:
        """Save what is to be saved and end; True when it ended by this order and in good order."""
        try:
            await self.call("SHUTDOWN")
        except Silent:
            pass  # it closes the connection instead of an answer
        except Refused as error:
            log.warning("the server refuses to shut down: %s", error)
            return False
        try:
            await asyncio.wait_for(self.process.end(), grace)
        except TimeoutError:
            return False
        return True

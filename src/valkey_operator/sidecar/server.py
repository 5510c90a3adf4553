"""The server beside us, while it lives: asked over its socket, known dead only by its process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from valkey_operator.model.cluster import ClusterView
from valkey_operator.sidecar import modules
from valkey_operator.sidecar.fence import FENCE
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.stream import WORD, Stream
from valkey_operator.valkey import cluster, info
from valkey_operator.valkey.connection import LIMIT, Connection, Ended, Refused, Silent

PERIOD = 1.0
# Right after its start it is asked more often: a node is usable when it answers, not when a period ends.
EAGER = 0.02
# A replica is not in sync before what is written reaches it.
SOON = 0.1
# For somebody who wants to know it at this moment.
AT_ONCE = 1.0
# Between the end of its connections and the end of its process.
GOODBYE = 10.0
SECTIONS = ("server", "clients", "memory", "persistence", "stats", "replication", "keyspace", "cluster")
log = logging.getLogger(__name__)

# What is done beside each look at a server that answers.
Follow = Callable[["LivingServer"], Awaitable[None]]


class LivingServer:
    """One run of the server, from its start to its end."""

    def __init__(
        self,
        process: ServerProcess,
        socket: Path,
        user: str,
        passwords: Callable[[], Sequence[str]],
        follow: Follow | None = None,
    ) -> None:
        self.process = process
        self._follow = follow
        # What it says; None when it does not answer. And what it said last.
        self.info: Mapping[str, str] | None = None
        # How far it was when it answered last, and when it was asked.
        self.last_word: tuple[int, float] | None = None
        self.said: Mapping[str, str] | None = None
        # How often it has answered, be it with a refusal.
        self.answers = 0
        # What is set there, and when it was asked for that.
        self.fence: tuple[int, float] | None = None
        # It was told to save its data and end, and may be silent meanwhile.
        self.is_stopping = False
        # What it said of its cluster; None when it does not answer, or is in none.
        self.cluster: ClusterView | None = None
        # It has loaded its data and answered.
        self.has_served = False
        # Known once it has loaded: they do not change while it runs.
        self.modules: tuple[str, ...] = ()
        self._stream = Stream()
        self._socket, self._user, self._passwords = socket, user, passwords
        self._connection: Connection | None = None
        # Whoever watched it has ended, and closes no connection any more.
        self._is_left = False
        self._opening, self._looking = asyncio.Lock(), asyncio.Lock()
        self._next_look: asyncio.Task[None] | None = None
        self._is_listed = False

    async def watch(self) -> None:
        """Look at it again and again until its process has ended."""
        ended = asyncio.ensure_future(self.process.end())
        try:
            while not self.process.has_ended:
                await self.look()
                await self._begin_stream()
                if self._follow is not None:
                    await self._follow(self)
                self.has_served = self.has_served or self.is_settled
                await asyncio.wait({ended}, timeout=self._pause())
        finally:
            ended.cancel()
            self.info = self.cluster = None
            self._is_left = True
            self._disconnect()

    def _pause(self) -> float:
        if not self.is_settled:
            return EAGER
        return SOON if self._stream.is_near else PERIOD

    async def _begin_stream(self) -> None:
        self._stream.see(self.info)
        if not self._stream.needs_word:
            return
        try:
            await (await self._open()).tell(*WORD)
        except (Silent, Refused) as error:
            log.debug("the replica says its word only by itself: %s", error)

    @property
    def is_settled(self) -> bool:
        """It answers, and has loaded its data."""
        return self.info is not None and self.info.get("loading") != "1"

    async def look(self, *, with_shards: bool = False) -> None:
        asked = time.monotonic()
        try:
            # By a name of our own: whoever sees its end meanwhile takes what it said away.
            told, fence = await self._ask([("INFO", *SECTIONS), ("CONFIG", "GET", FENCE)])
            said = info.parse(told)
            self.info = self.said = said
            self.last_word = int(said.get("master_repl_offset", "0")), asked
            self.fence = int(fence[1]), asked
            self.cluster = await self._cluster_of(said, with_shards)
            if not self._is_listed and said.get("loading") != "1":
                self._is_listed = True
                self.modules = modules.names(await self.call("MODULE", "LIST"))
        except (Silent, Refused) as error:
            log.debug("the server does not answer: %s", error)
            self.info = self.cluster = None

    async def _cluster_of(self, said: Mapping[str, str], with_shards: bool) -> ClusterView | None:
        if said.get("cluster_enabled") != "1" or said.get("loading") == "1":
            return None
        return await cluster.look(self._ask, said.get("valkey_version", ""), with_shards=with_shards)

    async def look_now(self) -> None:
        """For somebody who decides by it: what it said up to a second ago is not good enough.

        Those who ask at the same time share one look, which begins after they have asked.
        """
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_in_turn())
        await asyncio.shield(self._next_look)

    async def _look_in_turn(self) -> None:
        async with self._looking:
            self._next_look = None
            try:
                async with asyncio.timeout(AT_ONCE):
                    await self.look(with_shards=True)
            except TimeoutError:
                log.debug("the server does not answer at once")
                self.info = self.cluster = None

    async def connect(self) -> Connection:
        """One of its own, in bytes, for what takes long or is not text; whoever asks for it closes it."""
        return await self._open(in_bytes=True)

    async def keys(self) -> int:
        """At this moment."""
        return info.keys(info.parse(await self.call("INFO", "keyspace")))

    async def call(self, *words: str | int, limit: float = LIMIT) -> Any:
        """One command, on a connection that is made anew after a silence."""
        try:
            answer = await (await self._opened()).call(*words, limit=limit)
        except Refused:
            self.answers += 1
            raise
        self.answers += 1
        return answer

    async def _opened(self) -> Connection:
        async with self._opening:
            if self._connection is None or self._connection.is_closed:
                opened = await self._open()
                if self._is_left:
                    opened.close()
                    raise Silent("nobody watches the server any more")
                self._connection = opened
            return self._connection

    async def _open(self, *, in_bytes: bool = False) -> Connection:
        *others, last = self._passwords() or [""]
        for password in others:
            with contextlib.suppress(Refused):
                return await Connection.open(self._socket, self._user, password, in_bytes=in_bytes)
        return await Connection.open(self._socket, self._user, last, in_bytes=in_bytes)

    async def _ask(self, commands: list[tuple[str, ...]]) -> list[Any]:
        """All at once; one that is refused fails all."""
        answers = await (await self._opened()).call_all([*commands])
        self.answers += 1
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer
        return answers

    async def shut_down(self, grace: float, *how: str) -> bool:
        """Save what is to be saved and end; True when it ended by this order and in good order.

        A server that could not be asked, or did not say goodbye in time, has not stopped cleanly, even if its
        process ends meanwhile: a clean stop lets it start as primary again, over what its replicas have. The
        last thing a server does, when all is saved, is to remove its socket's file; a killed one leaves it.
        """
        # One that loads its data stops too, but saves nothing.
        has_loaded = self.is_settled
        self.is_stopping = True
        try:
            await self.call("SHUTDOWN", *how, limit=grace)
        except Ended:
            pass  # its way to say yes
        except (Refused, Silent) as error:
            self.is_stopping = False
            log.warning("the server was not stopped: %s", error)
            return False
        try:
            await asyncio.wait_for(self.process.end(), GOODBYE)
        except TimeoutError:
            return False
        return has_loaded and not self._socket.exists()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

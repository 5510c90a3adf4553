"""The fence around a primary that may not write: `min-replicas-to-write` above any count; reads go on.

Two may put it up, each with a number of its own: the operator by an order, and this sidecar for its own reasons.
Neither takes down what the other has put up, and a sidecar that starts again sees by the number whose it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

# More than there can ever be: no write has enough replicas then.
FENCED = 2**31 - 1
FENCED_HERE = FENCED - 1
FENCE = "min-replicas-to-write"
# With 0 the server counts no replicas, and fences nothing.
LAG, SOME_LAG = "min-replicas-max-lag", "10"
# By their old names too, which an operator before this one let people write.
DIRECTIVES = frozenset({FENCE, LAG, "min-slaves-to-write", "min-slaves-max-lag"})
log = logging.getLogger(__name__)


class Server(Protocol):
    async def call(self, *words: str | int) -> Any: ...


class Reason(Enum):
    """Why this sidecar has put it up."""

    LEASE = "the primary may not write without a lease"
    HANDOVER = "the primary hands over"
    VOLUME = "its volume is full, and a server that syncs every write would end with the next one"


class Fence:
    """Of one run of the server."""

    def __init__(self, server: Server, directive: Callable[[str, str], str]) -> None:
        self._server, self._directive = server, directive
        self.reasons: set[Reason] = set()
        # As the server said last.
        self.is_up = False
        self.is_known = False
        # By the monotonic clock.
        self._set_at = float("-inf")

    async def look(self) -> None:
        asked = time.monotonic()
        self.see(await _value(self._server), asked)

    def see(self, value: int, asked: float) -> None:
        """What the server says; an answer to a question from before the last change is of no use."""
        if asked < self._set_at:
            return
        self.is_up = value >= FENCED_HERE
        if value == FENCED_HERE and not self.is_known:
            # The server was started so, or this sidecar was, after it: whoever has a lease takes it down.
            self.reasons.add(Reason.LEASE)
        self.is_known = True

    async def put_up(self, reason: Reason) -> None:
        self.reasons.add(reason)
        if await _value(self._server) < FENCED_HERE:
            await self._set(FENCED_HERE, self._lag())

    async def take_down(self, *reasons: Reason) -> None:
        self.reasons.difference_update(reasons)
        if not self.reasons and await _value(self._server) == FENCED_HERE:
            await self._set_usual()

    async def order(self, is_on: bool) -> None:
        """What the operator wishes; what we have put up ourselves stays."""
        if is_on:
            await self._set(FENCED, self._lag())
        elif self.reasons:
            await self._set(FENCED_HERE, self._lag())
        else:
            await self._set_usual()

    async def drop_clients(self) -> None:
        """They find the primary anew, wherever it is by then."""
        await self._server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _set_usual(self) -> None:
        await self._set(self._directive(FENCE, "0"), self._directive(LAG, SOME_LAG))

    async def _set(self, value: int | str, lag: str) -> None:
        await self._server.call("CONFIG", "SET", FENCE, value, LAG, lag)
        self.is_up, self._set_at = int(value) >= FENCED_HERE, time.monotonic()

    def _lag(self) -> str:
        return _lag(self._directive(LAG, SOME_LAG))


def directives(usual: Mapping[str, str]) -> list[str]:
    """For a server that is to start behind its fence."""
    return [f"{FENCE} {FENCED_HERE}", f"{LAG} {_lag(usual.get(LAG, SOME_LAG))}"]


def _lag(usual: str) -> str:
    return SOME_LAG if usual == "0" else usual


async def is_up(server: Server) -> bool:
    return await _value(server) >= FENCED_HERE


async def _value(server: Server) -> int:
    return int((await server.call("CONFIG", "GET", FENCE))[1])

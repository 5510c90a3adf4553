"""Events that the operator does not know yet, in their order, for as long as it is away."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque

from valkey_operator.contract.v1 import sidecar_pb2 as contract

# Of the oldest nobody can make anything any more; the observation says what is.
MOST = 100
log = logging.getLogger(__name__)


class Outbox:
    """An event leaves it only when the operator has acknowledged it, or when there are too many."""

    def __init__(self) -> None:
        self._events: deque[contract.Event] = deque()
        self._last = 0
        self._dropped = 0
        self._filled, self._emptied = asyncio.Event(), asyncio.Event()
        self._emptied.set()
        # When the operator heard us last, by the monotonic clock.
        self.heard_at = -math.inf

    def tell(self, kind: contract.Event.Kind, message: str) -> None:
        # No two have the same time, by which the operator knows one that comes twice.
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        self._events.append(contract.Event(kind=kind, message=message, at=self._last))
        if len(self._events) > MOST:
            self._events.popleft()
            self._dropped += 1
        self._filled.set()
        self._emptied.clear()

    def waiting(self) -> list[contract.Event]:
        """All of them; what comes later is news."""
        self._filled.clear()
        return list(self._events)

    def acknowledged(self, events: list[contract.Event]) -> None:
        """These have arrived; some may have been dropped, and others have come, since they were sent."""
        self.heard_at = time.monotonic()
        while events and self._events and self._events[0].at <= events[-1].at:
            self._events.popleft()
        if self._dropped:
            log.warning("%d events were dropped before the operator heard of them", self._dropped)
            self._dropped = 0
        if not self._events:
            self._emptied.set()

    def dismissed(self) -> None:
        """The operator does not look after this node any more: nothing is to be waited for."""
        self.heard_at = -math.inf

    async def news(self) -> None:
        """Returns when there is an event that was not in the last `waiting`."""
        await self._filled.wait()

    async def emptied(self) -> None:
        """Returns when the operator knows all."""
        await self._emptied.wait()

"""Keys that wait to be reconciled: each once, in the order they came, never one that is being worked on.

A key that comes again while it is worked on waits for its next turn behind the others: a hot one starves nobody.
Waiting for later is a timer, not a worker. Everything runs in one event loop and needs no lock.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from valkey_operator.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class Queue(Generic[K]):
    """For one consumer that takes keys and says when each is done."""

    def __init__(self, backoff: Callable[[], Backoff] = Backoff) -> None:
        self._make_backoff = backoff
        self._order: deque[K] = deque()
        self._waiting: dict[K, float] = {}
        self._active: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failing: dict[K, Backoff] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting[key] = time.monotonic()
        if key not in self._active:
            self._append(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Later, unless an earlier time is already set or the key comes by itself before."""
        when = asyncio.get_running_loop().time() + seconds
        known = self._timers.get(key)
        if known is None or when < known.when():
            self._cancel_timer(key)
            self._timers[key] = asyncio.get_running_loop().call_at(when, self._due, key)

    def retry(self, key: K) -> float:
        """Later, and later still each time, until `succeeded`; the seconds."""
        wait = self._failing.setdefault(key, self._make_backoff()).failed()
        self.add_after(key, wait)
        return wait

    def succeeded(self, key: K) -> None:
        self._failing.pop(key, None)

    async def take(self) -> tuple[K, float]:
        """The next key, and how long it has waited. It is not given out again before `done`."""
        while not self._order:
            self._filled.clear()
            await self._filled.wait()
        key = self._order.popleft()
        self._active.add(key)
        self._cancel_timer(key)
        return key, time.monotonic() - self._waiting.pop(key)

    def done(self, key: K) -> None:
        self._active.discard(key)
        if key in self._waiting:
            self._append(key)

    def _append(self, key: K) -> None:
        self._order.append(key)
        self._filled.set()

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

"""How fast a counted operation goes, and when it will probably end. Nothing here survives the process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from valkey_operator.kube.objects import Key

# In seconds: what is longer ago says little of what is to come.
WINDOW = 60.0
MOST = 600


class Pace:
    """By object: how much was done when."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[Key, deque[tuple[float, int]]] = {}

    def seconds_left(self, key: Key, done: int, total: int) -> float | None:
        """None as long as nobody can tell: nothing was seen to be done yet."""
        seen = self._seen.setdefault(key, deque(maxlen=MOST))
        if seen and done < seen[-1][1]:
            seen.clear()  # another one
        now = self._now()
        seen.append((now, done))
        while seen[0][0] < now - WINDOW and len(seen) > 2:
            seen.popleft()
        first, before = seen[0]
        return (total - done) * (now - first) / (done - before) if done > before else None

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)

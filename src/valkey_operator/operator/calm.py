"""Holds progress back for a moment: what is on its way changes many times a second, and each write costs all of them.

Only while a status says Initializing and goes on saying so; whatever else changes is written at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from valkey_operator.api.status import State
from valkey_operator.kube.objects import Key

PAUSE = 2.0


class Calm:
    """By object."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._written: dict[Key, float] = {}

    def pause(self, key: Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
        """How long to wait before this is written; 0 is now."""
        states = {before.get("state"), after.get("state")}
        if before == after or states != {State.INITIALIZING}:
            self._written.pop(key, None)
            if after.get("state") == State.INITIALIZING:
                self._written[key] = self._now()
            return 0.0
        left = self._written.setdefault(key, self._now()) + PAUSE - self._now()
        if left > 0:
            return left
        self._written[key] = self._now()
        return 0.0

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

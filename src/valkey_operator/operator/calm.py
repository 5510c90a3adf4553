"""Holds progress back for a moment: what is on its way changes many times a second, and each write costs all of them.

Only while a status says Initializing and goes on saying so (with `is_calm_from_the_first` also before it has said
anything), or the same operation counts on; whatever else changes is written at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from valkey_operator.api.status import State
from valkey_operator.kube.objects import Key

PAUSE = 2.0
# What changes with every slot that has moved.
PROGRESS = ("message", "conditions", "operation", "next", "shards")


class Calm:
    """By object."""

    def __init__(
        self, pause: float = PAUSE, now: Callable[[], float] = time.monotonic, *,
        is_calm_from_the_first: bool = False,
    ) -> None:  # fmt: skip
        self._pause, self._now, self._first = pause, now, is_calm_from_the_first
        self._written: dict[Key, float] = {}

    def pause(self, key: Key, before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
        """How long to wait before this is written; 0 is now."""
        if before == after or not self._is_on_its_way(before, after):
            self._written.pop(key, None)
            if after.get("state") in (State.INITIALIZING, State.RECONCILING):
                self._written[key] = self._now()
            return 0.0
        left = self._written.setdefault(key, self._now()) + self._pause - self._now()
        if left > 0:
            return left
        self._written[key] = self._now()
        return 0.0

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

    def _is_on_its_way(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        unsaid = State.INITIALIZING if self._first else None
        if {before.get("state", unsaid), after.get("state")} == {State.INITIALIZING}:
            return True
        counted = [each.get("operation") or {} for each in (before, after)]
        is_same = counted[0].get("kind") == counted[1].get("kind") and all(
            "total" in each for each in counted
        )
        return is_same and _rest(before) == _rest(after)


def _rest(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name not in PROGRESS}

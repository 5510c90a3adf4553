"""Makes a kubelet look at the files of a pod now: it does so when an annotation of the pod changes.

It may look before it has heard of the change itself, and would then come back only a minute later. So it is nudged
again, less and less often, for as long as the pod does not say that it has the new files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from valkey_operator.operator.seen import Pod

FIRST_PAUSE = 2.0
# After these the kubelet's own round has come by, and something else is wrong.
ATTEMPTS = 6


@dataclass
class _Nudged:
    mark: str
    count: int
    at: float


class Nudges:
    """By pod and annotation."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._last: dict[tuple[str, str], _Nudged] = {}

    def value(self, pod: Pod, annotation: str, mark: str) -> str | None:
        """What to write into the annotation of a pod that has not got these files yet; None: not now."""
        key = (pod.metadata.uid, annotation)
        last = self._last.get(key)
        if last is None or last.mark != mark:
            last = self._last[key] = _Nudged(mark, 0, self._now())
        elif last.count >= ATTEMPTS or self._now() - last.at < self._pause(last):
            return None
        last.count, last.at = last.count + 1, self._now()
        return mark if last.count == 1 else f"{mark}-{last.count}"

    def arrived(self, pod: Pod, annotation: str) -> None:
        self._last.pop((pod.metadata.uid, annotation), None)

    def pause(self, pod: Pod, annotation: str) -> float | None:
        """When to ask again; None when it would be in vain."""
        last = self._last.get((pod.metadata.uid, annotation))
        if last is None or last.count >= ATTEMPTS:
            return None
        return max(0.1, last.at + self._pause(last) - self._now())

    @staticmethod
    def _pause(last: _Nudged) -> float:
        return FIRST_PAUSE * 2.0 ** (last.count - 1)

"""Makes a kubelet look at the files of a pod now: it does so when an annotation of the pod changes.

It may look before it has heard of the change itself, and would then come back only a minute later. So it is nudged
again, less and less often, for as long as the pod does not say that it has the new files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from valkey_operator.kube.objects import Key
from valkey_operator.operator.seen import Pod

FIRST_PAUSE = 2.0
# After these the kubelet's own round has come by, and something else is wrong.
ATTEMPTS = 6
# From the moment that a machine was found for a pod to its address, while there are no more of them than AT_ONCE.
STARTS_WITHIN = 3.0
AT_ONCE = 10


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


@dataclass
class _Placed:
    pod: str
    at: float
    count: int = 0


class Starts:
    """Pods that their kubelets have not begun, by node. A kubelet that hears of a pod sooner than the API server's own
    check of its rights is refused the volume, and tries again by itself only ten to fifteen seconds later."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._placed: dict[Key, _Placed] = {}

    def value(self, node: Key, pod: Pod) -> str | None:
        """What to write into the annotation of a pod that is late; None: not now."""
        if pod.status.pod_ip or not pod.spec.node_name:
            self.forget(node)
            return None
        placed = self._placed.get(node)
        if placed is None or placed.pod != pod.metadata.uid:
            placed = self._placed[node] = _Placed(pod.metadata.uid, self._now())
        if placed.count >= ATTEMPTS or self._now() < self._due(placed):
            return None
        placed.count += 1
        return str(placed.count)

    def pause(self, node: Key) -> float | None:
        """When to ask again; None when it is not waited for."""
        placed = self._placed.get(node)
        if placed is None or placed.count >= ATTEMPTS:
            return None
        return max(0.1, self._due(placed) - self._now())

    def forget(self, node: Key) -> None:
        self._placed.pop(node, None)

    def _due(self, placed: _Placed) -> float:
        return placed.at + STARTS_WITHIN * 2.0**placed.count * max(1.0, len(self._placed) / AT_ONCE)

"""The last observation of each node, as its sidecar sent it or was asked for it.

It is a memory, not the truth: an observation that is old says that we hear nothing, never that something is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key

log = logging.getLogger(__name__)

Events = Sequence[contract.Event]
# The node, what was known before, what is known now, and what happened meanwhile.
Listener = Callable[[Key, contract.Observation | None, contract.Observation, Events], None]


@dataclass(frozen=True)
class Heard:
    """An observation, and when it came, on this process's monotonic clock."""

    observation: contract.Observation
    at: float


class Observations:
    """By node."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._heard: dict[Key, Heard] = {}
        self._listeners: list[Listener] = []

    def get(self, key: Key) -> Heard | None:
        return self._heard.get(key)

    def take(self, key: Key, observation: contract.Observation, events: Events = ()) -> str:
        """Keep it and tell the listeners; or a sentence why not, and nothing has changed.

        Whether the pod is the node's current one is the caller's to know: another one's replaces what was there.
        """
        known = self._heard.get(key)
        before = known.observation if known is not None else None
        if before is not None and not _is_newer(observation, before):
            return f"an observation of {key} that is as new or newer is known already"
        self._heard[key] = Heard(observation, self._now())
        for listener in self._listeners:
            _tell(listener, key, before, observation, events)
        return ""

    def forget(self, key: Key) -> None:
        """The node is no more."""
        self._heard.pop(key, None)

    def on_change(self, listener: Listener) -> None:
        """It is told of every observation that was taken."""
        self._listeners.append(listener)


def _is_newer(observation: contract.Observation, known: contract.Observation) -> bool:
    if observation.pod_uid != known.pod_uid:
        return True
    return (observation.run, observation.sequence) > (known.run, known.sequence)


def _tell(
    listener: Listener,
    key: Key,
    before: contract.Observation | None,
    after: contract.Observation,
    events: Events,
) -> None:
    try:
        listener(key, before, after, events)
    except Exception:
        # The sidecar's events have arrived: what one listener makes of them is not the sidecar's fault.
        log.exception("a listener failed at an observation of %s", key)

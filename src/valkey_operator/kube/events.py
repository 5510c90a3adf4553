"""Kubernetes Events: what happened to an object, for `kubectl describe` and `kubectl get events`.

Saying something waits for nothing and never fails; `run` writes it. What is said again is counted in the Event
that is there, and one object causes only so many writes. An Event may get lost: nothing may depend on one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import msgspec

from valkey_operator.kube import metrics
from valkey_operator.kube.client import Client, JsonObject
from valkey_operator.kube.errors import AlreadyExists, ServerFault, Throttled, Unreachable
from valkey_operator.kube.objects import Key, Metadata
from valkey_operator.kube.resources import EVENTS, Resource

NOTE_LIMIT = 1024  # bytes: so the API server counts
WINDOW = 600.0  # what is said again within this time is the same Event
SIMILAR = 10  # so many notes for one reason are told apart in that time
COMBINED = "(combined from similar events): "
GAP = 5.0  # between two writes of one Event
BURST, REFILL = 25, 300.0  # writes for one object, and the seconds after which it may have one more
ATTEMPTS = 5
WAITING, REMEMBERED = 1000, 2000  # Events, objects

log = logging.getLogger(__name__)
Item = tuple[Resource, Metadata]
Type = Literal["Normal", "Warning"]
Said = tuple[str, str, str, str]  # type, reason, action, note


@dataclass
class _About:
    """What was said about one object lately, and how many writes it has left."""

    since: float
    tokens: float = BURST
    events: dict[Said, _Event] = field(default_factory=dict)

    def refresh(self, now: float) -> None:
        self.tokens = min(BURST, self.tokens + (now - self.since) / REFILL)
        self.since = now
        self.events = {said: event for said, event in self.events.items() if now < event.ends}


@dataclass
class _Event:
    """How often it was said, and how much of that is written (0: the Event is not there yet)."""

    about: _About
    key: Key
    body: JsonObject
    due: float
    ends: float = 0.0
    last: str = ""
    count: int = 0
    written: int = 0
    attempts: int = 0


class Recorder:
    """To be used in the thread of the event loop."""

    def __init__(
        self, client: Client, controller: str, instance: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._reporter = {"reportingController": controller, "reportingInstance": instance}
        self._clock = clock
        self._abouts: dict[object, _About] = {}  # the one spoken of last is last
        self._waiting: dict[Key, _Event] = {}
        self._wake = asyncio.Event()

    def event(self, regarding: Item, reason: str, note: str, type: Type = "Normal", action: str = "") -> None:  # noqa: A002
        """Say it. `action` is what was being done, where the reason does not tell."""
        now, about = self._clock(), self._about(regarding)
        said = known = (type, reason, action or reason, _cut(note))
        if said not in about.events and sum(other[:2] == said[:2] for other in about.events) >= SIMILAR:
            said, known = (*said[:3], _cut(COMBINED + note)), (type, reason, "", COMBINED)
        if known not in about.events:
            if about.tokens < 1 or len(self._waiting) >= WAITING:
                metrics.EVENTS_DROPPED.inc()
                return
            about.tokens -= 1
            about.events[known] = self._new(about, regarding, said)
        event = about.events[known]
        event.count, event.ends, event.last = event.count + 1, now + WINDOW, _moment()
        if event.key not in self._waiting and len(self._waiting) < WAITING:
            self._waiting[event.key] = event
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            pause = await self.write_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def write_due(self) -> float | None:
        """Write what may be written now; the seconds until more may be, None when nothing waits."""
        for event in list(self._waiting.values()):
            if event.due <= self._clock():
                await self._write(event, self._clock())
        dues = [event.due for event in self._waiting.values()]
        return max(0.0, min(dues) - self._clock()) if dues else None

    def _about(self, regarding: Item) -> _About:
        resource, of = regarding
        who = (resource, of.namespace, of.name, of.uid)
        about = self._abouts[who] = self._abouts.pop(who, _About(self._clock()))
        if len(self._abouts) > REMEMBERED:
            del self._abouts[next(iter(self._abouts))]
        about.refresh(self._clock())
        return about

    def _new(self, about: _About, regarding: Item, said: Said) -> _Event:
        resource, of = regarding
        # In "default" everybody looks for Events about things without a namespace, and by name they are in order.
        key = Key(of.namespace or "default", f"{of.name[:200].rstrip('-.')}.{time.time_ns():x}")
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = {
            "metadata": key._asdict(),
            "eventTime": _moment(),
            "regarding": {**kind, "namespace": of.namespace, "name": of.name, "uid": of.uid},
            **dict(zip(("type", "reason", "action", "note"), said, strict=True)),
            **self._reporter,
        }
        return _Event(about, key, body, due=self._clock())

    async def _write(self, event: _Event, now: float) -> None:
        about, count = event.about, event.count
        about.refresh(now)
        if event.written and about.tokens < 1:
            event.due = now + (1 - about.tokens) * REFILL
            return
        series = {"series": {"count": count, "lastObservedTime": event.last}} if count > 1 else {}
        try:
            if event.written:
                about.tokens -= 1
                await self._client.patch(EVENTS, event.key, series, msgspec.Raw)
            else:
                await self._client.create(EVENTS, event.key.namespace, {**event.body, **series}, msgspec.Raw)
        except AlreadyExists:  # created by an attempt whose answer got lost
            count = 1
        except Exception as error:  # noqa: BLE001 - one that cannot be written must not keep the others waiting
            self._failed(event, error, now)
            return
        event.written, event.attempts, event.due = count, 0, now + GAP
        if event.written == event.count:
            del self._waiting[event.key]

    def _failed(self, event: _Event, error: Exception, now: float) -> None:
        event.attempts, event.due = event.attempts + 1, now + 2.0**event.attempts
        if not isinstance(error, (Throttled, Unreachable, ServerFault)) or event.attempts == ATTEMPTS:
            log.debug("the event %s is dropped", event.key, exc_info=error)
            metrics.EVENTS_DROPPED.inc()
            event.ends = now  # said again, it is a new one
            del self._waiting[event.key]


def _cut(note: str) -> str:
    content = note.encode(errors="replace")
    end = b"" if len(content) <= NOTE_LIMIT else "…".encode()
    return (content[: NOTE_LIMIT - len(end)] + end).decode(errors="ignore")


def _moment() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

"""Keeps a `Store` equal to what the API server has: a list once, then a watch that resumes where it broke.

What it must never do: take a silent connection for a quiet cluster, forget a delete that happened while it
could not see (after 410 it lists again and deletes what is gone), or believe an old list.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Generic

import msgspec

from valkey_operator.kube import errors, metrics
from valkey_operator.kube.backoff import Backoff
from valkey_operator.kube.client import PAGE, Client, decoder
from valkey_operator.kube.objects import Key, Object, ObjectT, StatusAnswer, WatchEvent
from valkey_operator.kube.resources import EVERYTHING, Resource, Selection
from valkey_operator.kube.store import Store

# The server sends a bookmark about once a minute: a connection silent for longer is dead.
IDLE = 90.0
# A watch that stood this long was a good one.
LASTING = 5.0
# A net below the watch, nothing more: an event that a server lost is found within this time.
LIST_AGAIN = 3600.0
# How often a list older than what we saw is refused before we believe that etcd was restored from a backup.
OLD_LISTS = 5

log = logging.getLogger(__name__)


class Informer(Generic[ObjectT]):
    """One resource, in all namespaces or in those named."""

    def __init__(
        self, client: Client, resource: Resource, type_: type[ObjectT], namespaces: Sequence[str] = (),
        selection: Selection = EVERYTHING, idle: float = IDLE,
    ) -> None:  # fmt: skip
        self.client = client
        self.resource = resource
        self.type = type_
        self.selection = selection
        self.idle = idle
        self.store: Store[ObjectT] = Store()
        self._reflections = [Reflection(self, namespace) for namespace in namespaces or ("",)]
        metrics.CACHED.labels(str(resource)).set_function(self.store.__len__)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflection in self._reflections:
                group.create_task(reflection.run(), name=f"watch {self.resource} {reflection.namespace}")

    async def synced(self) -> None:
        """Returns once everything was listed for the first time."""
        for reflection in self._reflections:
            await reflection.listed.wait()

    def trouble(self) -> str | None:
        """Why the cache may be behind, or None."""
        return next((reflection.trouble for reflection in self._reflections if reflection.trouble), None)

    async def refresh(self, key: Key) -> None:
        """Look at one object directly: the outcome of a write is not known."""
        known = self.store.get(key)
        try:
            self.store.put(await self.client.get(self.resource, key, self.type))
        except errors.NotFound:
            if known is not None:
                self.store.delete(known, by_us=True)


class Reflection(Generic[ObjectT]):
    """The part of an informer that lists and watches one namespace, or all of them as one."""

    def __init__(self, informer: Informer[ObjectT], namespace: str) -> None:
        self.namespace = namespace
        self.listed = asyncio.Event()
        self.trouble: str | None = "not listed yet"
        self._informer = informer
        self._store = informer.store
        self._version = 0
        self._must_list = True
        self._listed_at = 0.0
        self._old_lists = 0
        self._backoff = Backoff(first=0.1, longest=15.0)

    async def run(self) -> None:
        while True:
            try:
                await self._look()
            except errors.KubeError as error:
                self._must_list = self._must_list or isinstance(error, errors.Gone)
                await self._again(error)

    async def _look(self) -> None:
        if self._must_list or time.monotonic() - self._listed_at > LIST_AGAIN:
            await self._list()
        ends_soon = time.monotonic() + LASTING
        try:
            await self._watch()
        finally:
            if time.monotonic() > ends_soon:
                self._backoff.succeeded()
        metrics.WATCH_RESTARTS.labels(str(self._informer.resource), "ended").inc()
        if time.monotonic() < ends_soon:  # a server that ends watches at once is not to be asked in a loop
            await asyncio.sleep(self._backoff.failed())

    async def _again(self, error: errors.KubeError) -> None:
        self.trouble = str(error)
        metrics.WATCH_RESTARTS.labels(str(self._informer.resource), type(error).__name__).inc()
        wait = self._backoff.failed()
        if isinstance(error, errors.Throttled):
            wait = error.retry_after
        log.log(
            logging.WARNING if self._backoff.failures > 1 else logging.INFO,
            "%s; again in %.1f s",
            error,
            wait,
        )
        await asyncio.sleep(wait)

    async def _list(self) -> None:
        try:
            listed, version = await self._pages(PAGE)
        except errors.Gone:  # a page outlived the server's memory of it: all in one, then
            listed, version = await self._pages(0)
        went_back = version < self._version
        if went_back:
            self._doubt(version)
        # From here to the end nobody else runs, so nobody sees half a list.
        for item, why in listed:
            self._put(item, why, whatever_version=went_back)
        present = {item.key for item, _ in listed}
        self._store.keep_only(present, self.namespace, max(version, self._version))
        self._version, self._listed_at, self._must_list = version, time.monotonic(), False
        self._old_lists = 0
        self.listed.set()

    def _doubt(self, version: int) -> None:
        """A list from the past: a server that lags, or an etcd that was restored. Only the second one stays."""
        self._old_lists += 1
        sentence = (
            f"list {self._informer.resource}: version {version} is older than {self._version} seen before"
        )
        if self._old_lists <= OLD_LISTS:
            raise errors.Unreadable(sentence)
        log.warning("%s; it stays so and is believed", sentence)

    async def _pages(self, size: int) -> tuple[list[tuple[Object, str]], int]:
        informer, found, version = self._informer, list[tuple[Object, str]](), 0
        async for page in informer.client.pages(
            informer.resource, msgspec.Raw, self.namespace, informer.selection, size
        ):
            version = int(page.metadata.resource_version)
            found.extend(map(self._read, page.items or ()))
        return found, version

    def _read(self, content: msgspec.Raw) -> tuple[Object, str]:
        """The object as its projection; else its metadata, and why no more of it can be read."""
        try:
            return decoder(self._informer.type).decode(content), ""
        except msgspec.ValidationError as error:
            return decoder(Object).decode(content), str(error)

    def _put(self, item: Object, why: str, *, whatever_version: bool = False) -> None:
        if isinstance(item, self._informer.type) and not why:
            self._store.put(item, whatever_version=whatever_version)
        else:
            log.warning("%s %s cannot be read: %s", self._informer.resource, item.key, why)
            self._store.put_unreadable(item, why)

    async def _watch(self) -> None:
        informer = self._informer
        lines = informer.client.watch(
            informer.resource, self.namespace, informer.selection, str(self._version), informer.idle
        )
        async with contextlib.aclosing(lines):
            async for batch in lines:
                self.trouble = None
                for line in batch:
                    self._event(line)

    def _event(self, line: bytes) -> None:
        asked = f"watch {self._informer.resource}"
        try:
            event: WatchEvent = decoder(WatchEvent).decode(line)
            if event.type == "ERROR":
                status: StatusAnswer = decoder(StatusAnswer).decode(event.object)
                raise errors.refusal(status.code or 500, {}, bytes(event.object), asked)
            item, why = self._read(event.object)
        except msgspec.MsgspecError as error:
            raise errors.Unreachable(f"{asked}: a line cannot be read: {error}") from None
        if event.type == "DELETED":
            self._store.delete(item)
        elif event.type != "BOOKMARK":
            self._put(item, why)
        self._version = item.version

"""Keeps a `Store` equal to what the API server has: a list once, then a watch that resumes where it broke.

What it must never do: take a silent connection for a quiet cluster, forget a delete that happened while it
could not see (after 410 it lists again and deletes what is gone), believe an old list, or take what it may not see for
what is not there. Only where a whole namespace is gone, nothing is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Sequence
from typing import Generic

import msgspec

from valkey_operator.kube import errors, metrics
from valkey_operator.kube.backoff import Backoff
from valkey_operator.kube.client import PAGE, Client, decode, decoder
from valkey_operator.kube.objects import UNDECODABLE, Key, Object, ObjectT, Unread, WatchEvent
from valkey_operator.kube.resources import EVERYTHING, NAMESPACES, Resource, Selection
from valkey_operator.kube.store import Store

# The server sends a bookmark about once a minute: a connection silent for longer is dead.
IDLE = 90.0
# A watch that stood this long was a good one.
LASTING = 5.0
# A net below the watch, nothing more: an event that a server lost is found within this time.
LIST_AGAIN = 3600.0
# A namespace that was deleted may be made again, and its rights after it. Nobody tells when.
GONE_AGAIN = 30.0
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

    def read(self, content: bytes | msgspec.Raw) -> ObjectT | Unread:
        """The object as its projection; else what can be read of it, and why not more."""
        try:
            found: ObjectT = decoder(self.type).decode(content)
        except UNDECODABLE as error:
            item = decode(content, Object, f"read {self.resource}")
            log.warning("%s %s cannot be read: %s", self.resource, item.key, error)
            return Unread(item.metadata, str(error))
        return found

    async def refresh(self, key: Key) -> None:
        """Look at one object directly: the outcome of a write is not known."""
        known = self.store.known(key)
        try:
            self.store.put(self.read(await self.client.get(self.resource, key, msgspec.Raw)))
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
            except errors.Forbidden as error:
                if await self._namespace_is_gone():
                    await self._rest()
                else:
                    await self._again(error)
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

    async def _namespace_is_gone(self) -> bool:
        """The right to look there goes with it. By the namespace itself: one kind alone may be missing in a Role."""
        if not self.namespace:
            return False
        try:
            await self._informer.client.get(NAMESPACES, Key("", self.namespace), Object)
        except errors.NotFound:
            return True
        except errors.KubeError:  # who may not ask, or gets no answer, does not know
            return False
        return False

    async def _rest(self) -> None:
        if self.trouble is not None:
            log.warning("namespace %s is gone, and all its %s", self.namespace, self._informer.resource)
        self._store.keep_only((), self.namespace, sys.maxsize)
        self._must_list, self.trouble = True, None
        self.listed.set()
        await asyncio.sleep(GONE_AGAIN)

    async def _again(self, error: errors.KubeError) -> None:
        self.trouble = str(error)
        metrics.WATCH_RESTARTS.labels(str(self._informer.resource), type(error).__name__).inc()
        wait = self._backoff.failed()
        if isinstance(error, errors.Throttled):
            wait = error.retry_after
        level = logging.WARNING if self._backoff.failures > 1 else logging.INFO
        log.log(level, "%s; again in %.1f s", error, wait)
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
        for item in listed:
            self._store.put(item, whatever_version=went_back)
        self._store.keep_only(listed, self.namespace, max(version, self._version))
        self._version, self._listed_at, self._must_list = version, time.monotonic(), False
        self._old_lists = 0
        self.listed.set()

    def _doubt(self, version: int) -> None:
        """A list from the past: a server that lags, or an etcd that was restored. Only the second one stays."""
        self._old_lists += 1
        resource, known = self._informer.resource, self._version
        sentence = f"list {resource}: version {version} is older than {known} seen before"
        if self._old_lists <= OLD_LISTS:
            raise errors.Unreadable(sentence)
        log.warning("%s; it stays so and is believed", sentence)

    async def _pages(self, size: int) -> tuple[list[ObjectT | Unread], int]:
        asked, found, version = self._informer, list[ObjectT | Unread](), 0
        pages = asked.client.pages(asked.resource, msgspec.Raw, self.namespace, asked.selection, size)
        async for page in pages:
            version = int(page.metadata.resource_version)
            found += map(asked.read, page.items or ())
        return found, version

    async def _watch(self) -> None:
        asked, version = self._informer, str(self._version)
        lines = asked.client.watch(asked.resource, self.namespace, asked.selection, version, asked.idle)
        async with contextlib.aclosing(lines):
            async for batch in lines:
                self.trouble = None
                for line in batch:
                    self._event(line)

    def _event(self, line: bytes) -> None:
        asked = f"watch {self._informer.resource}"
        event = decode(line, WatchEvent, asked)
        if event.type == "ERROR":
            raise errors.refusal(bytes(event.object), asked)
        if event.type in ("BOOKMARK", "DELETED"):
            told = decode(event.object, Object, asked)
            if event.type == "DELETED":
                self._store.delete(told)
            self._version = told.version
        else:
            changed = self._informer.read(event.object)
            self._store.put(changed)
            self._version = changed.version

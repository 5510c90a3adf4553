"""Runs `reconcile(key)` for every key that something happened to, many keys at once, one key never twice at once.

A reconcile that fails is tried again, later each time; one that does not end is ended at its deadline and named.
Neither delays another key.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from valkey_operator.kube import errors, metrics
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object, ObjectT
from valkey_operator.kube.queue import Queue
from valkey_operator.process.logs import bound

# Seconds after which to look again although nothing happened, or None.
Again = float | None
Reconcile = Callable[[Key], Awaitable[Again]]
Settle = Callable[[], Awaitable[None]]
Mapping = Callable[[Object], Iterable[Key]]

log = logging.getLogger(__name__)


def itself(item: Object) -> Iterable[Key]:
    return (item.key,)


def owner(kind: str) -> Mapping:
    """From a child to its controlling owner of that kind."""

    def keys(item: Object) -> Iterable[Key]:
        owners = (each for each in item.metadata.owner_references if each.controller and each.kind == kind)
        return (Key(item.metadata.namespace, each.name) for each in owners)

    return keys


def label(name: str) -> Mapping:
    """From an object to the one in the same namespace that its label names."""

    def keys(item: Object) -> Iterable[Key]:
        named = item.metadata.labels.get(name)
        return (Key(item.metadata.namespace, named),) if named else ()

    return keys


class Controller:
    """One kind of key and how to reconcile it."""

    def __init__(
        self, name: str, reconcile: Reconcile, *, settle: Settle | None = None, workers: int = 32,
        deadline: float = 60.0,
    ) -> None:  # fmt: skip
        self.name = name
        self.queue: Queue[Key] = Queue()
        self._reconcile = reconcile
        self._settle = settle
        self._workers = workers
        self._deadline = deadline
        self._taking: asyncio.Task[None] | None = None
        self._working: set[asyncio.Task[None]] = set()
        metrics.QUEUE_DEPTH.labels(name).set_function(self.queue.__len__)
        self._waited = metrics.QUEUE_SECONDS.labels(name)

    def watches(self, informer: Informer[ObjectT], keys: Mapping = itself) -> None:
        """A change of such an object wakes these keys; one that moves from parent to parent wakes both."""

        def changed(before: Object | None, after: Object | None) -> None:
            for item in (before, after):
                for key in keys(item) if item is not None else ():
                    self.queue.add(key)

        informer.store.on_change(changed)

    def wake(self, key: Key) -> None:
        """Something outside Kubernetes happened to this key."""
        self.queue.add(key)

    async def run(self, grace: float = 10.0) -> None:
        """Work until `stop`, then let what is in progress end within `grace`; cancelled, it ends at once."""
        self._taking = asyncio.create_task(self._take(), name=self.name)
        try:
            await asyncio.wait({self._taking})
            if not self._taking.cancelled():
                self._taking.result()
            if self._working:
                await asyncio.wait(self._working, timeout=grace)
        finally:
            unfinished = {self._taking, *self._working}
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished)

    def stop(self) -> None:
        """Begin nothing new."""
        if self._taking is not None:
            self._taking.cancel()

    async def _take(self) -> None:
        while True:
            while len(self._working) >= self._workers:
                await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            key, waited = await self.queue.take()
            self._waited.observe(waited)
            task = asyncio.create_task(self._work(key), name=f"{self.name} {key}")
            self._working.add(task)
            task.add_done_callback(functools.partial(self._worked, key))

    def _worked(self, key: Key, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if task.cancelled():  # perhaps before it began: whoever runs this controller next begins with it
            self.queue.add(key)
        self.queue.done(key)

    async def _work(self, key: Key) -> None:
        started = time.monotonic()
        with bound(controller=self.name, key=str(key)):
            result = await self._attempt(key)
        metrics.RECONCILE_SECONDS.labels(self.name, result).observe(time.monotonic() - started)

    async def _attempt(self, key: Key) -> str:
        """One reconcile; the word for its end is for metrics."""
        try:
            async with asyncio.timeout(self._deadline) as limit:
                if self._settle is not None:
                    await self._settle()
                again = await self._reconcile(key)
        except errors.KubeError as error:
            return self._refused(key, error)
        except Exception as error:
            wait = self.queue.retry(key)
            if not limit.expired():
                log.exception("failed; again in %.1f s", wait)
                return "error"
            sentence = "not done after %.0f s, ended while %s; again in %.1f s"
            log.error(sentence, self._deadline, _where(error), wait)  # noqa: TRY400 - it says more than a trace
            return "deadline"
        self.queue.succeeded(key)
        if again is not None:
            self.queue.add_after(key, again)
        return "ok"

    def _refused(self, key: Key, error: errors.KubeError) -> str:
        if isinstance(error, errors.NotLeader):
            self.queue.retry(key)  # if this process leads again, with this key
            log.info("stopped: %s", error)
            return "not_leader"
        if isinstance(error, errors.NamespaceEnds):
            log.info("left as it is: %s", error)  # its objects go, which wakes this key again
            return "namespace_ends"
        if isinstance(error, errors.Throttled):
            self.queue.add_after(key, error.retry_after)
            log.info("%s; again in %.0f s", error, error.retry_after)
            return "throttled"
        is_conflict = isinstance(error, errors.Conflict)
        level = logging.INFO if is_conflict else logging.WARNING
        log.log(level, "%s; again in %.1f s", error, self.queue.retry(key))
        return "conflict" if is_conflict else "error"


def _where(error: BaseException) -> str:
    """The innermost place, above the libraries, at which the reconcile was ended."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    ours = [frame for frame in frames if not {"asyncio", "aiohttp"} & set(Path(frame.filename).parts)]
    return f"in {ours[-1].name} ({Path(ours[-1].filename).name}:{ours[-1].lineno})"

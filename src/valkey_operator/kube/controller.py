"""Runs `reconcile(key)` for every key that something happened to, many keys at once, one key never twice at once.

A reconcile that fails is tried again, later each time; one that does not end is ended at its deadline and named.
Neither delays another key.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from valkey_operator.kube import errors, metrics
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.logs import bound
from valkey_operator.kube.objects import Key, Object, ObjectT, controlled_by
from valkey_operator.kube.queue import Queue

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
        name = controlled_by(item, kind)
        return () if name is None else (Key(item.metadata.namespace, name),)

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
        self._slots = asyncio.Semaphore(workers)
        self._settle = settle
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
            await self._slots.acquire()
            try:
                key, waited = await self.queue.take()
            except asyncio.CancelledError:
                self._slots.release()
                raise
            self._waited.observe(waited)
            task = asyncio.create_task(self._work(key), name=f"{self.name} {key}")
            self._working.add(task)
            task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        self._slots.release()

    async def _work(self, key: Key) -> None:
        started = time.monotonic()
        with bound(controller=self.name, key=str(key)):
            try:
                result = await self._attempt(key)
            except asyncio.CancelledError:
                self.queue.add(key)  # not done: whoever runs this controller next begins with it
                raise
            finally:
                self.queue.done(key)
        metrics.RECONCILE_SECONDS.labels(self.name, result).observe(time.monotonic() - started)

    async def _attempt(self, key: Key) -> str:
        """One reconcile and what its end means; the word is for metrics."""
        try:
            async with asyncio.timeout(self._deadline) as limit:
                if self._settle is not None:
                    await self._settle()
                again = await self._reconcile(key)
        except errors.NotLeader as error:
            log.info("stopped: %s", error)
            return "not_leader"
        except errors.Throttled as error:
            self.queue.add_after(key, error.retry_after)
            log.info("%s; again in %.0f s", error, error.retry_after)
            return "throttled"
        except errors.Conflict as error:
            log.info("%s; again in %.1f s", error, self.queue.retry(key))
            return "conflict"
        except errors.KubeError as error:
            log.warning("%s; again in %.1f s", error, self.queue.retry(key))
            return "error"
        except TimeoutError as error:
            if not limit.expired():
                return self._failed(key)
            where, wait = _where(error), self.queue.retry(key)
            sentence = "not done after %.0f s, ended while %s; again in %.1f s"
            log.error(sentence, self._deadline, where, wait)  # noqa: TRY400 - the place says more than a trace
            return "deadline"
        except Exception:  # noqa: BLE001 - one broken key must not end the others; it is reported in full
            return self._failed(key)
        self.queue.succeeded(key)
        if again is not None:
            self.queue.add_after(key, again)
        return "ok"

    def _failed(self, key: Key) -> str:
        log.exception("failed; again in %.1f s", self.queue.retry(key))
        return "error"


def _where(error: BaseException) -> str:
    """The innermost place, above the libraries, at which the reconcile was ended."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    ours = [
        frame for frame in frames if "/asyncio/" not in frame.filename and "/aiohttp/" not in frame.filename
    ]
    return f"in {ours[-1].name} ({Path(ours[-1].filename).name}:{ours[-1].lineno})"

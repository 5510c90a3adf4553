"""One process leads, and no other may write: a Lease, and a fence that ends before the Lease can pass on.

All times are measured on each process's own clock, none is compared between machines. The leader counts from
the moment before it sent its last renewal, a standby from the moment it saw that renewal, which is later. So
the leader's time, less a margin, is over before anybody else's begins; a process that was frozen finds its
time over when it wakes. What a late packet could still do is caught by comparing versions (`Writer.status`).
Only a leader that ran in the very container that this process runs in now is dead for sure, and not waited for.
Who lost the lead does not lead again: what it remembers of its first time another has made untrue since.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from valkey_operator.kube import errors, metrics
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Fields, Key, Metadata, Object
from valkey_operator.kube.resources import LEASES, Selection

log = logging.getLogger(__name__)


class LeaseSpec(Fields, frozen=True, gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, gc=False):
    spec: LeaseSpec = LeaseSpec()


NO_LEASE = Lease(Metadata())


def now() -> float:
    """Goes on while the machine sleeps; else a sleeper would think that its time has not passed."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Leadership:
    """This process's part in the Lease; the `Fence` of its clients. Needs a client of its own, without a fence.

    `place` begins the identities of all processes of which one lives only when the one before it is dead.
    """

    def __init__(
        self, client: Client, key: Key, identity: str, *, duration: int = 15, place: str | None = None
    ) -> None:
        self.identity, self._place = identity, place
        self._client = client
        self._key = key
        self._duration, self._margin = duration, duration / 5
        self._until = self._since = float("-inf")
        selection = Selection(fields=f"metadata.name={key.name}")
        self._informer = Informer(client, LEASES, Lease, (key.namespace,), selection)
        self._informer.store.on_change(self._saw)
        self._changed = asyncio.Event()
        self._seen_at = now()
        # At once, while `work` is still being ended.
        self.on_loss: Callable[[], None] = lambda: None

    @property
    def leader(self) -> str:
        """Who leads, as far as we see; nobody is an empty text."""
        return self._seen().spec.holder_identity or ""

    @property
    def leads(self) -> bool:
        return now() < self._until

    def leads_for(self) -> float:
        """Seconds since it began to lead; 0 while it does not."""
        return now() - self._since if self.leads else 0.0

    def time_left(self) -> float:
        left = self._until - now()
        if left <= 0:
            holder = self.leader or "nobody"
            why = f"{holder} does" if holder != self.identity else "it could not renew its lease"
            raise errors.NotLeader(f"{self.identity} does not lead: {why}")
        return left

    async def run(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Lead as soon as possible, and `work` meanwhile; on loss `work` is cancelled. Whether it ended by itself."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._informer.run(), name="watch the lease")
            await self._informer.synced()
            await self._acquire()
            has_ended = await self._lead(work)
            watching.cancel()
        return has_ended

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        log.info("%s leads", self.identity)
        self._since = now()
        metrics.LEADER.set(1)
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew(), name="renew the lease")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.on_loss()
        finally:
            working.cancel()
            await asyncio.wait({working})
            renewing.cancel()
            await asyncio.wait({renewing})
            metrics.LEADER.set(0)
            await self._release()
        for task in (working, renewing):
            if not task.cancelled():
                task.result()  # its error, if it had one, is ours
        if working.cancelled():
            log.error("%s lost the lead and has stopped all work", self.identity)
        return not working.cancelled()

    async def _acquire(self) -> None:
        while True:
            self._changed.clear()
            wait = self._free_in()
            if wait <= 0:
                if await self._attempt(self.identity):
                    return
                wait = 1.0
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait)

    def _seen(self) -> Lease:
        return self._informer.store.get(self._key) or NO_LEASE

    def _free_in(self) -> float:
        spec, leader = self._seen().spec, self.leader
        is_dead = self._place is not None and leader.startswith(self._place) and leader != self.identity
        if is_dead or not leader:
            return 0.0
        return self._seen_at + (spec.lease_duration_seconds or self._duration) - now()

    async def _renew(self) -> None:
        """Renew until it is too late, or somebody else is in the Lease."""
        pause = self._duration / 5
        while self.leads:
            await asyncio.sleep(min(pause, self._until - now()))
            if self.leads:
                pause = self._duration / (5 if await self._attempt(self.identity) else 20)

    async def _attempt(self, holder: str) -> bool:
        """Write ourselves (or nobody) into the very version of the Lease that was seen."""
        lease, sent, limit = self._seen(), now(), self._duration / 3
        body = self._body(holder, lease)
        try:
            async with asyncio.timeout(min(limit, self._until - sent) if self.leads else limit):
                if lease is NO_LEASE:
                    answer = await self._client.create(LEASES, self._key.namespace, body, Lease)
                else:
                    answer = await self._client.replace(LEASES, self._key, body, Lease)
        except (errors.KubeError, TimeoutError) as error:
            log.warning("the lease %s was not written: %s", self._key, str(error) or "no answer in time")
            if isinstance(error, errors.Conflict):  # somebody was quicker, or our last write got no answer
                with contextlib.suppress(errors.KubeError, TimeoutError):
                    await asyncio.wait_for(self._informer.refresh(self._key), limit)
            return False
        self._informer.store.put(answer)
        self._until = sent + self._duration - self._margin if holder else float("-inf")
        return True

    def _body(self, holder: str, seen: Lease) -> dict[str, Any]:
        metadata = {**self._key._asdict(), "resourceVersion": seen.metadata.resource_version}
        passes_on = bool(holder) and seen.spec.holder_identity != holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": self._duration if holder else 1,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseTransitions": (seen.spec.lease_transitions or 0) + passes_on,
        }
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        """Let another one lead at once; all our work has ended."""
        if self.leads:
            self._until = float("-inf")
            await self._attempt("")

    def _saw(self, _before: Object | None, _after: Object | None) -> None:
        self._seen_at = now()
        self._changed.set()
        if self.leader != self.identity:
            self._until = float("-inf")

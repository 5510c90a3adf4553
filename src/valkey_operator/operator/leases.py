"""How long a primary may write, as its sidecar asks every two seconds; and what that tells about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from valkey_operator.contract.identity import NodeIdentity
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import lease, succession
from valkey_operator.kube.objects import Key
from valkey_operator.model.instance import Lease, SeenInstance

MILLISECONDS = 6000
# A primary that does not ask again within this time is looked for.
OVERDUE = succession.UNHEARD + 0.05
NOBODY: frozenset[str] = frozenset()


@dataclass
class _Granted:
    node: str = ""
    granted_at: float | None = None
    asked_at: float | None = None
    counted_on: frozenset[str] = NOBODY
    relied_on: frozenset[str] = NOBODY


class Leases:
    """By deployment. `see` shows one as it is known now, without asking anybody."""

    def __init__(
        self,
        see: Callable[[Key], SeenInstance | None],
        now: Callable[[], float],
        leads_for: Callable[[], float],
    ) -> None:
        self._see, self._now, self._leads_for = see, now, leads_for
        self._given: dict[Key, _Granted] = {}
        # Names that are being written into `status.promotable`: from before the write on, every grant has them.
        self._entering: dict[Key, frozenset[str]] = {}
        self._overdue: dict[Key, asyncio.TimerHandle] = {}
        self.on_change: Callable[[Key], None] = lambda _key: None

    def of(self, deployment: Key, primary: str) -> Lease:
        """What was granted to this primary; grants of one before it still count as grants."""
        given = self._given.get(deployment, _Granted())
        is_its = given.node == primary
        return Lease(
            self._leads_for(),
            self._ago(given.granted_at),
            self._ago(given.asked_at) if is_its else None,
            given.counted_on if is_its else NOBODY,
            given.relied_on if is_its else NOBODY,
        )

    def answer(self, identity: NodeIdentity, request: contract.LeaseRequest) -> contract.LeaseGrant | str:
        deployment = Key(identity.namespace, identity.deployment)
        seen = self._see(deployment)
        if seen is None:
            return f"there is no {identity.kind} {deployment}"
        asked = lease.Request(identity.node, request.pod_uid, request.epoch)
        found = lease.answer(seen, asked)
        if isinstance(found, str):
            return found
        given = self._given.setdefault(deployment, _Granted())
        before = (given.node, given.counted_on, given.relied_on)
        given.node, given.granted_at, given.asked_at = identity.node, self._now(), self._now()
        named = frozenset(found.promotable) | self._entering.get(deployment, NOBODY)
        said = frozenset(request.promotable)
        given.counted_on, given.relied_on = said & named, said | named
        if before != (given.node, given.counted_on, given.relied_on):
            self.on_change(deployment)
        self._expect(deployment)
        return contract.LeaseGrant(epoch=found.epoch, milliseconds=MILLISECONDS, promotable=sorted(named))

    @contextmanager
    def entering(self, deployment: Key, names: Iterable[str]) -> Iterator[None]:
        """While these are written into `status.promotable`: no grant is sent without them."""
        self._entering[deployment] = frozenset(names)
        try:
            yield
        finally:
            del self._entering[deployment]

    def _expect(self, deployment: Key) -> None:
        """Somebody looks as soon as the next request is overdue."""
        if (waiting := self._overdue.pop(deployment, None)) is not None:
            waiting.cancel()
        loop = asyncio.get_running_loop()
        self._overdue[deployment] = loop.call_later(OVERDUE, self._is_overdue, deployment)

    def _is_overdue(self, deployment: Key) -> None:
        del self._overdue[deployment]
        self.on_change(deployment)

    def _ago(self, at: float | None) -> float | None:
        return None if at is None else self._now() - at

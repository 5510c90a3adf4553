"""A primary whose pod is being stopped leaves its office first: the operator hands it over, or it does so itself.

Only when the operator is away and the data is nowhere but in memory: else the server saves, stops, and comes back as
primary, because without the operator nobody leads clients to another one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.lease import Lease
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.refusals import Failure, Refusal
from valkey_operator.valkey.connection import Refused, Silent

# For the operator to hand over; with the stop itself it is below the pod's grace period.
LIMIT = 20.0
# An operator that has not answered a heartbeat for so long is away.
AWAY = 15.0
LOOK_AGAIN = 0.1
# For a handover of our own: below what is left of the word that the replicas have given for it.
OWN_LIMIT = 3.0
log = logging.getLogger(__name__)


class Pod(Protocol):
    @property
    def node(self) -> str: ...

    @property
    def record(self) -> Record: ...

    @property
    def others(self) -> frozenset[str]: ...

    @property
    def members(self) -> Members: ...

    @property
    def lease(self) -> Lease: ...

    @property
    def turn(self) -> asyncio.Lock: ...

    async def may_be_primary(self) -> bool: ...

    @property
    def is_kept_on_disk(self) -> bool: ...

    def address_of(self, node: str) -> tuple[str, int]: ...

    async def hand_over(self, epoch: int, to: str, limit: float) -> int: ...


class Leaving:
    """`heard_at` says when the operator heard us last, by the monotonic clock."""

    def __init__(self, pod: Pod, heard_at: Callable[[], float]) -> None:
        self._pod, self._heard_at = pod, heard_at

    async def leave_office(self) -> None:
        """Returns when this node is no primary any more, or when nothing more can be done about it."""
        if await self._pod.may_be_primary():
            log.info("the primary is being stopped: waits until the operator has handed over")
            await self._handed_over(time.monotonic() + LIMIT)
        if not await self._pod.may_be_primary():
            return
        if self._is_heard:
            log.warning("the operator has not handed over within %.0f s: stops as primary", LIMIT)
        elif self._pod.is_kept_on_disk:
            log.warning("no operator looks after it: saves, stops, and comes back as primary")
        else:
            await self._hand_over()

    async def _handed_over(self, ends: float) -> None:
        """While there is an operator to do it."""
        while self._is_heard and time.monotonic() < ends:
            if not await self._pod.may_be_primary():
                return
            await asyncio.sleep(LOOK_AGAIN)

    async def successors(self) -> tuple[str, ...]:
        """Replicas in sync, as long as an operator is there who would promote one if this server ended."""
        if not self._is_heard:
            return ()
        return tuple(in_sync(await self._pod.members.observed(sorted(self._pod.others)), self._address))

    @property
    def _is_heard(self) -> bool:
        return time.monotonic() - self._heard_at() < AWAY

    async def _hand_over(self) -> None:
        async with self._pod.turn:
            record = self._pod.record
            others = self._pod.others
            to = choose(await self._pod.members.observed(sorted(others)), self._address)
            if not to:
                log.error(
                    "the operator is away, and no replica can take over: what is in memory is with them alone"
                )
                return
            # Somebody who does not follow any more may be about to be primary: then nobody else may be made one.
            if not await self._pod.members.all_follow(sorted(self._pod.lease.needed(others)), record):
                log.error("the operator is away, and not all replicas follow: nobody is asked to take over")
                return
            log.warning("the operator is away: hands over to %s", to)
            try:
                await self._pod.hand_over(record.epoch + 1, to, OWN_LIMIT)
            except (Refusal, Failure, Refused, Silent) as error:
                log.warning("%s has not taken over: %s", to, error)

    @property
    def _address(self) -> str:
        host, port = self._pod.address_of(self._pod.node)
        return f"{host}:{port}"


def choose(seen: Mapping[str, contract.Observation], primary: str) -> str:
    """The replica of this primary that has the most; empty when there is none in sync."""
    return max(in_sync(seen, primary), key=lambda name: seen[name].server.replication.offset, default="")


def in_sync(seen: Mapping[str, contract.Observation], primary: str) -> list[str]:
    """The replicas of this primary that hold all that it has sent them."""
    return sorted(name for name, each in seen.items() if _is_in_sync(each.server, primary))


def _is_in_sync(server: contract.Server, primary: str) -> bool:
    said = server.replication
    is_settled = not server.is_loading and not said.sync_in_progress and said.link_is_up
    return server.role == contract.ROLE_REPLICA and is_settled and said.primary_address == primary

"""An owner of slots whose pod is being stopped hands them to its best replica first, with no write lost.

It needs no operator: `CLUSTER FAILOVER` is sent to the replica, so that one is asked, sidecar to sidecar.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Protocol

from valkey_operator.contract.channel import Unanswered, answered
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.cluster_gate import record_of
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.server import LivingServer

# With the stop itself it is below the pod's grace period.
LIMIT = 20.0
# For one replica to take over.
ANSWER = 8.0
AGAIN = 0.3
log = logging.getLogger(__name__)


class Pod(Protocol):
    @property
    def node(self) -> str: ...

    @property
    def others(self) -> frozenset[str]: ...

    @property
    def members(self) -> Members: ...

    @property
    def turn(self) -> asyncio.Lock: ...

    def running_server(self) -> LivingServer | None: ...


class ClusterLeaving:
    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    async def leave_office(self) -> None:
        """Returns when this node owns nothing any more, or when nothing more can be done about it."""
        ends, why = time.monotonic() + LIMIT, "no replica is in sync"
        while (own := await self._owner_id(ends)) and time.monotonic() < ends:
            async with self._pod.turn:
                seen = await self._pod.members.observed(sorted(self._pod.others))
                to = choose(seen, own)
                if to:
                    why = await self._asked(to, seen[to].pod_uid)
                    if not why:
                        return
                    log.warning("%s has not taken over yet: %s", to, why)
            if not to and not _may_still_come(seen):
                break
            await asyncio.sleep(AGAIN)
        if own:
            log.warning("stops as an owner of slots: %s", why)

    async def successors(self) -> tuple[str, ...]:
        """Who has been elected in place of a server that does not answer: what it holds is what counts."""
        seen = await self._pod.members.observed(sorted(self._pod.others))
        return tuple(sorted(name for name, each in seen.items() if record_of(each).primary))

    async def _owner_id(self, ends: float) -> str:
        """The server's id while it owns slots. One that is busy and does not answer at once may own some."""
        server = self._pod.running_server()
        if server is None:
            return ""
        await server.look_now()
        while server.info is None and not server.process.has_ended and time.monotonic() < ends:
            await asyncio.sleep(AGAIN)
            await server.look_now()
        view = server.cluster
        return view.own_id if view is not None and view.own.is_primary and view.own.slots else ""

    async def _asked(self, to: str, pod_uid: str) -> str:
        """Empty when it has taken over."""
        request = contract.TakeOverRequest(pod_uid=pod_uid, epoch=0, **{"from": self._pod.node})
        try:
            async with self._pod.members.opened(to) as peer:
                outcome = await answered(peer.TakeOver(request), ANSWER)
        except Unanswered as problem:
            return str(problem)
        return "" if outcome.result == contract.RESULT_DONE else f"{outcome.message} ({outcome.guard})"


def choose(seen: Mapping[str, contract.Observation], primary_id: str) -> str:
    """The replica of this primary that has the most; empty when there is none in sync."""
    offsets = {
        name: each.server.replication.offset for name, each in seen.items() if _follows(each, primary_id)
    }
    return max(sorted(offsets), key=lambda name: offsets[name], default="")


def _follows(seen: contract.Observation, primary_id: str) -> bool:
    server, view = seen.server, seen.server.cluster
    own = next((each for each in view.nodes if each.id == view.node_id), None)
    is_settled = server.answers and not server.is_loading and not server.replication.sync_in_progress
    return own is not None and is_settled and own.primary_id == primary_id and server.replication.link_is_up


def _may_still_come(seen: Mapping[str, contract.Observation]) -> bool:
    """Somebody else of the shard runs, and may be in sync in a moment."""
    return any(each.HasField("server") for each in seen.values())

"""How long this primary may write: as long as somebody who could let another one write says so.

The operator grants six seconds at a time; without it, every replica that may be promoted must say that it still
follows. With neither, the primary is fenced before its time is over. What is left of it is noted beside the server's
files: a sidecar that starts again goes on with that, and with nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from google.protobuf.message import DecodeError

from valkey_operator.contract.heartbeat import LEASE
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.fence import Fence, Reason
from valkey_operator.sidecar.line import Unheard
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.server import LivingServer
from valkey_operator.sidecar.way import Way
from valkey_operator.valkey.connection import Refused, Silent

# What a grant, and the word of all replicas, is good for.
GRANT, WORD = 6.0, 4.0
PERIOD = 2.0
# After a question that was not answered, and after an answer that has changed.
AGAIN, CONFIRM = 0.5, 0.1
# For one answer of the operator.
ASK_LIMIT = 1.5
# With less than this left, a grant is overdue and the replicas are asked.
OVERDUE = GRANT - PERIOD - 0.5
# So long before the end the fence is put up.
MARGIN = 0.5
# How often is looked: at a lease that is overdue or a server that starts, at one that is not, and where none is needed.
TICK, CALM, ALONE = 0.2, 0.5, 1.0
log = logging.getLogger(__name__)

Nodes = frozenset[str]
NOBODY: Nodes = frozenset()


def clock() -> float:
    """In seconds, for all processes of this machine, also while it is suspended: a grant does not wait for it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Standing(Enum):
    GRANTED = "may write"
    NEEDS_WORD = "may write, and needs the word of its replicas"
    FENCED = "may not write"


@dataclass
class Lease:
    """Times are those of `clock`, counted from before a question was sent."""

    until: float = 0.0
    # Those without whose word nobody writes here; None as long as no grant has named them.
    promotable: Nodes | None = None
    # In memory: it is as old as the pod, and is written every two seconds.
    noted_in: Path | None = None
    ended: float = 0.0

    @classmethod
    def kept_in(cls, file: Path) -> Lease:
        """As the sidecar before this one has left it; without a note there is nothing left of it."""
        try:
            noted = json.loads(file.read_text())
        except FileNotFoundError:
            return cls(noted_in=file)
        named = noted["promotable"]
        return cls(noted["until"], None if named is None else frozenset(named), file)

    def begin(self, now: float) -> None:
        """This node was made primary, or was alone until now."""
        self.until, self.promotable = now + GRANT, None

    def end(self, now: float) -> None:
        """Whoever makes this server a primary again by hand makes it no primary that writes."""
        self.until, self.promotable, self.ended = 0.0, None, now

    def granted(self, sent: float, seconds: float, promotable: Nodes) -> None:
        """What was asked for in an office that is over by now is of no use."""
        if sent < self.ended:
            return
        self.until = max(self.until, sent + min(seconds, GRANT))
        self.promotable = promotable

    def acknowledged(self, asked: float, by: Nodes, others: Nodes) -> None:
        if asked >= self.ended and self.needed(others) <= by:
            self.until = max(self.until, asked + WORD)

    def needed(self, others: Nodes) -> Nodes:
        return others if self.promotable is None else self.promotable

    def standing(self, now: float, others: Nodes) -> Standing:
        left = self.until - now
        if not self.needed(others) or left > OVERDUE:
            return Standing.GRANTED
        return Standing.NEEDS_WORD if left > MARGIN else Standing.FENCED

    def note(self) -> None:
        """Before anybody hears of it: on whom this node counts must not be forgotten."""
        if self.noted_in is None:
            return
        named = None if self.promotable is None else sorted(self.promotable)
        arriving = self.noted_in.with_suffix(".new")
        arriving.write_text(json.dumps({"until": self.until, "promotable": named}))
        arriving.rename(self.noted_in)


class Pod(Protocol):
    """What the keeper of the lease sees and touches."""

    @property
    def node(self) -> str: ...

    @property
    def pod_uid(self) -> str: ...

    @property
    def lease(self) -> Lease: ...

    @property
    def fence(self) -> Fence: ...

    @property
    def members(self) -> Members: ...

    @property
    def record(self) -> Record: ...

    @property
    def others(self) -> Nodes: ...

    def running_server(self) -> LivingServer | None: ...


class Keeper:
    """Keeps the lease of one node for as long as its server is primary and there are others."""

    def __init__(
        self,
        pod: Pod,
        tell: Callable[[contract.Event.Kind, str], None],
        way: Callable[[], Awaitable[Way]],
    ) -> None:
        self._pod, self._tell, self._way = pod, tell, way
        self._server: LivingServer | None = None
        self._role = ""
        self._others: Nodes = NOBODY
        # In which this node was made primary: a newer one, of another primary, is not its own; 0 when not known.
        self._epoch = 0
        self._in_office, self._overdue = asyncio.Event(), asyncio.Event()
        self._is_refused = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in (self._enforce, self._ask_operator, self._ask_members):
                group.create_task(part())

    async def _enforce(self) -> None:
        while True:
            try:
                await self._look(clock())
            except (Silent, Refused) as error:
                log.warning("what the lease demands was not done, and is tried again: %s", error)
            is_alone = self._role == "master" and not self._others
            is_calm = self._role and not self._overdue.is_set()
            await asyncio.sleep(ALONE if is_alone else CALM if is_calm else TICK)

    async def _look(self, now: float) -> None:
        role = self._seen_role()
        self._role, self._others = role, self._pod.others if role == "master" else NOBODY
        if role == "master" and not self._others:
            self._pod.lease.begin(now)
        if not self._others:
            self._in_office.clear()
            self._overdue.clear()
            self._epoch = 0
            if role and Reason.LEASE in self._pod.fence.reasons:
                await self._pod.fence.take_down(Reason.LEASE)
            return
        if (record := self._pod.record).primary == self._pod.node:
            self._epoch = record.epoch
        self._in_office.set()
        standing = self._pod.lease.standing(now, self._others)
        if standing is Standing.GRANTED:
            self._overdue.clear()
        else:
            self._overdue.set()
        await self._bring(standing)

    def _seen_role(self) -> str:
        """A server that does not answer is what it was."""
        server = self._pod.running_server()
        if server is not self._server:
            self._server, self._role = server, ""
        if server is None or server.info is None:
            return self._role
        return server.info.get("role", "")

    async def _bring(self, standing: Standing) -> None:
        fence = self._pod.fence
        if not fence.is_known:
            await fence.look()
        if standing is Standing.FENCED:
            if Reason.LEASE not in fence.reasons or not fence.is_up:
                await fence.put_up(Reason.LEASE)
                await fence.drop_clients()
                why = "neither the operator nor all replicas say that it may write: writes are refused"
                log.error("the primary is fenced: %s", why)
                self._tell(contract.Event.KIND_FENCED, why)
        elif Reason.LEASE in fence.reasons and self._pod.record.primary == self._pod.node:
            await fence.take_down(Reason.LEASE)
            log.warning("the primary may write again")

    async def _ask_operator(self) -> None:
        way = await self._way()
        try:
            while True:
                await self._in_office.wait()
                sent = clock()
                pause = await self._ask_once(way, sent)
                await asyncio.sleep(max(0.0, sent + pause - clock()))
        finally:
            way.hang_up()

    async def _ask_once(self, way: Way, sent: float) -> float:
        """How long after this question the next one is due; whoever is named anew is confirmed at once."""
        epoch, lease = self._epoch, self._pod.lease
        request = contract.LeaseRequest(
            node=self._pod.node,
            pod_uid=self._pod.pod_uid,
            epoch=epoch,
            promotable=sorted(lease.promotable or ()),
        )
        try:
            async with asyncio.timeout(ASK_LIMIT):
                grant = contract.LeaseGrant.FromString(await way.ask(LEASE, request.SerializeToString))
        except (Unheard, TimeoutError, DecodeError) as problem:
            self._say_refused(str(problem) or f"no answer within {ASK_LIMIT} s")
            return clock() - sent + AGAIN
        if grant.epoch != epoch or self._role != "master":
            return AGAIN
        self._is_refused = False
        before, named = lease.promotable, frozenset(grant.promotable) - {self._pod.node}
        lease.granted(sent, grant.milliseconds / 1000, named)
        lease.note()
        return PERIOD if named == before else CONFIRM

    def _say_refused(self, why: str) -> None:
        if not self._is_refused:
            log.warning("the operator does not renew the lease: %s", why)
        self._is_refused = True

    async def _ask_members(self) -> None:
        while True:
            await self._overdue.wait()
            asked, record, names = clock(), self._pod.record, self._pod.lease.needed(self._others)
            # Nobody follows this node in an epoch of another primary.
            if record.primary == self._pod.node and await self._pod.members.all_follow(names, record):
                self._pod.lease.acknowledged(asked, names, self._others)
                self._pod.lease.note()
            await asyncio.sleep(AGAIN)

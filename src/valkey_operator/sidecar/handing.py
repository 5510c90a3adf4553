"""The office of primary goes from one node to another: pause, wait, demote, and only then promote.

Cut anywhere there may be no primary for a moment, but never two. Until the demotion everything can be taken back;
after it this node never takes the office back by itself, because the other one may have it by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from valkey_operator.api.guards import Guard
from valkey_operator.contract.channel import Unanswered, answered
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import PeerStub
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.fence import Fence, Reason
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.refusals import Failure, Refusal
from valkey_operator.valkey.connection import Refused, Silent

# Writes are paused no longer than this; the server ends it by itself.
PAUSE = 3.0
# Before the pause the replica must come as far as the primary was, within this.
CLOSE = 2.0
# For one question to the other sidecar.
ANSWER = 1.5
LOOK_AGAIN = 0.002
# Bytes, for a small file with the folder it is in.
NOTE = 64 * 1024
# Before the same one is asked again to take over.
AGAIN = 0.2
log = logging.getLogger(__name__)


class Server(Protocol):
    info: Mapping[str, str] | None

    async def call(self, *words: str | int) -> Any: ...

    async def look_now(self) -> None: ...


class Pod(Protocol):
    """What a change of the primary touches."""

    @property
    def node(self) -> str: ...

    @property
    def record(self) -> Record: ...

    @property
    def fence(self) -> Fence: ...

    def running_server(self) -> Server | None: ...

    def note_record(self, record: Record) -> None: ...

    def address_of(self, node: str) -> tuple[str, int]: ...

    def begin_office(self) -> None: ...

    def end_office(self) -> None: ...


class Handing:
    """Both ends of it: of the one that goes, and of the one that comes."""

    def __init__(self, pod: Pod, members: Members) -> None:
        self._pod, self._members = pod, members
        # The change in which this node was demoted with all its writes in the other one.
        self._handed = Record()
        self.taken_over: contract.TakenOver | None = None

    async def hand_over(self, epoch: int, to: str, limit: float) -> int:
        """How long writes were paused, in milliseconds. It keeps to its time by itself, and must not be cut."""
        wished, ends = Record(epoch, to), time.monotonic() + limit
        server = await self._seen()
        self._check_epoch(wished)
        if not _is_primary(server) and _follows(server, self._pod.address_of(to)):
            return await self._complete(wished, ends)
        if not _is_primary(server):
            raise Refusal(Guard.ONLY_A_PRIMARY_HANDS_OVER, f"{self._pod.node} is no primary")
        try:
            async with self._members.opened(to) as peer:
                pod_uid = await self._connected(peer, to, server, min(ends, time.monotonic() + CLOSE))
                self._pod.note_record(wished)
                return await self._change(server, peer, pod_uid, wished, ends)
        except Unanswered as why:
            raise Refusal(Guard.THE_REPLICA_IS_CONNECTED, f"{to} does not answer: {why}") from None

    async def take_over(self, epoch: int, by: str) -> None:
        """From `by`, which is no primary any more and whose every write is here."""
        server = await self._seen()
        wished = Record(epoch, self._pod.node)
        self._check_epoch(wished)
        if _is_primary(server):
            if self._pod.record != wished:
                raise Refusal(Guard.ONLY_A_REPLICA_TAKES_OVER, f"{self._pod.node} is a primary already")
            return
        _check_can_take_over(server, by, self._pod.address_of(by))
        self._pod.note_record(wished)
        self._pod.begin_office()
        await server.call("REPLICAOF", "NO", "ONE")
        self.taken_over = contract.TakenOver(former=by, epoch=epoch)
        await server.look_now()
        log.info("took over from %s in epoch %d", by, epoch)

    async def _complete(self, wished: Record, ends: float) -> int:
        """Asked again: the demotion is done; whether the other one has heard of it is not known."""
        self._pod.note_record(wished)
        if self._handed == wished:
            await self._let_take_over(None, "", wished, ends)
        return 0

    async def _change(self, server: Server, peer: PeerStub, pod_uid: str, wished: Record, ends: float) -> int:
        begun = time.monotonic()
        await self._demote(server, peer, wished, min(begun + PAUSE, ends))
        self._pod.end_office()
        self._handed = wished
        try:
            await self._let_take_over(peer, pod_uid, wished, ends)
            return max(1, round((time.monotonic() - begun) * 1000))
        finally:
            await self._let_clients_go(server)

    async def _demote(self, server: Server, peer: PeerStub, wished: Record, ends: float) -> None:
        """With every write in the other one, or not at all."""
        try:
            await server.call("CLIENT", "PAUSE", max(1, round((ends - time.monotonic()) * 1000)), "WRITE")
            # The pause may end before the demotion is done, if the server is slow: then no write may slip in between.
            await self._pod.fence.put_up(Reason.HANDOVER)
            await server.look_now()
            await self._caught_up(peer, wished.primary, _own_offset(server), ends)
        except (Refused, Silent, Unanswered, Failure) as error:
            await self._keep_office(server)
            raise Failure(getattr(error, "guard", None), f"{error}; this node stays primary") from None
        try:
            await server.call("REPLICAOF", *self._pod.address_of(wished.primary))
        except (Refused, Silent) as error:
            # Whether it is demoted is not known. The fence stays until there is a lease, which a replica does not need.
            self._pod.fence.reasons.add(Reason.LEASE)
            self._pod.fence.reasons.discard(Reason.HANDOVER)
            raise Failure(
                Guard.THE_DEMOTION_IS_ANSWERED, f"the server did not say that it is demoted: {error}"
            ) from None

    async def _caught_up(self, peer: PeerStub, name: str, offset: int, ends: float) -> None:
        reached = 0
        while (left := ends - time.monotonic()) > 0:
            question = contract.ObserveRequest(fresh=True)
            seen = (await answered(peer.Observe(question), min(left, ANSWER))).server
            if not seen.answers or not seen.replication.link_is_up:
                raise Failure(Guard.THE_REPLICA_IS_CONNECTED, f"{name} has lost its primary")
            if (reached := seen.replication.offset) >= offset:
                return
            await asyncio.sleep(LOOK_AGAIN)
        raise Failure(Guard.THE_REPLICA_HAS_EVERYTHING, f"{name} has reached {reached} of {offset} in time")

    async def _let_take_over(self, peer: PeerStub | None, pod_uid: str, wished: Record, ends: float) -> None:
        """Asked until it says yes. An answer that was lost may have been a yes: so nothing is taken back."""
        to, why = wished.primary, "there was no time left"
        while (left := ends - time.monotonic()) > 0:
            try:
                outcome = await self._asked(peer, pod_uid, wished, min(left, ANSWER))
                if outcome.result == contract.RESULT_DONE:
                    return
                why = f"{outcome.message} ({outcome.guard})"
            except Unanswered as problem:
                why = str(problem)
            peer = None  # the connection may be the problem
            log.warning("%s has not taken over yet: %s", to, why)
            await asyncio.sleep(AGAIN)
        raise Failure(
            Guard.THE_REPLICA_TAKES_OVER,
            f"{to} has not said that it took over: {why}; this node stays its replica",
        )

    async def _asked(
        self, peer: PeerStub | None, pod_uid: str, wished: Record, limit: float
    ) -> contract.Outcome:
        request = contract.TakeOverRequest(pod_uid=pod_uid, epoch=wished.epoch, **{"from": self._pod.node})
        if peer is not None:
            return await answered(peer.TakeOver(request), limit)
        async with self._members.opened(wished.primary) as anew:
            return await answered(anew.TakeOver(request), limit)

    async def _connected(self, peer: PeerStub, name: str, server: Server, ends: float) -> str:
        """The UID of the replica's pod; opens the way to it, which takes its time, before writes are paused."""
        seen = await answered(peer.Observe(contract.ObserveRequest(fresh=True)), ANSWER)
        why = _why_full(seen.disk) or _why_not_connected(
            seen.server, server, self._pod.address_of(self._pod.node)
        )
        if why:
            raise Refusal(Guard.THE_REPLICA_IS_CONNECTED, f"{name} {why}")
        try:
            # One that is far behind, or was connected a moment ago and gets nothing yet, is not worth a pause.
            await self._caught_up(peer, name, _own_offset(server), ends)
        except Failure as failure:
            raise Refusal(failure.guard or Guard.THE_REPLICA_HAS_EVERYTHING, str(failure)) from None
        return seen.pod_uid

    async def _keep_office(self, server: Server) -> None:
        try:
            await self._pod.fence.take_down(Reason.HANDOVER)
            await server.call("CLIENT", "UNPAUSE")
        except (Refused, Silent) as error:
            # The pause ends by itself, and the fence falls with the next grant.
            self._pod.fence.reasons.add(Reason.LEASE)
            log.warning("writes go on only when the pause ends: %s", error)

    async def _let_clients_go(self, server: Server) -> None:
        try:
            await server.look_now()
            await self._pod.fence.take_down(Reason.HANDOVER, Reason.LEASE)  # a replica needs none
            await server.call("CLIENT", "UNPAUSE")
            await self._pod.fence.drop_clients()
        except (Refused, Silent) as error:
            log.warning("the clients of the former primary were not dropped: %s", error)

    async def _seen(self) -> Server:
        server = self._pod.running_server()
        if server is None:
            raise Refusal(Guard.A_SERVER_RUNS, "the server does not run")
        await server.look_now()
        if server.info is None:
            raise Refusal(Guard.THE_SERVER_ANSWERS, "the server does not answer")
        return server

    def _check_epoch(self, wished: Record) -> None:
        known = self._pod.record
        if wished.epoch < known.epoch:
            raise Refusal(
                Guard.NO_ORDER_OF_AN_OLDER_EPOCH,
                f"epoch {wished.epoch} is over; this node is in {known.epoch}",
            )
        if wished.epoch == known.epoch and wished.primary != known.primary:
            raise Refusal(
                Guard.ONE_PRIMARY_PER_EPOCH,
                f"in epoch {known.epoch} the primary is {known.primary}, not {wished.primary}",
            )


def _is_primary(server: Server) -> bool:
    return server.info is not None and server.info.get("role") == "master"


def _follows(server: Server, address: tuple[str, int]) -> bool:
    info = server.info or {}
    return (info.get("master_host"), info.get("master_port")) == (address[0], str(address[1]))


def _own_offset(server: Server) -> int:
    if not _is_primary(server):
        raise Failure(Guard.ONLY_A_PRIMARY_HANDS_OVER, "the server does not say that it is primary")
    assert server.info is not None
    return int(server.info["master_repl_offset"])


def _why_not_connected(seen: contract.Server, server: Server, here: tuple[str, int]) -> str:
    """Why the replica cannot take over from the server beside us; empty when it can."""
    if not seen.answers or seen.role != contract.ROLE_REPLICA:
        return "does not run as a replica"
    if seen.replication.primary_address != f"{here[0]}:{here[1]}":
        return f"follows {seen.replication.primary_address}, not this node"
    if seen.is_loading or seen.replication.sync_in_progress or not seen.replication.link_is_up:
        return "is not in sync"
    if server.info is None or seen.replication.history != server.info.get("master_replid"):
        return "has the data of another history"
    return ""


def _why_full(disk: contract.Disk) -> str:
    """It notes on its volume that it is primary before it is; after the demotion it is too late to find out."""
    return "has no room to note that it is primary" if disk.size_bytes and disk.free_bytes < NOTE else ""


def _check_can_take_over(server: Server, by: str, address: tuple[str, int]) -> None:
    info = server.info or {}
    if info.get("loading") == "1" or info.get("master_sync_in_progress") == "1":
        raise Refusal(Guard.A_REPLICA_IS_LOADED, "the replica has not got all its data yet")
    if not _follows(server, address):
        raise Refusal(Guard.A_REPLICA_FOLLOWS_WHO_HANDS_OVER, f"the replica does not follow {by}")

"""Who may ask the sidecar what: the operator everything, the other nodes of the deployment three things.

Checked once, before any call is looked at, by the certificate at the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import DecodeError
from grpclib import GRPCError, Status
from grpclib.config import Configuration
from grpclib.events import RecvRequest, listen
from grpclib.server import Stream

from valkey_operator.contract.connections import BoundedServer
from valkey_operator.contract.identity import Identity, NodeIdentity, OperatorIdentity
from valkey_operator.contract.mtls import Credentials, Refusal, peer_identity
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeBase, PeerBase
from valkey_operator.model.cluster import SLOTS
from valkey_operator.model.gate import Record
from valkey_operator.process.guests import Guests, listening
from valkey_operator.sidecar.cluster_words import slots_of
from valkey_operator.sidecar.metrics import Count, Counts
from valkey_operator.sidecar.orders import Orders, Pod
from valkey_operator.valkey.cluster import key_counts
from valkey_operator.valkey.connection import Refused, Silent

# Of one request, in bytes: the longest order names some thousand ranges of slots.
LARGEST_REQUEST = 512 * 1024
# Of the request on its way; what an order may take is said in it.
RECEIVE_LIMIT = 10.0
# Of one peer at once.
MOST_CALLS = 16
# Connections of those who have not called yet, and of each who has: the operator makes one for every call that finds
# none idle.
STRANGERS, EACH = 64, 16
MOST_WARNINGS = 100
# Of what an observation takes, at most; whoever asks would rather know the rest.
COUNTING = 1.0
log = logging.getLogger(__name__)


class Desk:
    """Where calls are taken, so many of each at once: whoever shows a certificate may still be out of its mind."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def call(self, stream: Stream[Any, Any]) -> AsyncIterator[Any]:
        """The message of a call, for as long as the call takes."""
        peer = str(_identity(stream))
        if self._calls[peer] >= MOST_CALLS:
            raise GRPCError(Status.RESOURCE_EXHAUSTED, f"{MOST_CALLS} calls are being taken already")
        self._calls[peer] += 1
        try:
            async with asyncio.timeout(RECEIVE_LIMIT):
                message = await _received(stream)
            yield message
        except TimeoutError:
            raise GRPCError(
                Status.DEADLINE_EXCEEDED, f"the request did not arrive within {RECEIVE_LIMIT:.0f} s"
            ) from None
        finally:
            self._calls[peer] -= 1


class NodeService(NodeBase):
    """What the operator asks."""

    def __init__(self, pod: Pod, orders: Orders, desk: Desk) -> None:
        self._pod, self._orders, self._desk = pod, orders, desk

    async def Observe(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        async with self._desk.call(stream) as request:
            await _observe(stream, request, self._pod)

    async def Act(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        async with self._desk.call(stream) as order:
            await stream.send_message(await self._orders.carry_out(order))


class PeerService(PeerBase):
    """What the other nodes of the deployment ask."""

    def __init__(self, pod: Pod, orders: Orders, desk: Desk) -> None:
        self._pod, self._orders, self._desk = pod, orders, desk

    async def Observe(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        async with self._desk.call(stream) as request:
            await _observe(stream, request, self._pod)

    async def AcknowledgeLease(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        async with self._desk.call(stream) as question:
            asked = Record(question.epoch, question.primary)
            if _peer(stream).node == asked.primary:
                self._hear_of(asked)
            record = self._pod.record
            follows = not self._pod.is_primary and record == asked
            await stream.send_message(contract.LeaseAnswer(follows=follows, epoch=record.epoch))

    def _hear_of(self, primary: Record) -> None:
        """The primary of a newer epoch speaks for itself: the operator may have died before it told everybody.

        Whom the server follows is left to the operator: it still gets all, through the primary before.
        """
        if primary.epoch > self._pod.record.epoch and not self._pod.is_primary:
            log.info("%s is primary in epoch %d, as it says itself", primary.primary, primary.epoch)
            self._pod.note_record(primary)

    async def TakeOver(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        async with self._desk.call(stream) as request:
            await stream.send_message(await self._orders.take_over(request, _peer(stream).node))


def _identity(stream: Stream[Any, Any]) -> Identity | Refusal:
    return peer_identity(stream.peer._transport.get_extra_info("ssl_object"))


def _peer(stream: Stream[Any, Any]) -> NodeIdentity:
    peer = _identity(stream)
    if not isinstance(peer, NodeIdentity):
        raise TypeError(f"the doorman lets no {peer} in here")
    return peer


class Doorman:
    """Lets in the operator, and to `Peer` the siblings of this node."""

    def __init__(self, me: NodeIdentity, operator: OperatorIdentity, counts: Counts) -> None:
        self._me, self._operator, self._counts = me, operator, counts
        self.guests = Guests(STRANGERS, EACH)
        self._said: set[str] = set()

    async def __call__(self, event: RecvRequest) -> None:
        found = peer_identity(event.peer._transport.get_extra_info("ssl_object"))
        refused = str(found) if isinstance(found, Refusal) else self.refusal(found, event.method_name)
        self._counts.add(Count.CALLS_REFUSED if refused else Count.CALLS_SERVED)
        if refused:
            self._say(refused)
            raise GRPCError(Status.PERMISSION_DENIED, refused)
        self.guests.know(event.peer._transport, str(found))

    def _say(self, refused: str) -> None:
        """Once: who is refused may come again all day."""
        if refused not in self._said:
            if len(self._said) >= MOST_WARNINGS:
                self._said.clear()
            self._said.add(refused)
            log.warning("refused: %s", refused)

    def refusal(self, peer: Identity, method: str) -> str:
        """Why this peer may not call this; empty when it may."""
        is_peer_call = method.startswith("/valkey.operator.v1.Peer/")
        if peer == self._operator and not is_peer_call:
            return ""
        if is_peer_call and isinstance(peer, NodeIdentity) and peer.is_sibling_of(self._me):
            return ""
        return f"{peer} may not call {ascii(method.rpartition('/')[2][:40])[1:-1]} of {self._me}"


@contextlib.asynccontextmanager
async def opened(
    pod: Pod, doorman: Doorman, credentials: Credentials, port: int, host: str = ""
) -> AsyncIterator[int]:
    """Serve both services; certificates that change are followed without dropping a call."""
    config = Configuration(
        http2_connection_window_size=2 * LARGEST_REQUEST, http2_stream_window_size=LARGEST_REQUEST
    )
    desk, orders = Desk(), Orders(pod)
    server = BoundedServer([NodeService(pod, orders, desk), PeerService(pod, orders, desk)], config=config)
    listen(server, RecvRequest, doorman)
    accepting = listening(host, port, doorman.guests)
    # asyncio does so for its own sockets only; without it every answer waits 40 ms for the other end's acknowledgement.
    accepting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await server.start(sock=accepting, ssl=credentials.server_context())
    try:
        yield accepting.getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def _observe(stream: Stream[Any, Any], request: contract.ObserveRequest, pod: Pod) -> None:
    if request.pod_uid and request.pod_uid != pod.pod_uid:
        raise GRPCError(Status.FAILED_PRECONDITION, f"this is pod {pod.pod_uid}, not {request.pod_uid}")
    seen = await pod.observe_now() if request.fresh or request.slot_keys else pod.observe()
    if request.slot_keys and seen.server.HasField("cluster"):
        seen.server.cluster.slot_keys.extend(await _slot_keys(pod, seen.server.cluster))
    await stream.send_message(seen)


async def _slot_keys(pod: Pod, view: contract.ClusterView) -> list[int]:
    owned = next((slots_of(each.slots) for each in view.nodes if each.id == view.node_id), frozenset[int]())
    server = pod.running_server()
    if server is None or not owned:
        return []
    try:
        async with asyncio.timeout(COUNTING):
            counts = key_counts(await server.call("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 0, SLOTS - 1))
    except (Refused, Silent, TimeoutError) as error:
        log.info("the server does not count the keys of its slots: %s", error or "it takes too long")
        return []
    return [counts.get(slot, 0) for slot in sorted(owned)]


async def _received(stream: Stream[Any, Any]) -> Any:
    """As grpclib reads a message, but none that is larger than it may be."""
    head = await _whole(stream, 5)
    if not head:
        raise GRPCError(Status.INVALID_ARGUMENT, "the call carries no message")
    is_compressed, size = struct.unpack(">?I", head)
    if is_compressed:
        raise GRPCError(Status.UNIMPLEMENTED, "compressed messages are not taken")
    if size > LARGEST_REQUEST:
        raise GRPCError(Status.RESOURCE_EXHAUSTED, f"the request has more than {LARGEST_REQUEST} bytes")
    content = await _whole(stream, size)
    try:
        return stream._codec.decode(content, stream._recv_type)
    except DecodeError:
        raise GRPCError(Status.INVALID_ARGUMENT, "the request is no message of the contract") from None


async def _whole(stream: Stream[Any, Any], size: int) -> bytes:
    """So many bytes, or none at the end."""
    try:
        return await stream._stream.recv_data(size)
    except AssertionError:  # grpclib's word for it
        raise GRPCError(Status.INVALID_ARGUMENT, "the call ends within its message") from None

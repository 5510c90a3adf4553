"""The port where sidecars tell how their nodes are. Only the leader listens; a standby says who that is.

A sidecar speaks for its own node and its own pod, by its certificate, and for nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from aiohttp import web
from google.protobuf.message import DecodeError

from valkey_operator.contract.heartbeat import LARGEST, LEADER, LEASE, PATH, PORT, Address, is_ip_address
from valkey_operator.contract.identity import TRUST_DOMAIN, Identity, NodeIdentity
from valkey_operator.contract.mtls import Credentials, Refusal, peer_identity
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator.observations import Observations
from valkey_operator.process import serving
from valkey_operator.process.guests import Guests

# For one whole request.
LIMIT = 10.0
# Kept so that none is written twice; a peer that thinks up new mistakes must not fill our memory.
MOST_WARNINGS = 1000
# In one heartbeat; a sidecar keeps at most a hundred.
MOST_EVENTS = 1000
# A sidecar has two connections; while one is made anew, the one before may not have ended yet.
STRANGERS, EACH = 256, 4
PROTOBUF = "application/x-protobuf"
log = logging.getLogger(__name__)


class Leadership(Protocol):
    """As far as it matters here; `kube.lease.Leadership` is one."""

    @property
    def leads(self) -> bool: ...

    @property
    def leader(self) -> str: ...

    @property
    def identity(self) -> str: ...


class CurrentPod(NamedTuple):
    """The pod that a node has now, and who its sidecar is: of which deployment, too."""

    identity: NodeIdentity
    uid: str


class Missing(Enum):
    """Why a node has no pod that could be spoken with: only for one that is gone nothing is waited for."""

    NODE = (410, "nobody asks for node {} any more")
    POD = (409, "node {} has no pod, or not exactly one, as far as the operator sees")


FindPod = Callable[[Key], CurrentPod | Missing]
# The answer to a primary that asks how long it may write, or why there is none.
Grant = Callable[[NodeIdentity, contract.LeaseRequest], contract.LeaseGrant | str]


def opened(
    credentials: Credentials,
    leadership: Leadership,
    current_pod: FindPod,
    observations: Observations,
    grant: Grant,
    port: int = PORT,
    host: str = "",
    trust_domain: str = TRUST_DOMAIN,
) -> AbstractAsyncContextManager[int]:
    """Serves inside `async with`, which yields the port."""
    guests = Guests(STRANGERS, EACH)
    heartbeats = Heartbeats(leadership, current_pod, observations, grant, trust_domain, guests)
    credentials.on_refusal = heartbeats.handshake_failed
    app = web.Application(client_max_size=LARGEST)
    app.router.add_post(PATH, heartbeats.answer)
    app.router.add_post(LEASE, heartbeats.answer_lease)
    return serving.opened(app, host, port, credentials.server_context(), guests)


def pod_address(identity: str) -> str:
    """The address in a leader's identity, `<pod>_<address>_<random>`; empty where it has none."""
    parts = identity.split("_")
    return parts[1] if len(parts) == 3 and is_ip_address(parts[1]) else ""


Take = Callable[[NodeIdentity, web.Request], Awaitable[bytes]]
T = TypeVar("T", contract.Heartbeat, contract.LeaseRequest)


class _Refused(Exception):
    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


class Heartbeats:
    """Checks who speaks, for which pod, and whether it is news; then passes it on."""

    def __init__(
        self, leadership: Leadership, current_pod: FindPod, observations: Observations, grant: Grant,
        trust_domain: str, guests: Guests,
    ) -> None:  # fmt: skip
        self._leadership, self._current_pod, self._grant = leadership, current_pod, grant
        self._observations, self._trust_domain, self._guests = observations, trust_domain, guests
        self._warned: set[tuple[str, str]] = set()

    async def answer(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._hear)

    async def answer_lease(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._lease)

    async def _answered(self, request: web.Request, take: Take) -> web.Response:
        peer = _peer(request)
        try:
            node = self._node(peer)
            self._guests.know(request.transport, str(node))
            self._check_lead(request)
            answer = await take(node, request)
        except _Refused as refused:
            if refused.status < 500 and refused.status != 421:
                self._warn(str(peer), refused.sentence)
            return web.Response(status=refused.status, text=f"{refused.sentence}\n", headers=refused.headers)
        return web.Response(body=answer, content_type=PROTOBUF)

    async def _hear(self, node: NodeIdentity, request: web.Request) -> bytes:
        self._take(node, await _heartbeat(request))
        return contract.HeartbeatAnswer().SerializeToString()

    async def _lease(self, node: NodeIdentity, request: web.Request) -> bytes:
        asked = await _read(request, contract.LeaseRequest, "lease request")
        if asked.node != node.node:
            raise _Refused(403, f"{node} does not ask for node {_quoted(asked.node)}")
        current = self._current_pod(Key(node.namespace, node.node))
        if isinstance(current, Missing) or current.identity != node or current.uid != asked.pod_uid:
            raise _Refused(409, f"this is not the pod of node {node.node}, as far as the operator sees")
        answer = self._grant(node, asked)
        if isinstance(answer, str):
            raise _Refused(409, answer)
        return answer.SerializeToString()

    def handshake_failed(self, refusal: Refusal) -> None:
        self._warn("a client", str(refusal))

    def _node(self, peer: Identity | Refusal) -> NodeIdentity:
        if not isinstance(peer, NodeIdentity):
            raise _Refused(403, str(peer) if isinstance(peer, Refusal) else f"{peer} is no node")
        if peer.trust_domain != self._trust_domain:
            raise _Refused(403, f"{peer} is of another trust domain than {self._trust_domain}")
        return peer

    def _check_lead(self, request: web.Request) -> None:
        """A process whose own lease has run out may still be named in it: then nobody leads."""
        if self._leadership.leads:
            return
        leader = self._leadership.leader
        host = pod_address(leader) if leader != self._leadership.identity else ""
        if not host:
            raise _Refused(503, "no operator that could be named leads at this moment", {"Retry-After": "1"})
        assert request.transport is not None
        own_port = request.transport.get_extra_info("sockname")[1]
        raise _Refused(421, f"{leader} leads", {LEADER: str(Address(host, own_port))})

    def _take(self, peer: NodeIdentity, heartbeat: contract.Heartbeat) -> None:
        seen = heartbeat.observation
        key = Key(peer.namespace, peer.node)
        if seen.node != peer.node:
            raise _Refused(403, f"{peer} does not speak for node {_quoted(seen.node)}")
        current = self._current_pod(key)
        if isinstance(current, Missing):
            status, sentence = current.value
            raise _Refused(status, sentence.format(key))
        if current.identity != peer:
            raise _Refused(403, f"node {key} is {current.identity}, not {peer}")
        if seen.pod_uid != current.uid:
            raise _Refused(409, f"the pod of node {key} is {current.uid}, not {_quoted(seen.pod_uid)}")
        refused = self._observations.take(key, seen, heartbeat.events)
        if refused:
            raise _Refused(409, refused)

    def _warn(self, peer: str, sentence: str) -> None:
        """Once: a sidecar repeats its mistake at every heartbeat."""
        if (peer, sentence) in self._warned:
            return
        if len(self._warned) >= MOST_WARNINGS:
            self._warned.clear()
        self._warned.add((peer, sentence))
        log.warning("a heartbeat of %s was refused: %s", peer, sentence)


def _peer(request: web.Request) -> Identity | Refusal:
    return peer_identity(request.transport.get_extra_info("ssl_object") if request.transport else None)


async def _heartbeat(request: web.Request) -> contract.Heartbeat:
    heartbeat = await _read(request, contract.Heartbeat, "heartbeat")
    if not heartbeat.HasField("observation"):
        raise _Refused(400, "the heartbeat holds no observation")
    if len(heartbeat.events) > MOST_EVENTS:
        raise _Refused(400, f"the heartbeat holds more than {MOST_EVENTS} events")
    return heartbeat


async def _read(request: web.Request, type_: type[T], what: str) -> T:
    too_large = _Refused(413, f"the {what} has more than {LARGEST} bytes")
    if (request.content_length or 0) > LARGEST:
        raise too_large
    try:
        async with asyncio.timeout(LIMIT):
            return type_.FromString(await request.read())
    except TimeoutError:
        raise _Refused(408, f"the {what} did not arrive within {LIMIT:.0f} s") from None
    except (ConnectionError, web.RequestPayloadError):
        raise _Refused(400, f"the connection ended before all of the {what} had arrived") from None
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    except DecodeError:
        raise _Refused(400, f"the body is no {what} in protobuf") from None


def _quoted(text: str) -> str:
    """Short and without control characters: a peer chose this text, and it will be in a log."""
    return ascii(text[:120])

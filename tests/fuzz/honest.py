"""Honest clients, as they are in a cluster: what each call takes, and each that failed."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.mtls import ISSUING, OPERATORS, material
from tests.pki import NODE, OPERATOR
from valkey_operator.contract import channel
from valkey_operator.contract.heartbeat import LEASE, PATH, Address
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.sidecar.way import Way

UID = "uid-1"
HERE = "127.0.0.1"
# Of a heartbeat, a probe and an operator's question none takes longer; a call that does has failed.
LIMIT = 5.0
Call = Callable[[], Awaitable[object]]


@dataclass
class Heard:
    """Of one stretch of time."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    under_way: int = 0
    all_ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else float("inf")

    @property
    def late(self) -> float:
        """The 99th of a hundred."""
        return sorted(self.seconds)[len(self.seconds) * 99 // 100] if self.seconds else float("inf")


class Clients:
    """Call again and again, each after its pause, and note it all in `heard`, which may be exchanged at any time."""

    def __init__(self) -> None:
        self.heard = Heard()

    async def exchanged(self) -> Heard:
        """What was heard until now, as soon as every call that had begun has ended."""
        before, self.heard = self.heard, Heard()
        if before.under_way:
            await before.all_ended.wait()
        return before

    async def repeat(self, call: Call, pause: float) -> None:
        while True:
            heard, begun = self.heard, time.perf_counter()
            heard.under_way += 1
            try:
                async with asyncio.timeout(LIMIT):
                    await call()
                heard.seconds.append(time.perf_counter() - begun)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what a client sees
                heard.failures.append(f"{type(error).__name__}: {error}")
            finally:
                heard.under_way -= 1
                if not heard.under_way and heard is not self.heard:
                    heard.all_ended.set()
            await asyncio.sleep(pause)


def heartbeats(port: int, count: int) -> list[tuple[Call, float]]:
    """Nodes that tell and ask on connections that they keep, each second, and one that comes anew each time."""
    place = Address(HERE, port)
    calls: list[tuple[Call, float]] = [(_health(port + 1), 0.1)]
    for number in range(count):
        name = f"n{number}"
        credentials = Credentials.from_bytes(material(ISSUING.node(name)))
        way = Way(credentials, OPERATOR, place)
        calls.append((_beat(lambda way=way: way, name), 1.0))  # type: ignore[misc]
    asking = Credentials.from_bytes(material(ISSUING.node("asking")))
    calls.append((_lease(Way(asking, OPERATOR, place), "asking"), 0.1))
    newcomer = Credentials.from_bytes(material(ISSUING.node("newcomer")))
    calls.append((_beat(lambda: Way(newcomer, OPERATOR, place), "newcomer", close=True), 0.1))
    return calls


def _beat(way_of: Callable[[], Way], name: str, *, close: bool = False) -> Call:
    sequence = itertools.count(1)

    def body() -> bytes:
        seen = contract.Observation(node=name, pod_uid=UID, run=1, sequence=next(sequence))
        return contract.Heartbeat(observation=seen).SerializeToString()

    async def call() -> None:
        way = way_of()
        try:
            await way.ask(PATH, body)
        finally:
            if close:
                way.hang_up()

    return call


def _lease(way: Way, name: str) -> Call:
    async def call() -> None:
        await way.ask(LEASE, contract.LeaseRequest(node=name, pod_uid=UID, epoch=1).SerializeToString)

    return call


def _health(port: int, path: str = "/livez") -> Call:
    async def call() -> None:
        await _requested(port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(), None)

    return call


async def _requested(port: int, request: bytes, context: ssl.SSLContext | None) -> None:
    reader, writer = await asyncio.open_connection(HERE, port, ssl=context)
    try:
        writer.write(request)
        first = await reader.readline()
        if b" 200 " not in first:
            raise ConnectionError(f"answered {first!r}")
    finally:
        writer.transport.abort()


def observers(port: int) -> list[tuple[Call, float]]:
    """The operator, which calls on a new connection each time, and the kubelet."""
    operators = Credentials.from_bytes(OPERATORS)

    async def observe() -> None:
        async with channel.opened(HERE, operators, NODE, port) as connection:
            await channel.answered(NodeStub(connection).Observe(contract.ObserveRequest(pod_uid=UID)), LIMIT)

    return [(observe, 0.1), (observe, 0.1), (_health(port + 1, "/live"), 0.1)]


def api_server(port: int, authority: Path) -> list[tuple[Call, float]]:
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    body = json.dumps(REVIEW).encode()
    request = f"POST /check HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def ask() -> None:
        await _requested(port, request, context)

    return [(ask, 0.05), (ask, 0.05)]


REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u", "kind": {"kind": "Valkey"}, "operation": "CREATE", "object": {"spec": {}}},
}

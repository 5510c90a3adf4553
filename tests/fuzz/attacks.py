"""What is done to a port, each by many connections from a few addresses; every attack returns how many cases it tried.

Nothing here expects an answer: what must hold is seen from outside, by the server's process and its honest clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from hpack import Encoder

from tests.fuzz import wire
from valkey_operator.contract.v1 import sidecar_pb2 as contract

AT_ONCE = 100
# For one connection of an attack that does not wait for anything.
LIMIT = 10.0
# For what comes back.
PATIENCE = 0.1
ADDRESSES = [f"127.0.0.{number}" for number in range(66, 74)]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Gone = (OSError, ssl.SSLError, EOFError, TimeoutError)


@dataclass
class Attack:
    """One run against one port; `shown` are the certificates at hand, by name, and None on a port without TLS."""

    port: int
    cases: int
    hold: float
    random: Random
    shown: dict[str, ssl.SSLContext] | None
    path: str
    body: bytes

    async def connected(self, who: str = "insider", *, tls: bool = True) -> Streams:
        context = self.shown[who] if self.shown and tls else None
        address = (self.random.choice(ADDRESSES), 0)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, local_addr=address)

    async def all_at_once(self, one: Callable[[int], Awaitable[None]], at_once: int = AT_ONCE) -> int:
        """Every case, so many at a time; a server that hangs up has done no wrong."""
        slots = asyncio.Semaphore(at_once)

        async def case(number: int) -> None:
            async with slots:
                with contextlib.suppress(*Gone):
                    async with asyncio.timeout(LIMIT):
                        await one(number)

        await asyncio.gather(*(case(number) for number in range(self.cases)))
        return self.cases

    async def held(self, content: bytes, who: str = "insider", *, tls: bool = True) -> int:
        """So many connections that send this and then nothing, all open together for a while."""
        kept: list[asyncio.StreamWriter] = []

        async def one(_: int) -> None:
            _reader, writer = await self.connected(who, tls=tls)
            kept.append(writer)
            writer.write(content)
            await writer.drain()

        await self.all_at_once(one)
        await asyncio.sleep(self.hold)
        for writer in kept:
            writer.transport.abort()
        return self.cases

    async def sent(
        self,
        content: Callable[[int], bytes],
        who: str = "insider",
        *,
        tls: bool = True,
        at_once: int = AT_ONCE,
    ) -> int:
        """Each case on a connection of its own, which reads what comes back for a moment."""

        async def one(number: int) -> None:
            reader, writer = await self.connected(who, tls=tls)
            try:
                writer.write(content(number))
                await writer.drain()
                async with asyncio.timeout(PATIENCE):
                    while await reader.read(65536):
                        pass
            finally:
                writer.transport.abort()

        return await self.all_at_once(one, at_once)

    async def flooded(self, opening: bytes, block: bytes, connections: int = 8) -> int:
        """For a while as much as the server takes, on a few connections that never read and come back when cut off."""
        sent = 0

        async def one() -> None:
            nonlocal sent
            reader, writer = await self.connected()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            try:
                writer.write(opening)
                while not writer.transport.is_closing():
                    writer.write(block)
                    await writer.drain()
                    await asyncio.sleep(0)  # a server that hung up would never let us be interrupted
                    sent += 1
            finally:
                writer.transport.abort()

        async def again_and_again() -> None:
            while True:
                with contextlib.suppress(OSError, EOFError):
                    await one()
                await asyncio.sleep(0.01)

        flooding = [asyncio.create_task(again_and_again()) for _ in range(connections)]
        await asyncio.sleep(self.hold)
        for task in flooding:
            task.cancel()
        await asyncio.wait(flooding)
        return sent


def hello() -> bytes:
    """The first words of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


# Before and during TLS


async def silence(to: Attack) -> int:
    return await to.held(b"", tls=False)


async def noise(to: Attack) -> int:
    return await to.sent(lambda _: to.random.randbytes(to.random.randrange(1, 65536)), tls=False)


async def half_a_hello(to: Attack) -> int:
    first = hello()
    return await to.held(first[: len(first) // 2], tls=False)


async def mutated_hellos(to: Attack) -> int:
    first = hello()
    return await to.sent(lambda _: wire.mutated(to.random, first), tls=False)


async def hellos_without_an_end(to: Attack) -> int:
    return await to.held(hello(), tls=False)


async def strangers(to: Attack) -> int:
    """Nobody, somebody of another root, somebody of yesterday, a node of another deployment."""
    kinds = ("nobody", "foreign", "expired", "stranger")

    async def one(number: int) -> None:
        reader, writer = await to.connected(kinds[number % len(kinds)])
        try:
            writer.write(wire.post(to.path, to.body) if number % 2 else wire.call(to.path, to.body))
            await reader.read(65536)
        finally:
            writer.transport.abort()

    return await to.all_at_once(one)


async def silent_guests(to: Attack) -> int:
    return await to.held(b"")


# HTTP/1.1


async def half_a_head(to: Attack) -> int:
    return await to.held(wire.post(to.path, b"")[:-3])


async def half_a_body(to: Attack) -> int:
    """Nearly as much as is allowed, and then nothing."""
    size = max(1 << 20, len(to.body))
    return await to.held(wire.post(to.path, b" " * (size - 1), length=size))


async def odd_requests(to: Attack) -> int:
    odd = wire.odd_requests(to.path, to.body[:1000])
    return await to.sent(lambda number: odd[number % len(odd)])


async def mutated_requests(to: Attack) -> int:
    right = wire.post(to.path, to.body[:1000]) * 3
    return await to.sent(lambda _: wire.mutated(to.random, right))


async def endless_body(to: Attack) -> int:
    head = f"POST {to.path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return await to.flooded(head, b"10000\r\n" + b"\0" * 65536 + b"\r\n")


async def endless_head(to: Attack) -> int:
    return await to.flooded(b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 1000)


async def requests_without_reading(to: Attack) -> int:
    return await to.flooded(b"", wire.get("/metrics") * 100)


# Messages of the operator's port


def _heartbeats(random: Random) -> list[bytes]:
    seen = contract.Observation(node="evil", pod_uid="uid-1", run=1, sequence=random.getrandbits(60))
    other = contract.Observation(node="n0", pod_uid="uid-1", run=2**63, sequence=2**63)
    event = contract.Event(kind=contract.Event.KIND_SERVER_HUNG, message="x", at=1)
    return [
        contract.Heartbeat(observation=seen).SerializeToString(),
        contract.Heartbeat(observation=other).SerializeToString(),
        contract.Heartbeat(observation=contract.Observation(node="evil", pod_uid="old")).SerializeToString(),
        contract.Heartbeat(observation=seen, events=[event] * 10_000).SerializeToString(),
        contract.Heartbeat(events=[event]).SerializeToString(),
        contract.LeaseRequest(node="n0", pod_uid="uid-1", epoch=2**63).SerializeToString(),
        contract.LeaseRequest(node="evil", pod_uid="uid-1", promotable=["x"] * 10_000).SerializeToString(),
        random.randbytes(random.randrange(5000)),
        b"",
    ]


async def odd_heartbeats(to: Attack) -> int:
    def content(number: int) -> bytes:
        bodies = _heartbeats(to.random)
        body = bodies[number % len(bodies)]
        path = ("/v1/heartbeat", "/v1/lease")[number // len(bodies) % 2]
        return wire.post(path, wire.mutated(to.random, body) if number % 3 == 0 else body)

    return await to.sent(content)


async def swollen_heartbeats(to: Attack) -> int:
    """As few bytes as possible for as many objects as possible, up to what a request may have."""
    parts = [b"\x12\x00", b"\x0a\x02\x52\x00"]
    bodies = [part * ((1 << 20) // len(part) - 1) for part in parts]
    own = contract.Heartbeat(
        observation=contract.Observation(node="evil", pod_uid="uid-1", run=2, sequence=1)
    )

    def content(number: int) -> bytes:
        return wire.post(to.path, own.SerializeToString() + bodies[number % 2][:1_000_000])

    return await _fewer(to, 10).sent(content)


def _fewer(to: Attack, part: int) -> Attack:
    return Attack(to.port, max(to.cases // part, 8), to.hold, to.random, to.shown, to.path, to.body)


# HTTP/2 and gRPC

OPENING = wire.PREFACE + wire.frame(wire.SETTINGS)


async def half_a_preface(to: Attack) -> int:
    return await to.held(wire.PREFACE[:10])


async def half_a_header_block(to: Attack) -> int:
    return await to.held(OPENING + wire.frame(wire.HEADERS, 0, 1, wire.grpc_head(Encoder(), to.path)))


async def half_a_message(to: Attack) -> int:
    """All that flow control lets through."""
    head = wire.frame(wire.HEADERS, wire.END_HEADERS, 1, wire.grpc_head(Encoder(), to.path))
    content = wire.grpc_message(b"\0" * 500_000, 512 * 1024)
    return await to.held(OPENING + head + wire.data_frames(1, content))


async def random_frames(to: Attack) -> int:
    return await to.sent(lambda _: wire.random_frames(to.random))


async def mutated_frames(to: Attack) -> int:
    right = wire.call(to.path, wire.grpc_message(to.body))
    return await to.sent(lambda _: wire.mutated(to.random, right))


async def odd_messages(to: Attack) -> int:
    order = contract.Order(pod_uid="uid-1", fence=contract.Fence(is_on=True)).SerializeToString()
    odd = [
        wire.grpc_message(b"", 2**32 - 1),
        wire.grpc_message(b"x" * 100, 512 * 1024 + 1),
        wire.grpc_message(b"\xff" * 1000),
        wire.grpc_message(order, compressed=1),
        wire.grpc_message(order, compressed=255),
        wire.grpc_message(order, len(order) + 1),
        wire.grpc_message(order)[:3],
        wire.grpc_message(order) * 2,
        b"",
    ]

    def content(number: int) -> bytes:
        path = ("/valkey.operator.v1.Node/Act", to.path, "/nothing", "")[number // len(odd) % 4]
        return wire.call(path, odd[number % len(odd)])

    return await to.sent(content, "operator", at_once=4)


async def swollen_messages(to: Attack) -> int:
    """Many empty parts in as few bytes as possible: in memory each is much larger than on the wire."""
    part = contract.Order(assign_slots=contract.AssignSlots(slots=[contract.SlotRange()])).SerializeToString()
    body = part * (500_000 // len(part))
    message = wire.call("/valkey.operator.v1.Node/Act", wire.grpc_message(body))
    return await _fewer(to, 10).sent(lambda _: message, "operator", at_once=4)


async def pings(to: Attack) -> int:
    return await to.flooded(OPENING, wire.frame(wire.PING, 0, 0, b"\0" * 8) * 500)


async def settings(to: Attack) -> int:
    block = wire.frame(wire.SETTINGS, 0, 0, b"\0\4\0\0\1\0") + wire.frame(
        wire.SETTINGS, 0, 0, b"\0\4\0\0\2\0"
    )
    return await to.flooded(OPENING, block * 250)


async def empty_data(to: Attack) -> int:
    head = wire.frame(wire.HEADERS, wire.END_HEADERS, 1, wire.grpc_head(Encoder(), to.path))
    return await to.flooded(OPENING + head, wire.frame(wire.DATA, 0, 1) * 500)


async def continuations(to: Attack) -> int:
    opening = OPENING + wire.frame(wire.HEADERS, 0, 1, wire.grpc_head(Encoder(), to.path))
    return await to.flooded(opening, wire.frame(wire.CONTINUATION, 0, 1, b"\0" * 16384))


async def windows(to: Attack) -> int:
    return await to.flooded(OPENING, wire.frame(wire.WINDOW, 0, 0, b"\0\0\0\1") * 500)


async def rapid_resets(to: Attack) -> int:
    """Streams that are opened and reset at once, each on the next connection anew."""
    head = wire.grpc_head(Encoder(), to.path)
    parts = [
        wire.frame(wire.HEADERS, wire.END_HEADERS, number, head)
        + wire.frame(wire.RESET, 0, number, b"\0\0\0\x08")
        for number in range(1, 2001, 2)
    ]
    return 1000 * await _fewer(to, 10).sent(lambda _: OPENING + b"".join(parts))


async def refused_calls(to: Attack) -> int:
    """A thousand calls on a connection that this one may not make."""
    head = wire.grpc_head(Encoder(), "/valkey.operator.v1.Node/Act")
    parts = [
        wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, number, head)
        for number in range(1, 2001, 2)
    ]
    return 1000 * await _fewer(to, 10).sent(lambda _: OPENING + b"".join(parts))


BEFORE_TLS = (silence, noise, half_a_hello, hellos_without_an_end, mutated_hellos)
HTTP = (
    silent_guests, half_a_head, half_a_body, odd_requests, mutated_requests, endless_body, endless_head,
    requests_without_reading,
)  # fmt: skip
HTTP2 = (
    silent_guests, half_a_preface, half_a_header_block, half_a_message, random_frames, mutated_frames, odd_messages,
    swollen_messages, pings, settings, empty_data, continuations, windows, rapid_resets, refused_calls,
)  # fmt: skip
PLAIN = (silence, noise, half_a_head, half_a_body, odd_requests, mutated_requests, endless_body, endless_head,
         requests_without_reading)  # fmt: skip
ATTACKS = {
    "operator/channel": (*BEFORE_TLS, strangers, *HTTP, odd_heartbeats, swollen_heartbeats),
    "operator/health": PLAIN,
    "webhook/channel": (*BEFORE_TLS, *HTTP),
    "sidecar/channel": (*BEFORE_TLS, strangers, *HTTP2),
    "sidecar/probes": PLAIN,
}

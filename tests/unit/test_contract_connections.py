"""What a peer with a certificate may do by HTTP/2, to a sidecar or to the operator: frames by hand, over real TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream
from hpack import Decoder, Encoder

from tests.caches import eventually
from tests.fuzz import wire
from tests.mtls import ISSUING, material, node
from tests.pki import NODE, OPERATOR
from tests.unit.test_sidecar_channel import observe
from tests.unit.test_sidecar_orders import Pod
from valkey_operator.contract.channel import Unanswered, answered, opened
from valkey_operator.contract.connections import LARGEST, BoundedServer
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeBase, NodeStub
from valkey_operator.sidecar import channel
from valkey_operator.sidecar.handing import LOOK_AGAIN
from valkey_operator.sidecar.metrics import Counts

OPERATORS = Credentials.from_bytes(material(ISSUING.operator()))
PATH = "/valkey.operator.v1.Peer/Observe"
OPENING = wire.PREFACE + wire.frame(wire.SETTINGS)
MESSAGE = wire.grpc_message(contract.ObserveRequest(pod_uid="u1").SerializeToString())


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(channel, "MOST_CALLS", 3)
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(Pod(), doorman, node(), 0, "127.0.0.1") as listening:
        yield listening


async def connected(
    port: int, shown: Credentials | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = (shown or node("cache-0-1")).client_context()
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def sent(port: int, content: bytes) -> bytes:
    """All that comes back until the other end hangs up, or for half a second."""
    reader, writer = await connected(port)
    answer = b""
    try:
        writer.write(content)
        async with asyncio.timeout(0.5):
            while part := await reader.read(65536):
                answer += part
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.transport.abort()
    return answer


async def is_cut_off(port: int, content: bytes) -> bool:
    reader, writer = await connected(port)
    try:
        writer.write(content)
        async with asyncio.timeout(5):
            while await reader.read(65536):
                pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.transport.abort()
    return True


FLOODS = {
    "pings": wire.frame(wire.PING, 0, 0, b"\0" * 8),
    "settings": wire.frame(wire.SETTINGS, 0, 0, b"\0\4\0\0\1\0"),
    "windows": wire.frame(wire.WINDOW, 0, 0, b"\0\0\0\1"),
    "priorities": wire.frame(wire.PRIORITY, 0, 1, b"\0\0\0\0\1"),
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_who_only_sends_frames_is_cut_off(port: int, flood: str) -> None:
    assert await is_cut_off(port, OPENING + FLOODS[flood] * 2000)
    assert (await observe(port, OPERATORS)).node == "a"


async def test_who_opens_streams_to_reset_them_is_cut_off(port: int) -> None:
    head = wire.grpc_head(Encoder(), PATH)
    streams = b"".join(
        wire.frame(wire.HEADERS, wire.END_HEADERS, number, head)
        + wire.frame(wire.RESET, 0, number, b"\0\0\0\x08")
        for number in range(1, 20_001, 2)
    )
    assert await is_cut_off(port, OPENING + streams)
    assert (await observe(port, OPERATORS)).node == "a"


async def test_who_asks_all_the_time_is_answered_all_the_time(port: int) -> None:
    """As while an office is handed over."""
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        for _ in range(1000):
            seen = await answered(NodeStub(connection).Observe(contract.ObserveRequest()), 10)
            assert seen.node == "a"
            await asyncio.sleep(LOOK_AGAIN)


class Endless(NodeBase):
    """A sidecar whose answer has no end, and one that answers by pings."""

    async def Observe(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        await stream.recv_message()
        await stream.send_message(contract.Observation(not_ready="x" * (LARGEST + 1)))

    async def Act(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
        await stream.recv_message()
        connection = stream._stream.connection
        while not connection.is_closing():
            for _ in range(100):
                connection._connection.ping(b"12345678")
            connection.flush()
            await asyncio.sleep(0)


async def test_an_answer_without_an_end_is_not_taken() -> None:
    server = Server([Endless()])
    await server.start("127.0.0.1", 0, ssl=node().server_context())
    assert isinstance(server._server, asyncio.Server)
    port = server._server.sockets[0].getsockname()[1]
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        with pytest.raises(Unanswered, match="more calls, frames or bytes came than are taken"):
            await answered(NodeStub(connection).Observe(contract.ObserveRequest()), 10)
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        with pytest.raises(Unanswered, match="more calls, frames or bytes came than are taken"):
            await answered(NodeStub(connection).Act(contract.Order()), 10)
    server.close()
    await server.wait_closed()


class Slow(asyncio.Transport):
    """One whose peer does not read: what is written to it stays."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True

    def write(self, data: bytes) -> None: ...  # type: ignore[override]

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


async def test_who_does_not_read_is_not_listened_to() -> None:
    transport = Slow()
    BoundedServer([])._protocol_factory().connection_made(transport)
    protocol = transport.protocol
    assert isinstance(protocol, asyncio.Protocol)
    for is_full in (True, False, True):
        (protocol.pause_writing if is_full else protocol.resume_writing)()
        assert transport.reads is not is_full


async def test_a_frame_of_a_kind_that_is_not_known_is_passed_over(port: int) -> None:
    unknown = wire.frame(0x7F, 0, 0, b"from the future")
    answer = await sent(port, wire.call(PATH, MESSAGE).replace(OPENING, OPENING + unknown, 1))
    assert b"grpc-status: 0" in _plain(answer)


async def test_half_a_message_is_a_mistake_of_its_sender(port: int, caplog: pytest.LogCaptureFixture) -> None:
    answer = await sent(port, wire.call(PATH, MESSAGE[:-1]))
    assert b"within" in _plain(answer)
    assert "Application error" not in caplog.text


async def test_headers_that_are_no_text_end_their_connection_alone(port: int) -> None:
    head = wire.frame(wire.HEADERS, wire.END_HEADERS, 1, Encoder().encode([(b":path", b"\xff\xfe")]))
    assert await is_cut_off(port, OPENING + head)
    assert (await observe(port, OPERATORS)).node == "a"


async def test_a_sibling_cannot_use_up_the_calls_of_the_operator(port: int) -> None:
    _, writer = await connected(port)
    head = wire.grpc_head(Encoder(), PATH)
    calls = (wire.frame(wire.HEADERS, wire.END_HEADERS, number, head) for number in (1, 3, 5))
    writer.write(OPENING + b"".join(calls))
    await writer.drain()
    await asyncio.sleep(0.3)  # until all three wait for their messages
    refused = await sent(port, wire.call(PATH, MESSAGE))
    assert b"calls are being taken" in _plain(refused)
    assert (await observe(port, OPERATORS)).node == "a"
    writer.transport.abort()


async def test_nothing_is_remembered_of_handshakes_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[BoundedServer] = []

    class Kept(BoundedServer):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(channel, "BoundedServer", Kept)
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(Pod(), doorman, node(), 0, "127.0.0.1") as port:
        for _ in range(30):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello")
            await writer.drain()
            writer.transport.abort()
        await asyncio.sleep(0.3)
        assert len(made[0]._handlers) == 0


class Counted(BoundedServer):
    """Knows how many have come, greeted or not."""

    accepted = 0

    def _protocol_factory(self) -> H2Protocol:
        self.accepted += 1
        return super()._protocol_factory()


async def listening(server: BoundedServer) -> int:
    await server.start("127.0.0.1", 0, ssl=node().server_context())
    assert isinstance(server._server, asyncio.Server)
    port: int = server._server.sockets[0].getsockname()[1]
    return port


async def test_who_is_still_being_greeted_when_it_ends_is_not_served() -> None:
    server = Counted([])
    reader, writer = await asyncio.open_connection("127.0.0.1", await listening(server))
    await eventually(lambda: server.accepted == 1)
    server.close()
    try:
        async with asyncio.timeout(5):
            await writer.start_tls(OPERATORS.client_context())
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    assert not server._handlers


async def test_who_waits_for_an_answer_when_it_ends_hears_of_it_at_once() -> None:
    asked = asyncio.Event()

    class Slow(Endless):
        async def Observe(self, stream: Stream[Any, Any]) -> None:  # noqa: N802 - the contract's name
            await stream.recv_message()
            asked.set()
            await asyncio.Event().wait()

    server = BoundedServer([Slow()])
    async with opened("127.0.0.1", OPERATORS, NODE, await listening(server)) as connection:
        call = asyncio.create_task(answered(NodeStub(connection).Observe(contract.ObserveRequest()), 30))
        await asked.wait()
        server.close()
        async with asyncio.timeout(5):
            with pytest.raises(Unanswered, match="onnection"):
                await call
    await server.wait_closed()


def _plain(answer: bytes) -> bytes:
    """What HPACK packs is unpacked, as far as it is text."""
    text, rest = b"", answer
    decoder = Decoder()
    while len(rest) >= 9:
        size, kind = int.from_bytes(rest[:3]), rest[3]
        if kind == wire.HEADERS:
            for name, value in decoder.decode(rest[9 : 9 + size], raw=True):
                text += bytes(name) + b": " + bytes(value) + b"\n"
        rest = rest[9 + size :]
    return text

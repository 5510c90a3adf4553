"""Who may stay when a port is full: real sockets, from several addresses of this machine."""

from __future__ import annotations

import asyncio
import gc
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.mtls import node
from valkey_operator.process import guests
from valkey_operator.process.guests import Guests, listening

HERE = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """Repeats each line; one that begins with `I am` makes its sender known."""

    def __init__(self, strangers: int, each: int = 2) -> None:
        self.guests = Guests(strangers, each)
        self.number = 0
        self._opened: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._opened.append(writer)
        with suppress(ConnectionError):
            while line := await reader.readline():
                if line.startswith(b"I am "):
                    self.guests.know(writer.transport, line[5:].decode().strip())
                writer.write(line)
        writer.close()

    async def connect(self, address: str = HERE) -> Streams:
        streams = await asyncio.open_connection(HERE, self.number, local_addr=(address, 0))
        self._opened.append(streams[1])
        return streams

    async def close(self) -> None:
        for writer in self._opened:
            writer.transport.abort()
        await asyncio.sleep(0.05)  # until both ends have seen it


@asynccontextmanager
async def opened(strangers: int, each: int = 2) -> AsyncIterator[Port]:
    port = Port(strangers, each)
    async with await asyncio.start_server(port.serve, sock=listening(HERE, 0, port.guests)) as server:
        port.number = server.sockets[0].getsockname()[1]
        try:
            yield port
        finally:
            await port.close()


async def say(streams: Streams, line: bytes = b"hello\n") -> bytes:
    """The answer; nothing from one that has hung up."""
    streams[1].write(line)
    try:
        async with asyncio.timeout(5):
            return await streams[0].readline()
    except ConnectionError:
        return b""


async def test_the_silent_keep_nobody_out() -> None:
    async with opened(strangers=4) as port:
        silent = [await port.connect() for _ in range(20)]
        assert await say(await port.connect()) == b"hello\n"
        assert [await say(each) for each in silent[:16]] == [b""] * 16
        assert await say(silent[-1]) == b"hello\n"


async def test_who_holds_most_places_loses_them_first() -> None:
    async with opened(strangers=8) as port:
        honest = await port.connect("127.0.0.2")
        silent = [await port.connect(f"127.0.0.{66 + number % 2}") for number in range(40)]
        assert await say(honest) == b"hello\n"
        assert await say(silent[0]) == b""


async def test_when_everybody_comes_at_once_the_first_are_not_sent_away_for_the_last() -> None:
    async with opened(strangers=8) as port:
        crowd = [await port.connect(f"127.0.0.{10 + number}") for number in range(12)]
        assert [await say(each) for each in crowd] == [b"hello\n"] * 8 + [b""] * 4


async def test_one_that_had_time_enough_makes_place_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guests, "PATIENCE", 0.0)
    async with opened(strangers=8) as port:
        crowd = [await port.connect(f"127.0.0.{10 + number}") for number in range(12)]
        assert [await say(each) for each in crowd] == [b""] * 4 + [b"hello\n"] * 8


async def test_one_that_is_known_stays_whoever_comes() -> None:
    async with opened(strangers=4) as port:
        known = await port.connect()
        assert await say(known, b"I am a\n") == b"I am a\n"
        for _ in range(40):
            await port.connect()
        assert await say(known) == b"hello\n"


async def test_of_too_many_connections_of_one_the_oldest_goes_and_no_one_elses() -> None:
    async with opened(strangers=4, each=2) as port:
        other = await port.connect()
        await say(other, b"I am b\n")
        own = [await port.connect() for _ in range(3)]
        for each in own:
            assert await say(each, b"I am a\n") == b"I am a\n"
        assert [await say(each) for each in (*own, other)] == [b""] + [b"hello\n"] * 3


async def test_places_of_those_who_left_are_free() -> None:
    async with opened(strangers=4, each=2) as port:
        for number in range(30):
            streams = await port.connect()
            assert await say(streams, b"I am a\n" if number % 2 else b"hello\n") != b""
            streams[1].close()
            await streams[1].wait_closed()
            await asyncio.sleep(0.01)
        assert len(port.guests._strangers) <= 2
        assert len(port.guests._known.get("a", [])) <= 2


async def test_it_is_said_once_and_not_a_thousand_times(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(strangers=2) as port:
        for _ in range(20):
            await port.connect()
        await say(await port.connect())
    assert [record.message for record in caplog.records] == [
        "3 connections, of 127.0.0.1 among others, have not said who they are; one is cut off"
    ]


async def test_failed_handshakes_do_not_pile_up_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the collector, which sees few and small objects in them."""
    monkeypatch.setattr(guests, "COLLECT_AFTER", 10)
    made, credentials = Port(strangers=10), node()
    gc.collect()
    gc.disable()
    try:
        context, accepting = credentials.server_context(), listening(HERE, 0, made.guests)
        async with await asyncio.start_server(made.serve, sock=accepting, ssl=context) as server:
            made.number = server.sockets[0].getsockname()[1]
            for _ in range(100):
                await made.connect()
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)
            await made.connect()
            await asyncio.sleep(0.2)
            assert sum(isinstance(each, sslproto.SSLProtocol) for each in gc.get_objects()) <= 25
            await made.close()
    finally:
        gc.enable()

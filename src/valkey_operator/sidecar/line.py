"""One connection to an operator: as little HTTP/1.1 as a heartbeat needs, without a framework, because of its weight.

Who is at the other end is checked before a byte is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from valkey_operator.contract.heartbeat import Address
from valkey_operator.contract.identity import Identity
from valkey_operator.contract.mtls import Credentials, Refusal, expected_peer, refusal_of

# For a connection, and for an answer.
LIMIT = 3.0
# Of an answer's head, and of its body.
LARGEST = 16 * 1024


class Unheard(Exception):
    """A heartbeat did not reach the operator; the sentence says why. `again` is when to try, if it says so itself.

    `is_dismissed`: the operator does not look after this node any more.
    """

    def __init__(self, sentence: str, again: float = 0.0, *, is_dismissed: bool = False) -> None:
        super().__init__(sentence)
        self.again, self.is_dismissed = again, is_dismissed


@dataclass(frozen=True)
class Answer:
    """Names in the head are in small letters."""

    status: int
    head: Mapping[str, str]
    body: bytes


class Line:
    """One question at a time; after `Unheard` it is closed."""

    def __init__(
        self,
        place: Address,
        context: ssl.SSLContext,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.place, self.context = place, context
        self.opened_at = time.monotonic()
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, place: Address, credentials: Credentials, peer: Identity) -> Self:
        context = credentials.client_context()
        try:
            async with asyncio.timeout(LIMIT):
                streams = await asyncio.open_connection(*place, ssl=context, limit=LARGEST)
        except (OSError, TimeoutError) as error:
            raise Unheard(f"{place}: {_words(error)}") from None
        line = cls(place, context, *streams)
        found = expected_peer(streams[1].get_extra_info("ssl_object"), (peer,))
        if isinstance(found, Refusal):
            line.close()
            raise Unheard(f"{place}: {found}")
        return line

    async def ask(self, path: str, body: bytes) -> Answer:
        head = f"POST {path} HTTP/1.1\r\nHost: {self.place}\r\nContent-Type: application/x-protobuf\r\n"
        try:
            async with asyncio.timeout(LIMIT):
                self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await self._writer.drain()
                return await self._answer()
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError) as error:
            raise Unheard(f"{self.place}: {_words(error)}") from None

    async def end(self) -> None:
        """Returns when the other end has hung up, or speaks without being asked."""
        with contextlib.suppress(OSError):
            await self._reader.read(1)

    def close(self) -> None:
        # At once: TLS would wait for the other end's goodbye.
        self._writer.transport.abort()

    async def _answer(self) -> Answer:
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        pairs = (line.partition(":") for line in lines if line)
        head = {name.strip().lower(): value.strip() for name, _, value in pairs}
        code, size = _number(status[:3]), _number(head.get("content-length", ""))
        if not version.startswith("HTTP/1.") or code is None or size is None or size > LARGEST:
            raise ValueError("what came back is no answer to a heartbeat")
        return Answer(code, head, await self._reader.readexactly(size))


class Names:
    """Looks up the operator's name, in a thread that nobody waits for, and only one.

    Without DNS a lookup takes a minute; it must hold up neither the next attempt nor the end of the process.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    async def addresses(self, place: Address) -> list[Address]:
        if place.is_numeric:
            return [place]
        if self._thread is not None and self._thread.is_alive():
            raise Unheard(f"{place.host}: DNS does not answer")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[str] | OSError] = loop.create_future()

        def give(answer: list[str] | OSError) -> None:
            if not found.done():
                found.set_result(answer)

        def look_up() -> None:
            answer = _looked_up(place)
            with contextlib.suppress(RuntimeError):  # the process ends, and its loop has gone
                loop.call_soon_threadsafe(give, answer)

        self._thread = threading.Thread(target=look_up, daemon=True)
        self._thread.start()
        try:
            answer = await asyncio.wait_for(found, LIMIT)
        except TimeoutError:
            raise Unheard(f"{place.host}: DNS does not answer") from None
        if isinstance(answer, OSError):
            raise Unheard(f"{place.host}: {answer.strerror or answer}")
        return [Address(host, place.port) for host in answer]


def _looked_up(place: Address) -> list[str] | OSError:
    try:
        found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return str(refusal_of(error))
    if isinstance(error, TimeoutError):
        return f"no answer within {LIMIT:.0f} s"
    if isinstance(error, (EOFError, ConnectionResetError)):
        # Since TLS 1.3 a refused certificate shows only after the handshake, as an end without words.
        return "ended by the other end, which may not accept our certificate"
    return str(error) or type(error).__name__

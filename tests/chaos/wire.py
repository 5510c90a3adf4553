"""One connection to one server, which always knows whether a command was sent.

It never retries and never reconnects: a command that got no answer is `Unanswered`, for good.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from libvalkey import ProtocolError, Reader, ReplyError, pack_command

Reply: TypeAlias = "int | str | list[Reply] | None"
Word: TypeAlias = str | int


class NotSent(Exception):
    """Not one byte of the command left this side."""


class Unanswered(Exception):
    """The command may have reached the server, and nobody knows whether it ran."""


class ErrorReply(Exception):
    """The server answered with an error; its text starts with the code."""


@dataclass(frozen=True, order=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Access:
    """How to get in, and how long to wait."""

    password: str | None = field(default=None, repr=False)
    username: str | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    connect_limit: float = 0.5
    command_limit: float = 2.0


OPEN = Access()


class Wire:
    def __init__(
        self, address: Address, limit: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.address = address
        self._limit = limit
        self._reader = reader
        self._writer = writer
        self._parser = Reader(encoding="utf-8", errors="replace", notEnoughData=...)

    @classmethod
    async def open(cls, address: Address, access: Access = OPEN) -> Self:
        try:
            async with asyncio.timeout(access.connect_limit):
                streams = await asyncio.open_connection(address.host, address.port, ssl=access.tls)
        except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors too
            raise NotSent(f"cannot connect to {address}: {error or 'no answer'}") from error
        wire = cls(address, access.connect_limit, *streams)
        try:
            await wire._log_in(access)  # a frozen server accepts connections, so this has the short limit too
        except BaseException:
            wire.close()
            raise
        wire._limit = access.command_limit
        return wire

    async def _log_in(self, access: Access) -> None:
        if access.password is None:
            return
        words = [access.username, access.password] if access.username else [access.password]
        try:
            await self.call("AUTH", *words)
        except (Unanswered, ErrorReply) as error:
            raise NotSent(f"cannot log in at {self.address}: {error}") from error

    async def call(self, *words: Word) -> Reply:
        if self._writer.is_closing() or self._reader.at_eof():
            raise NotSent(f"{self.address} had already closed the connection")
        try:
            self._writer.write(pack_command(words))
            async with asyncio.timeout(self._limit):
                return await self._answer()
        except TimeoutError as error:
            self.close()
            raise Unanswered(f"no answer from {self.address} within {self._limit:g} s") from error
        except (OSError, ProtocolError) as error:
            self.close()
            raise Unanswered(f"{self.address} cut the connection: {error}") from error

    async def _answer(self) -> Reply:
        while (reply := self._parser.gets()) is ...:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionError("end of stream")
            self._parser.feed(data)
        if isinstance(reply, ReplyError):
            raise ErrorReply(str(reply))
        answer: Reply = reply
        return answer

    def close(self) -> None:
        self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        with suppress(OSError):
            await self._writer.wait_closed()


def as_text(reply: Reply) -> str:
    if not isinstance(reply, str):
        raise TypeError(f"expected text, the server sent {reply!r}")
    return reply


def as_number(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise TypeError(f"expected a number, the server sent {reply!r}")
    return reply


def as_list(reply: Reply) -> list[Reply]:
    if not isinstance(reply, list):
        raise TypeError(f"expected a list, the server sent {reply!r}")
    return reply

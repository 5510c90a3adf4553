"""One connection to one server, over its unix socket, with a time limit on every command.

On libvalkey's parser and asyncio's streams alone: the sidecar is beside every server, so it must be small.
A password is never part of an error or a log line.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import libvalkey

LIMIT = 5.0
CHUNK = 64 * 1024

Word = str | int | bytes


class Refused(Exception):
    """The server answered with an error; `code` is its first word, such as LOADING or NOPERM."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(" ", 1)[0]


class Silent(Exception):
    """The server could not be asked, or gave no answer in time."""


class Ended(Silent):
    """The server has ended the connection in place of an answer, as it does when it shuts down."""


class Connection:
    """Commands one after the other; after `Silent` it is of no more use."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, in_bytes: bool = False
    ) -> None:
        self._reader, self._writer = reader, writer
        encoding = None if in_bytes else "utf-8"
        self._parser = libvalkey.Reader(encoding=encoding, errors="replace", replyError=Refused)
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path, user: str = "", password: str = "", *, in_bytes: bool = False) -> Self:
        """`in_bytes`: answers are not text; for keys and dumps, which may be anything."""
        try:
            async with asyncio.timeout(LIMIT):
                opened = cls(*await asyncio.open_unix_connection(str(path)), in_bytes=in_bytes)
        except (OSError, TimeoutError) as error:
            raise Silent(f"{path}: {str(error) or 'no answer in time'}") from None
        if user:
            try:
                await opened.call("AUTH", user, password)
            except Refused:
                opened.close()
                raise
        return opened

    async def call(self, *words: Word, limit: float = LIMIT) -> Any:
        [answer] = await self.call_all([words], limit=limit)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def call_all(self, commands: list[tuple[Word, ...]], limit: float = LIMIT) -> list[Any]:
        """Several commands in one go; refusals are among the answers."""
        async with self._turn:
            # By whoever had the turn before: the server never saw this, so it has not said yes.
            if self.is_closed:
                raise Silent(f"{_named(commands)}: the connection was closed before it could be asked")
            try:
                async with asyncio.timeout(limit):
                    self._writer.write(b"".join(map(_encode, commands)))
                    await self._writer.drain()
                    return [await self._answer() for _ in commands]
            except (EOFError, ConnectionResetError) as error:
                self.close()
                raise Ended(f"{_named(commands)}: {error}") from None
            except (OSError, TimeoutError) as error:
                self.close()
                raise Silent(f"{_named(commands)}: {str(error) or 'no answer in time'}") from None
            except asyncio.CancelledError:
                self.close()  # an answer may be on its way that nobody waits for
                raise

    async def tell(self, *words: Word) -> None:
        """What gets no answer; a refusal would: nothing else can be asked on this connection afterwards."""
        async with self._turn:
            try:
                async with asyncio.timeout(LIMIT):
                    self._writer.write(_encode(words))
                    await self._writer.drain()
            except (OSError, TimeoutError) as error:
                raise Silent(f"{_named([words])}: {str(error) or 'not taken in time'}") from None
            finally:
                self.close()

    async def _answer(self) -> Any:
        while (answer := self._parser.gets()) is False:
            content = await self._reader.read(CHUNK)
            if not content:
                raise EOFError("the server closed the connection")
            self._parser.feed(content)
        return answer

    @property
    def is_closed(self) -> bool:
        return self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()


def _encode(words: tuple[Word, ...]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)])


def _named(commands: list[tuple[Word, ...]]) -> str:
    return str(commands[0][0])

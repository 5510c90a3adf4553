"""The wire below the client: connections that notice a dead peer, writes that stop at a fence, lines of a watch."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections.abc import AsyncIterator
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from valkey_operator.kube.errors import NotLeader

CONNECT_LIMIT = 10.0
GOODBYE_LIMIT = 2.0
CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
CLOSING = aiohttp.ClientWSTimeout(ws_close=2.0)  # for a peer that no longer listens
FAILURES = (aiohttp.ClientError, TimeoutError, OSError)

# A machine that vanished answers no probe: 15 s + 3 × 5 s. A frozen server does; the watch's idle limit is for it.
KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}


class Fence(Protocol):
    """Who may write, and for how long."""

    def time_left(self) -> float:
        """Seconds for which a write is safe; raises `NotLeader` when there are none."""
        ...


class FencedBody(aiohttp.payload.BytesPayload):
    """A body that looks at the fence at the last moment, when connecting and waiting are over.

    Headers leave with the body, so a process that was frozen before this point sends nothing.
    """

    def __init__(self, content: bytes, fence: Fence | None) -> None:
        super().__init__(content)
        self._fence = fence
        self.held_back: NotLeader | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._fence is not None:
            try:
                self._fence.time_left()
            except NotLeader as reason:
                self.held_back = reason
                raise
        await super().write_with_length(writer, content_length)


class Connections:
    """Connections to API servers, and an end after which none is open."""

    def __init__(self) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        # Watches hold a connection each for minutes: the number of other requests is bounded by the client.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=self._socket, keepalive_timeout=60)
        self.session = aiohttp.ClientSession(connector=connector, auto_decompress=True, trust_env=False)

    async def close(self) -> None:
        """aiohttp ends the connection of a request that was cancelled in the background; a dead peer is left."""
        await self.session.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_LIMIT):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.005)

    def _socket(self, address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
        family, sort, protocol, *_ = address
        opened = socket.socket(family, sort, protocol)
        self._sockets.add(opened)
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):  # not on every system the CLI runs on
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return opened


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines, as many as each read brought. (`readline` would refuse an object over 128 kB.)"""
    rest = b""
    async for chunk in content.iter_any():
        whole = (rest + chunk).split(b"\n")
        rest = whole.pop()
        if whole:
            yield whole


def abort(response: aiohttp.ClientResponse) -> None:
    """End a connection whose answer was not read to its end; a polite close would wait for a dead peer."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def words(error: BaseException) -> str:
    """The error for people."""
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.__cause__}"
    if isinstance(
        error, aiohttp.ClientResponseError
    ):  # its own text tells the URL, and with it a whole command
        return f"{error.status} {error.message}"
    if isinstance(error, aiohttp.InvalidURL):  # its own text is the URL, which may hold a password
        return "the address, or its proxy's, is no URL"
    return str(error) or type(error).__name__

"""Answers the kubelet and Prometheus: as little HTTP as they need, without a framework, because of its weight."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from valkey_operator.process.guests import Guests, Listening

# A sentence why not, or None: the same form as the health checks of the other processes.
Check = Callable[[], str | None]
Page = Callable[[], str]
# Returns when a check that says no may say yes.
Change = Callable[[], Awaitable[object]]
LIMIT = 5.0
# Of connections; the kubelet and Prometheus need a few.
MOST = 64
# Below what the kubelet waits for an answer (`render.pod`). Asked again only a second later, a server that has just
# started would be out of its Services for half of one; and each "no" is an Event that somebody has to write.
PATIENCE = 4.0
# The version is that of Prometheus' format, which reads as plain text for everybody else.
TEXT = "text/plain; version=0.0.4; charset=utf-8"
NO_PAGES: Mapping[str, Page] = {}
NO_CHANGES: Mapping[str, Change] = {}


@contextlib.asynccontextmanager
async def opened(
    checks: Mapping[str, Check],
    listening: socket.socket,
    pages: Mapping[str, Page] = NO_PAGES,
    changes: Mapping[str, Change] = NO_CHANGES,
) -> AsyncIterator[int]:
    """Serve `GET /<name>`: for each check 200, or 503 with the sentence; and each page.

    A check with a change is not refused at once: it may become true while its prober waits.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                method, name = _asked(await reader.readuntil(b"\r\n\r\n"))
                if name in changes and checks[name]() is not None:
                    await _awaited(changes[name])
                writer.write(_answer(method, name, checks, pages))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a prober that goes away gets no answer
        finally:
            writer.close()

    accepting = Listening(listening, Guests(MOST, MOST))
    server = await asyncio.start_server(answer, sock=accepting, limit=8192)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _asked(request: bytes) -> tuple[str, str]:
    method, _, rest = request.decode("latin-1").partition(" ")
    return method, rest.split(" ", 1)[0].removeprefix("/")


async def _awaited(change: Change) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await change()


def _answer(method: str, name: str, checks: Mapping[str, Check], pages: Mapping[str, Page]) -> bytes:
    if method == "GET" and name in pages:
        return _response("200 OK", pages[name]().rstrip("\n"))
    check = checks.get(name)
    if method != "GET" or check is None:
        return _response("404 Not Found", f"there are: {', '.join([*checks, *pages])}")
    why_not = check()
    return _response("200 OK", "yes") if why_not is None else _response("503 Service Unavailable", why_not)


def _response(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body

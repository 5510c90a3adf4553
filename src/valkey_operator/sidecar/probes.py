"""Answers the kubelet and Prometheus: as little HTTP as they need, without a framework, because of its weight."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

# A sentence why not, or None: the same form as the health checks of the other processes.
Check = Callable[[], str | None]
Page = Callable[[], str]
LIMIT = 5.0
# The version is that of Prometheus' format, which reads as plain text for everybody else.
TEXT = "text/plain; version=0.0.4; charset=utf-8"
NO_PAGES: Mapping[str, Page] = {}


@contextlib.asynccontextmanager
async def opened(
    checks: Mapping[str, Check], port: int, host: str | None = None, pages: Mapping[str, Page] = NO_PAGES
) -> AsyncIterator[int]:
    """Serve `GET /<name>`: for each check 200, or 503 with the sentence; and each page."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                writer.write(_answer(await reader.readuntil(b"\r\n\r\n"), checks, pages))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a prober that goes away gets no answer
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=8192)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _answer(request: bytes, checks: Mapping[str, Check], pages: Mapping[str, Page]) -> bytes:
    method, _, rest = request.decode("latin-1").partition(" ")
    name = rest.split(" ", 1)[0].removeprefix("/")
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

"""Answers the kubelet: as little HTTP as a probe needs, without a framework, because of its weight."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

# A sentence why not, or None: the same form as the health checks of the other processes.
Check = Callable[[], str | None]
LIMIT = 5.0


@contextlib.asynccontextmanager
async def opened(checks: dict[str, Check], port: int, host: str | None = None) -> AsyncIterator[int]:
    """Serve `GET /<name>` for each check: 200, or 503 with the sentence."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                writer.write(_answer(await reader.readuntil(b"\r\n\r\n"), checks))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a prober that goes away gets no answer
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=8192)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _answer(request: bytes, checks: dict[str, Check]) -> bytes:
    method, _, rest = request.decode("latin-1").partition(" ")
    check = checks.get(rest.split(" ", 1)[0].removeprefix("/"))
    if method != "GET" or check is None:
        return _response("404 Not Found", f"there are: {', '.join(checks)}")
    why_not = check()
    return _response("200 OK", "yes") if why_not is None else _response("503 Service Unavailable", why_not)


def _response(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body

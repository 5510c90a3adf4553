"""One port of this process: an aiohttp application, on IPv4 and IPv6 alike, open inside `async with`."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

# The API server closes its idle connections after 90 s. If we were first, we might cut a request in half.
KEEPALIVE = 300.0
# For requests that are under way when the process ends.
PARTING = 5.0


@asynccontextmanager
async def opened(
    app: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Yields the port, the real one where 0 was asked for. No host means every address of the machine."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE, shutdown_timeout=PARTING)
    await runner.setup()
    try:
        await web.SockSite(runner, _listening(host, port), ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        connected = [handler.transport for handler in runner.server.connections] if runner.server else []
        await runner.cleanup()
        # Closed they are, but TLS would still wait for each peer's goodbye.
        for transport in filter(None, connected):
            transport.abort()
        await asyncio.sleep(0)


def _listening(host: str, port: int) -> socket.socket:
    if host:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):  # a node without IPv6
        return socket.create_server(("", port))

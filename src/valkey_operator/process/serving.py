"""One port of this process: an aiohttp application, on IPv4 and IPv6 alike, open inside `async with`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from valkey_operator.process.guests import Guests, listening

# The API server closes its idle connections after 90 s. If we were first, we might cut a request in half.
KEEPALIVE = 300.0
# For requests that are under way when the process ends.
PARTING = 5.0
# A connection that says nothing takes some 60 KiB, most of it for TLS.
STRANGERS, EACH = 256, 4


class _OurFaults(logging.Filter):
    """What a client got wrong it was told; a stack trace for each would fill the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_requests = logging.getLogger(f"{__name__}.requests")
_requests.addFilter(_OurFaults())


@asynccontextmanager
async def opened(
    app: web.Application,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    guests: Guests | None = None,
) -> AsyncIterator[int]:
    """Yields the port, the real one where 0 was asked for. No host means every address of the machine."""
    # A few packed bytes can be a gigabyte, and nobody who is meant to ask us packs anything.
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_requests,
        keepalive_timeout=KEEPALIVE,
        shutdown_timeout=PARTING,
        auto_decompress=False,
    )
    await runner.setup()
    try:
        accepting = listening(host, port, guests or Guests(STRANGERS, EACH))
        await web.SockSite(runner, accepting, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        connected = [handler.transport for handler in runner.server.connections] if runner.server else []
        await runner.cleanup()
        # Closed they are, but TLS would still wait for each peer's goodbye.
        for transport in filter(None, connected):
            transport.abort()
        await asyncio.sleep(0)

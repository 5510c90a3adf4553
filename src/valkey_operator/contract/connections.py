"""grpclib for peers that may be out of their mind, at either end: what one connection may cost is bounded.

grpclib answers every ping and every setting, also to one that never reads; takes any number of frames, and messages of
any size; and its server remembers each connection whose handshake failed for ever.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Collection
from typing import cast

from grpclib._typing import IServable
from grpclib.config import Configuration
from grpclib.protocol import AbstractHandler, Connection, EventsProcessor, H2Protocol
from grpclib.server import Server
from h2.events import DataReceived, Event, RequestReceived, ResponseReceived, StreamReset

# What one connection may send: so much at once, and so much more per second. While an office is handed over, the one
# who gives it asks for the other's offset every two milliseconds: calls are many. Frames without a call are few, and
# each call brings some more with it, of which the largest answer has 260. Calls that are taken back are few, too.
CALLS, CALLS_PER_SECOND = 200, 500
FRAMES, FRAMES_PER_SECOND, FRAMES_PER_CALL, FRAMES_PER_RESET = 500, 200, 20, 40
# Of what one call sends or is answered, in bytes; an observation of a large cluster has some hundred kilobytes.
LARGEST = 4 * 1024 * 1024
TOO_MUCH = "more calls, frames or bytes came than are taken"
log = logging.getLogger(__name__)


class BoundedServer(Server):
    """Nothing is remembered of a connection before its handshake is over.

    Connections end with it, also one whose handshake ends later: it would wait for them as long as their other ends
    like. Whoever waits for an answer hears of it at once: what would have answered has been cancelled.
    """

    def __init__(self, services: Collection[IServable], *, config: Configuration | None = None) -> None:
        super().__init__(services, config=config)
        self._open: weakref.WeakSet[_Bounded] = weakref.WeakSet()
        self.is_closed = False

    def _protocol_factory(self) -> H2Protocol:
        return cast("H2Protocol", _Newcomer(self))

    def made(self) -> H2Protocol:
        protocol = bounded(super()._protocol_factory())
        self._open.add(protocol)
        return protocol

    def close(self) -> None:
        self.is_closed = True
        super().close()
        for each in [*self._open]:
            each.end()


def bounded(usual: H2Protocol) -> _Bounded:
    return _Bounded(usual.handler, usual.config, usual.h2_config)


class _Newcomer(asyncio.Protocol):
    """Holds the place of the real one until there is something to hold."""

    def __init__(self, server: BoundedServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        way = cast("asyncio.Transport", transport)
        if self._server.is_closed:
            way.abort()
            return
        protocol = self._server.made()
        way.set_protocol(protocol)
        protocol.connection_made(transport)


class _Bounded(H2Protocol):
    processor: _Processor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport = cast("asyncio.Transport", transport)
        self.processor = _Processor(self.handler, self.connection)

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except Exception:
            # What h2 and grpclib stumble over was made up by the peer; so does grpclib over a connection it has closed.
            if not self.processor.is_over:
                log.warning("a connection is cut off that no longer speaks HTTP/2", exc_info=True)
                self.processor.close("what was received is no HTTP/2")
        if self.processor.is_over:
            # At once: to close it would wait for a peer that does not read.
            self._transport.abort()

    def end(self) -> None:
        self._transport.abort()

    def pause_writing(self) -> None:
        """Who does not read our answers is not listened to either: each ping would be one more answer."""
        super().pause_writing()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._transport.resume_reading()


class _Allowance:
    """Grows again with time, up to what it was at first."""

    def __init__(self, most: int, per_second: int) -> None:
        self._most, self._per_second = most, per_second
        self._left, self._counted_at = float(most), time.monotonic()

    def take(self, count: int) -> bool:
        """False when there is less; a negative count gives back."""
        now = time.monotonic()
        grown = self._left + (now - self._counted_at) * self._per_second
        self._left, self._counted_at = min(self._most, grown - count), now
        return self._left >= 0


class _Processor(EventsProcessor):
    """Counts what its peer sends."""

    is_over = False

    def __init__(self, handler: AbstractHandler, connection: Connection) -> None:
        super().__init__(handler, connection)
        self._calls = _Allowance(CALLS, CALLS_PER_SECOND)
        self._frames = _Allowance(FRAMES, FRAMES_PER_SECOND)

    def process(self, event: Event) -> None:
        if self.is_over or not hasattr(self, "processors"):
            return
        # There is one answer for each call that we have made.
        is_call = isinstance(event, RequestReceived | ResponseReceived)
        cost = FRAMES_PER_RESET if isinstance(event, StreamReset) else 1
        is_taken = (
            self._frames.take(-FRAMES_PER_CALL) and self._calls.take(1)
            if is_call
            else self._frames.take(cost)
        )
        if not is_taken:
            self.close(TOO_MUCH)
        elif type(event) in self.processors:  # of others HTTP/2 says that they are to be ignored
            super().process(event)

    def process_data_received(self, event: DataReceived) -> None:
        super().process_data_received(event)
        stream = self.streams.get(event.stream_id)
        if stream is not None and stream.data_received > LARGEST:
            self.close(TOO_MUCH)

    def close(self, reason: str = "Connection closed") -> None:
        self.is_over = True
        super().close(reason)

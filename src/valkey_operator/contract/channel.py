"""Calls to a sidecar: a connection that is made when there is something to say, and checked before it is said.

Nothing is sent to anybody but the one that is meant; what the other end is called on the network says nothing.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from grpclib.client import Channel
from grpclib.config import Configuration
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from valkey_operator.contract.connections import LARGEST, TOO_MUCH, bounded
from valkey_operator.contract.identity import Identity
from valkey_operator.contract.mtls import Credentials, Refusal, expected_peer, refusal_of

PORT = 9443
T = TypeVar("T")


class Unanswered(Exception):
    """The other end could not be asked, or is not the one that was meant, or refused; the sentence says which."""


class CheckedChannel(Channel):
    """One that ends at the identity it was made for, or not at all."""

    def __init__(self, host: str, port: int, credentials: Credentials, peer: Identity) -> None:
        config = Configuration(http2_connection_window_size=LARGEST, http2_stream_window_size=LARGEST)
        super().__init__(host, port, ssl=credentials.client_context(), config=config)
        self._peer = peer
        self.made_at = time.monotonic()

    @property
    def is_connected(self) -> bool:
        """As far as this end has heard."""
        return self._connected

    def _protocol_factory(self) -> H2Protocol:
        return bounded(super()._protocol_factory())

    async def _create_connection(self) -> H2Protocol:
        protocol = await super()._create_connection()
        transport = protocol.connection._transport
        found = expected_peer(transport.get_extra_info("ssl_object"), (self._peer,))
        if isinstance(found, Refusal):
            transport.abort()
            raise Unanswered(str(found))
        return protocol


@asynccontextmanager
async def opened(
    host: str, credentials: Credentials, peer: Identity, port: int = PORT
) -> AsyncIterator[CheckedChannel]:
    channel = CheckedChannel(host, port, credentials, peer)
    try:
        yield channel
    finally:
        channel.close()


async def answered(call: Awaitable[T], limit: float) -> T:
    """The answer, within the limit; every way to fail ends in one sentence."""
    try:
        return await asyncio.wait_for(call, limit)
    except TimeoutError:
        raise Unanswered(f"no answer within {limit:.0f} s") from None
    except GRPCError as error:
        raise Unanswered(
            f"{error.status.name.lower().replace('_', ' ')}: {error.message or 'no reason given'}"
        ) from None
    except ssl.SSLError as error:
        raise Unanswered(str(refusal_of(error))) from None
    except StreamTerminatedError as error:
        if str(error) == TOO_MUCH:
            raise Unanswered(TOO_MUCH) from None
        # Since TLS 1.3 a refused certificate shows only after the handshake, as an end without words.
        raise Unanswered(f"{error}: ended by the other end, which may not accept our certificate") from None
    except OSError as error:
        raise Unanswered(str(error) or type(error).__name__) from None

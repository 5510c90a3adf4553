"""Connections that are kept for a moment after a call: to greet the other end is nearly all of what a call costs.

One that is idle serves who asks for the same end under the same certificate, one at a time; whoever comes meanwhile
gets a connection of its own. After a call that failed none is kept: the next one greets anew.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from valkey_operator.contract.channel import CheckedChannel
from valkey_operator.contract.identity import Identity
from valkey_operator.contract.mtls import Credentials

# While something is under way there is a call to a node every second or two; at rest there is none.
IDLE = 3.0
# Then both ends look at each other's certificates again.
OLDEST = 60.0


class _Place(NamedTuple):
    host: str
    port: int
    peer: Identity
    shown: ssl.SSLContext


class Kept:
    """Close it at the end."""

    def __init__(self, idle: float = IDLE) -> None:
        self._idle_for = idle
        self._idle: dict[_Place, tuple[CheckedChannel, asyncio.TimerHandle]] = {}

    @asynccontextmanager
    async def opened(
        self, host: str, credentials: Credentials, peer: Identity, port: int
    ) -> AsyncIterator[CheckedChannel]:
        place = _Place(host, port, peer, credentials.client_context())
        channel = self._taken(place) or CheckedChannel(host, port, credentials, peer)
        try:
            yield channel
        except BaseException:
            channel.close()
            raise
        self._keep(place, channel)

    def close(self) -> None:
        for place in [*self._idle]:
            self._end(place)

    def _taken(self, place: _Place) -> CheckedChannel | None:
        """The one that is idle, unless it is too old or the other end has hung up."""
        channel, timer = self._idle.pop(place, (None, None))
        if timer is not None:
            timer.cancel()
        if channel is None or _is_good(channel):
            return channel
        channel.close()
        return None

    def _keep(self, place: _Place, channel: CheckedChannel) -> None:
        if place in self._idle or not _is_good(channel):
            channel.close()
            return
        timer = asyncio.get_running_loop().call_later(self._idle_for, self._end, place)
        self._idle[place] = (channel, timer)

    def _end(self, place: _Place) -> None:
        channel, timer = self._idle.pop(place)
        timer.cancel()
        channel.close()


def _is_good(channel: CheckedChannel) -> bool:
    return channel.is_connected and time.monotonic() - channel.made_at <= OLDEST

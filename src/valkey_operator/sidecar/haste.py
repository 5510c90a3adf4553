"""Short timers of the cluster protocol for a while, so that a new member is known everywhere in a fraction of a second.

They go back by themselves: after their time, and when a sidecar that was started again finds them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import ClusterView
from valkey_operator.valkey.cluster import PING_INTERVAL
from valkey_operator.valkey.connection import Refused, Silent

NODE_TIMEOUT = "cluster-node-timeout"
# A ping every tenth of a second; and a primary that is new serves half a second after it has seen all the others.
QUICK_PING, QUICK_TIMEOUT = 100, 500
USUAL_PING, USUAL_TIMEOUT = "0", "15000"
LONGEST = 60.0
log = logging.getLogger(__name__)


class Server(Protocol):
    cluster: ClusterView | None

    async def keys(self) -> int: ...

    async def call(self, *words: str | int) -> Any: ...


class Haste:
    """Of the server beside us."""

    def __init__(self, directive: Callable[[str, str], str]) -> None:
        self._directive = directive
        self._ends_at = 0.0

    async def begin(self, server: Server, wished: contract.Hurry) -> None:
        """The node timeout stays where there are keys, and where this server votes on others that have some: a short
        one would fail over for a hiccup."""
        quick: list[str | int] = [PING_INTERVAL, wished.ping_milliseconds or QUICK_PING]
        if not (wished.keeps_node_timeout or await server.keys()):
            quick += [NODE_TIMEOUT, wished.node_timeout_milliseconds or QUICK_TIMEOUT]
        self._ends_at = asyncio.get_running_loop().time() + min(wished.milliseconds / 1000, LONGEST)
        await server.call("CONFIG", "SET", *quick)

    async def end(self, server: Server) -> None:
        self._ends_at = 0.0
        usual = self._directive(NODE_TIMEOUT, USUAL_TIMEOUT)
        await server.call("CONFIG", "SET", PING_INTERVAL, USUAL_PING, NODE_TIMEOUT, usual)

    async def look(self, server: Server) -> None:
        """With each look at the server: what is over is ended; what failed is tried with the next one."""
        is_over = asyncio.get_running_loop().time() >= self._ends_at
        if server.cluster is None or not server.cluster.is_hurrying or not is_over:
            return
        try:
            await self.end(server)
        except (Refused, Silent) as error:
            log.warning("the timers of the cluster are still short: %s", error)

"""A replica stands for election only with the data of the primary that it follows now, and not right after its start.

A server that was just started, or follows another primary than before, has not got what that one was told meanwhile.
And when all were started at new addresses, those who find each other late take for dead who lives and takes writes. So
it is started barred, and admitted once it has had its link for a while, in which everybody had the time to find each
other; and not while its primary talks to it and is still called dead, as everyone is for some time who was away. The
operator may make it primary at any time: it knows who has most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from valkey_operator.model.cluster import ClusterView
from valkey_operator.sidecar.haste import NODE_TIMEOUT, USUAL_TIMEOUT
from valkey_operator.valkey.cluster import NO_FAILOVER

USUAL = "no"
# Of the node timeout: those that start up to one later than others suspect within another.
TIMEOUTS = 2


class Server(Protocol):
    info: Mapping[str, str] | None
    cluster: ClusterView | None

    async def call(self, *words: str | int) -> Any: ...


class Candidacy:
    """Of the server beside us."""

    def __init__(self, directive: Callable[[str, str], str]) -> None:
        self._directive = directive
        # The primary whose data this run of the server has had; None when that is not known.
        self._run = ""
        self.has_data_of: str | None = None
        self._since = 0.0

    async def look(self, server: Server) -> None:
        """With each look at the server."""
        view, info = server.cluster, server.info
        if view is None or info is None:
            return
        if info["run_id"] != self._run:
            self._run, self.has_data_of = info["run_id"], None
        if view.own.is_primary:
            self.has_data_of = ""
        elif _is_linked(info):
            if self.has_data_of != view.own.primary_id:
                self.has_data_of, self._since = view.own.primary_id, asyncio.get_running_loop().time()
        elif self.has_data_of is None:
            return  # what it was started with, or a sidecar before this one has set, holds
        has_data = view.own.primary_id == self.has_data_of
        is_barred = not view.own.is_primary and not (has_data and self._has_settled(view, info))
        if is_barred != view.is_barred and self._directive(NO_FAILOVER, USUAL) == USUAL:
            await server.call("CONFIG", "SET", NO_FAILOVER, "yes" if is_barred else "no")

    def _has_settled(self, view: ClusterView, info: Mapping[str, str]) -> bool:
        """Who was admitted once stays so while others are made known to each other."""
        if not view.is_barred:
            return True
        timeout = int(self._directive(NODE_TIMEOUT, USUAL_TIMEOUT)) / 1000
        is_new = asyncio.get_running_loop().time() - self._since < TIMEOUTS * timeout
        talks = _is_linked(info) and int(info["master_last_io_seconds_ago"]) < timeout
        primary = view.by_id.get(view.own.primary_id)
        is_called_dead = primary is None or primary.is_failed or primary.is_suspected
        return not (view.is_hurrying or is_new or (talks and is_called_dead))


def _is_linked(info: Mapping[str, str]) -> bool:
    return info.get("master_link_status") == "up"

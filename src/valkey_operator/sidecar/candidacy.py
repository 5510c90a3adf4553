"""A replica stands for election only with the data of the primary that it follows now, and not right after its start.

A server that was just started, or follows another primary than before, has not got what that one was told meanwhile.
And when all were started at new addresses, those who find each other late take for dead who lives and takes writes. So
it is started barred, and admitted once it has had its link and everybody had the time to find each other. The operator
may make it primary at any time: it knows who has most.
"""

from __future__ import annotations

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

    async def look(self, server: Server) -> None:
        """With each look at the server."""
        view, info = server.cluster, server.info
        if view is None or info is None:
            return
        if info["run_id"] != self._run:
            self._run, self.has_data_of = info["run_id"], None
        if view.own.is_primary:
            self.has_data_of = ""
        elif info.get("master_link_status") == "up":
            self.has_data_of = view.own.primary_id
        elif self.has_data_of is None:
            return  # what it was started with, or a sidecar before this one has set, holds
        has_data = view.own.primary_id == self.has_data_of
        is_barred = not view.own.is_primary and not (has_data and self._has_settled(view, info))
        if is_barred != view.is_barred and self._directive(NO_FAILOVER, USUAL) == USUAL:
            await server.call("CONFIG", "SET", NO_FAILOVER, "yes" if is_barred else "no")

    def _has_settled(self, view: ClusterView, info: Mapping[str, str]) -> bool:
        """Who was admitted once stays so while others are made known to each other."""
        patience = TIMEOUTS * int(self._directive(NODE_TIMEOUT, USUAL_TIMEOUT)) / 1000
        return not view.is_barred or (not view.is_hurrying and int(info["uptime_in_seconds"]) >= patience)

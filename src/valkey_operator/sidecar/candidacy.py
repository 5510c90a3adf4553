"""A replica stands for election only with the data of the primary that it follows now.

A server that was just started, or follows another primary than before, has not got what that one was told meanwhile. It
starts barred, and is admitted once its link was up. The operator may still make it primary: it knows who has most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from valkey_operator.model.cluster import ClusterView
from valkey_operator.valkey.cluster import NO_FAILOVER

USUAL = "no"


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
        self._has_data_of: str | None = None

    async def look(self, server: Server) -> None:
        """With each look at the server."""
        view, info = server.cluster, server.info
        if view is None or info is None:
            return
        if info["run_id"] != self._run:
            self._run, self._has_data_of = info["run_id"], None
        if view.own.is_primary:
            self._has_data_of = ""
        elif info.get("master_link_status") == "up":
            self._has_data_of = view.own.primary_id
        elif self._has_data_of is None:
            return  # what it was started with, or a sidecar before this one has set, holds
        is_barred = not view.own.is_primary and view.own.primary_id != self._has_data_of
        if is_barred != view.is_barred and self._directive(NO_FAILOVER, USUAL) == USUAL:
            await server.call("CONFIG", "SET", NO_FAILOVER, "yes" if is_barred else "no")

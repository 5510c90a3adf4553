"""Few words of the server while slots leave it as a whole: it would write a line for each, and serve nobody meanwhile.

2700 slots took 0.5 s of it, nearly all for the lines. The level goes back by itself when nothing is under way, also
when a sidecar that was started again finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from valkey_operator.model.cluster import ClusterView, MigrationState
from valkey_operator.valkey.cluster import LOG_LEVEL, QUIET

USUAL = "notice"


class Server(Protocol):
    cluster: ClusterView | None

    async def call(self, *words: str | int) -> Any: ...


class Hush:
    """Of the server beside us."""

    def __init__(self, directive: Callable[[str, str], str]) -> None:
        self._directive = directive

    async def begin(self, server: Server) -> None:
        await server.call("CONFIG", "SET", LOG_LEVEL, QUIET)

    async def look(self, server: Server) -> None:
        """With each look at the server."""
        view, usual = server.cluster, self._directive(LOG_LEVEL, USUAL)
        if view is None or not view.is_hushed or usual == QUIET:
            return
        if not any(each.is_export and each.state == MigrationState.UNDER_WAY for each in view.migrations):
            await server.call("CONFIG", "SET", LOG_LEVEL, usual)

"""For how long a primary holds back writes for its successor: a second, where the server can be told.

A successor that gets no votes, because two elections ran at once or somebody had not heard of the last one, would cost
clients five seconds. It stands again after one, and is then elected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from valkey_operator.model.cluster import ClusterView
from valkey_operator.valkey.cluster import HOLDS_BACK, USUALLY

BRIEFLY = 1000


class Server(Protocol):
    cluster: ClusterView | None

    async def call(self, *words: str | int) -> Any: ...


class Patience:
    """Of the server beside us."""

    def __init__(self, directive: Callable[[str, str], str]) -> None:
        self._directive = directive

    async def look(self, server: Server) -> None:
        """With each look at the server. Who has wished for another time gets that."""
        is_usual = server.cluster is not None and server.cluster.holds_back == int(USUALLY) / 1000
        if is_usual and self._directive(HOLDS_BACK, USUALLY) == USUALLY:
            await server.call("CONFIG", "SET", HOLDS_BACK, BRIEFLY)

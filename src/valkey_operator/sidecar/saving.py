"""A full volume does not end a server of a cluster because it cannot write down a change among the others.

It goes on with what it knows, and writes it down when there is room again. Only then: what it has voted is forgotten
when it ends meanwhile. Servers before 9.1 have no such choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from valkey_operator.model.cluster import ClusterView
from valkey_operator.valkey.cluster import SAVING

USUAL, FORGIVING = "sync", "best-effort"


class Server(Protocol):
    cluster: ClusterView | None

    async def call(self, *words: str | int) -> Any: ...


async def look(server: Server, directive: Callable[[str, str], str], *, is_full: bool) -> None:
    """With each look at the server."""
    wanted = FORGIVING if is_full else directive(SAVING, USUAL)
    if server.cluster is not None and server.cluster.saving not in ("", wanted):
        await server.call("CONFIG", "SET", SAVING, wanted)

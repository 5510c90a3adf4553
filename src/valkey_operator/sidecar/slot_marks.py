"""Sets what a server says of single slots: that they come, that they go, whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from valkey_operator.valkey.connection import Connection, Refused

# A server answers each such command only when its replicas have it too, and serves a connection's commands one after
# the other: on many connections they wait for the same round to the replicas.
AT_ONCE = 32
LIMIT = 30.0


class Server(Protocol):
    async def connect(self) -> Connection: ...


async def set_slots(server: Server, slots: Collection[int], *what: str) -> None:
    """`IMPORTING <id>`, `MIGRATING <id>` or `NODE <id>`; the first refusal is raised when all were tried."""
    ordered = sorted(slots)
    parts = [part for first in range(AT_ONCE) if (part := ordered[first::AT_ONCE])]
    for refusals in await asyncio.gather(*(_set(server, part, what) for part in parts)):
        for refusal in refusals:
            raise refusal


async def _set(server: Server, slots: list[int], what: tuple[str, ...]) -> list[Refused]:
    connection = await server.connect()
    try:
        commands: list[tuple[str | int | bytes, ...]] = [
            ("CLUSTER", "SETSLOT", slot, *what) for slot in slots
        ]
        answers = await connection.call_all(commands, limit=LIMIT)
    finally:
        connection.close()
    return [answer for answer in answers if isinstance(answer, Refused)]

"""Who is connected to one port of ours: how many, of whom, and who has to go when it is full.

Somebody is a stranger until a request has shown who it is. Nobody waits for a place: when all are taken, the oldest
stranger of the address that holds most of them is cut off, so that one that is silent never keeps out another. Where
no address holds more than a few, as when everybody comes back at once, those who have just come are left to finish,
and the newest has to try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import time
from collections import Counter
from typing import Any, NamedTuple

from valkey_operator.process import ports

# Of connections that the kernel holds until we look; in a burst, what is beyond is late by a second or more.
BACKLOG = 1024
# Between two lines about it in the log.
QUIET = 60.0
FEW = 2
# For a handshake and a first request; whoever means it needs a fraction of a second.
PATIENCE = 5.0
# asyncio and grpclib leave an ended connection in a circle of references. It takes 50 KiB or more, of which the
# collector sees forty small objects: by itself it would look after thousands.
COLLECT_AFTER = 64
log = logging.getLogger(__name__)


class _Stranger(NamedTuple):
    connection: socket.socket
    address: str
    since: float


class Guests:
    """`strangers` is how many there may be in all, `each` how many connections somebody may have who is known."""

    def __init__(self, strangers: int, each: int) -> None:
        self._most, self._each = strangers, each
        # By descriptor, the oldest first.
        self._strangers: dict[int, _Stranger] = {}
        self._known: dict[str, list[socket.socket]] = {}
        self._gone = 0
        self._said = -QUIET

    def came(self, connection: socket.socket, address: str) -> None:
        self._forget_the_gone()
        self._strangers[connection.fileno()] = _Stranger(connection, address, time.monotonic())
        if len(self._strangers) > self._most:
            self._cut_off_a_stranger()

    def know(self, transport: asyncio.BaseTransport | None, name: str) -> None:
        """The one at the other end has said who it is, and may be that."""
        found = transport.get_extra_info("socket") if transport is not None else None
        stranger = self._strangers.pop(found.fileno(), None) if found is not None else None
        if stranger is None:
            return
        own = self._known.setdefault(name, [])
        own.append(stranger.connection)
        if len(own) > self._each:
            self._say(f"{name} has more than {self._each} connections; its oldest is cut off")
            _cut_off(own.pop(0))
            self._gone += 1

    def _forget_the_gone(self) -> None:
        before = self._count()
        self._strangers = {fd: who for fd, who in self._strangers.items() if _is_open(who.connection)}
        known = {who: [each for each in all_ if _is_open(each)] for who, all_ in self._known.items()}
        self._known = {who: still for who, still in known.items() if still}
        self._gone += before - self._count()
        if self._gone >= COLLECT_AFTER:
            self._gone = 0
            gc.collect()

    def _count(self) -> int:
        return len(self._strangers) + sum(map(len, self._known.values()))

    def _cut_off_a_stranger(self) -> None:
        ((address, count),) = Counter(who.address for who in self._strangers.values()).most_common(1)
        held = [fd for fd, who in self._strangers.items() if who.address == address or count <= FEW]
        is_crowd = count <= FEW and time.monotonic() < self._strangers[held[0]].since + PATIENCE
        self._say(
            f"{len(held)} connections, of {address} among others, have not said who they are; one is cut off"
        )
        _cut_off(self._strangers.pop(held[-1] if is_crowd else held[0]).connection)
        self._gone += 1

    def _say(self, sentence: str) -> None:
        """Now and then: who does this does it a thousand times."""
        if (now := time.monotonic()) >= self._said + QUIET:
            self._said = now
            log.warning("%s", sentence)


class Listening(socket.socket):
    """A listening socket that tells its guests of every connection."""

    def __init__(self, opened: socket.socket, guests: Guests) -> None:
        super().__init__(fileno=opened.detach())
        self._guests = guests

    def listen(self, backlog: int = BACKLOG, /) -> None:
        super().listen(max(backlog, BACKLOG))

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self._guests.came(connection, address[0])
        return connection, address


def listening(host: str, port: int, guests: Guests) -> Listening:
    return Listening(ports.opened(host, port), guests)


def _is_open(connection: socket.socket) -> bool:
    return connection.fileno() != -1


def _cut_off(connection: socket.socket) -> None:
    """Whoever serves it sees its end, and closes it."""
    with contextlib.suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)

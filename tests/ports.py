"""Ports for servers of this machine, which nobody else is given meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
_given: set[int] = set()


def free_port() -> int:
    """Below those that the system gives to connections by itself: one of these may be taken before its server runs."""
    while True:
        port = random.randrange(12000, 32000)  # noqa: S311
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind((HOST, port))
            if port not in _given:
                _given.add(port)
                return port

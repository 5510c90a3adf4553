"""A replica that has copied its primary gets what is written there only after it has said how far it is.

It says so when the copy is loaded; but a primary that has yet to reap the process which sent the copy does not heed it,
and waits for the next word: a second, in which what it acknowledges is nowhere else. So the word is said again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

# The primary looks ten times a second whether that process has ended.
SAID_FOR = 0.5
# The link of a replica that starts comes up within this time, or something is wrong.
COMES_UP = 5.0
WORD = ("REPLCONF", "GETACK", "*")


class Stream:
    """To one run of a server."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._is_up = self._is_replica = False
        self._said_until = 0.0

    def see(self, info: Mapping[str, str] | None) -> None:
        """What the server says now."""
        was_up, now = self._is_up, time.monotonic()
        self._is_replica = info is not None and info.get("role") == "slave"
        self._is_up = info is not None and self._is_replica and info.get("master_link_status") == "up"
        if self._is_up and not was_up:
            self._said_until = now + SAID_FOR

    @property
    def needs_word(self) -> bool:
        return self._is_up and time.monotonic() < self._said_until

    @property
    def is_near(self) -> bool:
        """It is about to begin: worth more than a look a second."""
        comes_up = not self._is_up and time.monotonic() < self._began + COMES_UP
        return self._is_replica and (comes_up or self.needs_word)

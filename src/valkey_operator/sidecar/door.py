"""The door between the server's entry point and its server: a FIFO on the volume that both containers see.

The entry point writes its pid beside it, reads one word from it and becomes the server. A word is used up by
the start it was given for: what nobody reads is gone when the writer closes, so no word outlives its moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from pathlib import Path

from valkey_operator.sidecar.process import ServerProcess

WORD = b"start\n"
END = b"end\n"


class Door:
    """Our side of it."""

    def __init__(self, run: Path) -> None:
        self._fifo = run / "gate"
        self._pid = run / "pid"
        if not self._fifo.exists():
            os.mkfifo(self._fifo, 0o660)

    async def knock(self) -> Visitor | ServerProcess:
        """Waits until an entry point stands at the door; it waits with us from then on.

        Or a server is found inside: the sidecar before this one may have ended with its word just given.
        """
        pause = 0.01
        while True:
            await asyncio.sleep(pause)
            try:
                return Visitor(os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK), self._pid)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody there
                    raise
            if (process := self.inside()) is not None:
                return process
            pause = min(pause * 1.1, 0.2)

    def somebody(self) -> ServerProcess | None:
        """A server, or an entry point that waits."""
        return _hold(self._pid)

    def inside(self) -> ServerProcess | None:
        """A server that was let in and still runs."""
        process = _hold(self._pid)
        if process is None or process.program.startswith("valkey"):
            return process
        process.release()
        return None


class Visitor:
    """An entry point that waits for its word."""

    def __init__(self, descriptor: int, pid: Path) -> None:
        self._descriptor = descriptor
        self._pid = pid

    @property
    def root(self) -> Path:
        """The file system of its container."""
        return Path("/proc", self._pid.read_text().strip(), "root")

    def let_in(self) -> ServerProcess | None:
        """The process that is, or is about to be, the server; None when it has gone away."""
        process = _hold(self._pid)
        try:
            if process is not None:
                os.write(self._descriptor, WORD)
        except BrokenPipeError:
            return None
        return process

    def send_away(self) -> None:
        """The entry point ends, and its container with it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._descriptor, END)

    def leave(self) -> None:
        """Without a word it will knock again."""
        os.close(self._descriptor)


def _hold(file: Path) -> ServerProcess | None:
    try:
        return ServerProcess.hold(int(file.read_text()))
    except (FileNotFoundError, ValueError):
        return None

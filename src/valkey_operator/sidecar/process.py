"""The server's process, held by a pidfd: its end is proof, a silent socket is not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from typing import NamedTuple, Self


class Stat(NamedTuple):
    """Of a process: the state of its main thread, who has started it, and the time it has used, in clock ticks."""

    state: str
    parent: int
    processor_time: int


def stat(pid: int) -> Stat | None:
    """None when there is no such process."""
    try:
        said = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    fields = said.rpartition(b")")[2].decode().split()
    return Stat(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]))


def _read(file: str) -> bytes:
    """Every second, so with as few calls as can be; what the kernel says of a process is shorter than a page."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


class ServerProcess:
    """A process of another container in this pod; they share a process namespace."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._end)

    @classmethod
    def hold(cls, pid: int) -> Self | None:
        """None when there is no such process (any more)."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if select.select([descriptor], [], [], 0)[0]:  # it has ended, and nobody has asked for its end yet
            os.close(descriptor)
            return None
        return cls(pid, descriptor)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def end(self) -> None:
        """Returns when the process is no more."""
        await self._ended.wait()

    def kill(self) -> None:
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and our loop will hear of it next
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def stat(self) -> Stat | None:
        return stat(self.pid)

    @property
    def program(self) -> str:
        """The name of what it runs now: the shell at the gate, later the server."""
        try:
            return _read(f"/proc/{self.pid}/comm").decode(errors="replace").strip()
        except OSError:
            return ""

    def release(self) -> None:
        """It was somebody else; nothing is known of its end from now on."""
        if not self.has_ended:
            self._end()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._ended.set()

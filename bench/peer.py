"""A program that is measured: started, listened to, looked at from outside, and ended in time.

It prints a JSON line with its pid when it is ready and another one when it is ended by SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

READY_LIMIT = 180.0
END_LIMIT = 60.0


@dataclass(frozen=True)
class Program:
    """How one peer is called; `name` is its name in the figures."""

    name: str
    command: tuple[str, ...]

    @property
    def account(self) -> str:
        """Its name as Kubernetes allows it."""
        return self.name.replace("_", "-")


@dataclass
class Started:
    """A process, its lines, and what it complained about."""

    process: asyncio.subprocess.Process
    complaints: IO[bytes]

    async def line(self, limit: float) -> Any:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), limit)
        if not line:
            self.complaints.seek(0)
            last = self.complaints.read()[-2000:].decode(errors="replace")
            raise RuntimeError(f"a program that is measured ended without a word:\n{last}")
        return json.loads(line)


@dataclass
class Peer:
    """One that runs and is ready."""

    pid: int
    sync_s: float
    since_start_s: float
    _started: Started

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def end(self) -> list[float]:
        """Let it end; the latencies it has seen."""
        os.kill(self.pid, signal.SIGTERM)
        said = await self._started.line(END_LIMIT)
        return [float(value) for value in said["latencies_ms"] or ()]


@contextlib.asynccontextmanager
async def running(program: Program, kubeconfig: Path, *arguments: str) -> AsyncIterator[Peer]:
    async with started(*program.command, *arguments, kubeconfig=kubeconfig) as begun:
        said = await begun.line(READY_LIMIT)
        yield Peer(said["pid"], said["sync_s"], _age(said["pid"]), begun)


async def finished(program: Program, kubeconfig: Path, *arguments: str, limit: float) -> dict[str, Any]:
    """Run a program that prints one line and ends."""
    async with started(*program.command, *arguments, kubeconfig=kubeconfig) as begun:
        said: dict[str, Any] = await begun.line(limit)
        return said


async def bare_python_bytes() -> int:
    """What the interpreter takes before it does anything."""
    async with started(sys.executable, "-c", "print(1, flush=True); input()") as begun:
        await begun.line(READY_LIMIT)
        return resident_bytes(begun.process.pid)


@contextlib.asynccontextmanager
async def started(*command: str, kubeconfig: Path = Path()) -> AsyncIterator[Started]:
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=complaints, limit=1 << 24, start_new_session=True,
        )  # fmt: skip
        try:
            yield Started(process, complaints)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await _finish(process)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")


def _age(pid: int) -> float:
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


async def _finish(process: asyncio.subprocess.Process) -> None:
    """It may have started others (uv does): the whole session of processes ends, by force where it must."""
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

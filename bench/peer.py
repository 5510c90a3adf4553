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
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
class Peer:
    """One that runs and is ready."""

    pid: int
    sync_s: float
    since_start_s: float
    _process: asyncio.subprocess.Process

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def end(self) -> list[float]:
        """Let it end; the latencies it has seen."""
        os.kill(self.pid, signal.SIGTERM)
        said = await _line(self._process, END_LIMIT)
        return [float(value) for value in said["latencies_ms"] or ()]


@contextlib.asynccontextmanager
async def running(program: Program, kubeconfig: Path, *arguments: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        *program.command, *arguments, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE, limit=1 << 24, start_new_session=True,
    )  # fmt: skip
    try:
        said = await _line(process, READY_LIMIT)
        yield Peer(said["pid"], said["sync_s"], _age(said["pid"]), process)
    finally:
        await _finish(process)


async def finished(program: Program, kubeconfig: Path, *arguments: str, limit: float) -> dict[str, Any]:
    """Run a program that prints one line and ends."""
    process = await asyncio.create_subprocess_exec(
        *program.command, *arguments, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        said: dict[str, Any] = await _line(process, limit)
        return said
    finally:
        await _finish(process)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")


async def bare_python_bytes() -> int:
    """What the interpreter takes before it does anything."""
    program = "import time; print(1, flush=True); time.sleep(60)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        await _line(process, READY_LIMIT)
        return resident_bytes(process.pid)
    finally:
        process.kill()
        await process.wait()


def _age(pid: int) -> float:
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


async def _line(process: asyncio.subprocess.Process, limit: float) -> Any:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), limit)
    if not line:
        raise RuntimeError(f"the program with process id {process.pid} ended without a word")
    return json.loads(line)


async def _finish(process: asyncio.subprocess.Process) -> None:
    """It may have started others (uv does): the whole session of processes ends, by force where it must."""
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

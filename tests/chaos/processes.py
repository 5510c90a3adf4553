"""Bare servers as processes on the loopback of this machine, for a look at the checker without pods."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from tests.chaos.bare import answers, until
from tests.chaos.wire import Address
from tests.server_programs import server_command

LOOPBACK = "127.0.0.1"
BUS = 10_000  # the cluster bus listens on the port plus this
PORTS = range(21_000, 29_000, 7)


class Processes:
    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self._folder = folder
        self._options = options
        self._running: dict[Address, asyncio.subprocess.Process] = {}

    @property
    def addresses(self) -> list[Address]:
        return list(self._running)

    async def start(self, address: Address) -> None:
        folder = self._folder / str(address.port)
        folder.mkdir(exist_ok=True)
        place = ("--bind", address.host, "--port", str(address.port), "--dir", str(folder))
        self._running[address] = await asyncio.create_subprocess_exec(
            *server_command(),
            *place,
            *("--logfile", str(folder / "log")),
            *self._options,
            stdin=asyncio.subprocess.DEVNULL,
        )
        await until(f"{address} answers", partial(answers, address))

    async def restart(self, address: Address) -> None:
        await self.kill(address)
        await self.start(address)

    async def stop(self) -> None:
        for address in self.addresses:
            await self.kill(address)

    async def kill(self, address: Address) -> None:
        process = self._running[address]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def processes(folder: Path, number: int, options: tuple[str, ...]) -> AsyncIterator[Processes]:
    servers = Processes(folder, options)
    try:
        for port in islice(free_ports(), number):
            await servers.start(Address(LOOPBACK, port))
        yield servers
    finally:
        await servers.stop()


def free_ports() -> Iterator[int]:
    return (port for port in PORTS if _is_free(port) and _is_free(port + BUS))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True

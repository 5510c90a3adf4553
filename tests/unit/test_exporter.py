"""A real exporter beside real servers: its user may do all it asks for, and no more than that."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.processes import free_ports
from tests.server_programs import exporter_command, server_command
from tests.unit.test_render import deployment
from valkey_operator.render import exporter
from valkey_operator.render.users import EXPORTER, users_acl
from valkey_operator.valkey.connection import Connection, Refused, Silent

PASSWORD = "only for this test"  # noqa: S105
LIMIT = 20.0
METRIC = re.compile(r"^(redis_\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def server(version: str, folder: Path, port: int, *arguments: str) -> AsyncIterator[Path]:
    """The path of its socket."""
    (folder / "users.acl").write_text(users_acl({EXPORTER: PASSWORD}))
    socket = folder / "socket"
    said = ["--port", str(port), "--dir", str(folder), "--aclfile", str(folder / "users.acl")]
    async with running(
        *server_command(version), *said, "--unixsocket", str(socket), *arguments, "--logfile", "log"
    ):
        await answering(socket)
        yield socket


async def answering(socket: Path) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                (await Connection.open(socket)).close()
            except Silent:
                await asyncio.sleep(0.02)
            else:
                return


def arguments(folder: Path, port: int, metrics_port: int) -> list[str]:
    """Those of the container, for another place: the file is elsewhere and so is the server."""
    wanted = deployment(exporter={"enabled": True, "port": metrics_port})
    file = folder / exporter.PASSWORD_FILE
    file.write_text(exporter.password_file(PASSWORD).replace(":6379", f":{port}"))
    given: list[str] = exporter.container(wanted, {})["args"]
    return [each.replace(exporter.FOLDER, str(folder)).replace(":6379", f":{port}") for each in given]


async def scraped(port: int) -> dict[str, str]:
    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    async with asyncio.timeout(LIMIT):
        while True:
            try:
                return dict(METRIC.findall(await asyncio.to_thread(get)))
            except urllib.error.URLError:
                await asyncio.sleep(0.05)


async def refused(socket: Path) -> Any:
    """What servers have refused somebody, since they run."""
    connection = await Connection.open(socket)
    try:
        return await connection.call("ACL", "LOG")
    finally:
        connection.close()


@pytest.mark.parametrize("version", ["8.0", "8.1", "9.1"])
@pytest.mark.parametrize("cluster", ["no", "yes"])
async def test_the_exporter_gets_all_it_asks_for(version: str, cluster: str, tmp_path: Path) -> None:
    port, metrics_port, bus_port = islice(free_ports(), 3)
    bus = ["--cluster-enabled", cluster, "--cluster-port", str(bus_port)]
    async with server(version, tmp_path, port, *bus) as socket:
        given = arguments(tmp_path, port, metrics_port)
        assert PASSWORD not in " ".join(given)
        async with running(*exporter_command(), *given):
            metrics = await scraped(metrics_port)
        assert metrics["redis_up"] == "1"
        assert metrics["redis_exporter_last_scrape_error"] == "0"
        assert {"redis_memory_used_bytes", "redis_slowlog_length", "redis_connected_slaves"} <= metrics.keys()
        assert ("redis_cluster_state" in metrics) == (cluster == "yes")
        assert not await refused(socket)


@pytest.mark.parametrize(
    "command", ["GET x", "CONFIG GET *", "ACL LIST", "KEYS *", "CLIENT LIST", "CLUSTER NODES", "REPLICAOF NO ONE"]
)  # fmt: skip
async def test_the_exporters_user_may_do_nothing_else(command: str, tmp_path: Path) -> None:
    async with server("9.1", tmp_path, 0) as socket:
        connection = await Connection.open(socket, EXPORTER, PASSWORD)
        with pytest.raises(Refused, match="NOPERM"):
            await connection.call(*command.split())
        connection.close()

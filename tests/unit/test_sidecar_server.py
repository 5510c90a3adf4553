"""When a stop counts as a clean one: a real process, held by its pidfd, and a socket that answers as told."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.server_programs import server_command
from valkey_operator.sidecar import server
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer
from valkey_operator.valkey.connection import Connection, Ended, Silent

VERSIONS = ["8.0", "8.1", "9.1"]
Treat = Callable[[asyncio.StreamWriter, ServerProcess], None]


@asynccontextmanager
async def living(folder: Path, treat: Treat | None) -> AsyncIterator[LivingServer]:
    """A server that treats SHUTDOWN in its own way; without one there is no socket at all."""
    program = await asyncio.create_subprocess_exec("sleep", "60")
    process = ServerProcess.hold(program.pid)
    assert process is not None

    connected: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert treat is not None
        connected.append(writer)
        if b"SHUTDOWN" in await reader.read(1000):
            treat(writer, process)

    socket = folder / "s"
    listening = await asyncio.start_unix_server(answer, str(socket)) if treat else None
    made = LivingServer(process, socket, "", list)
    try:
        yield made
    finally:
        made._disconnect()
        for writer in connected:
            writer.close()
        process.kill()
        await program.wait()
        await process.end()
        if listening is not None:
            listening.close()


class Opened:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_after_the_watch_no_connection_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is being opened when the watch ends would be closed by nobody."""
    async with living(tmp_path, None) as made:
        watch = asyncio.create_task(made.watch())
        await asyncio.sleep(0)
        watch.cancel()
        await asyncio.wait({watch})
        opened = Opened()

        async def opening() -> Opened:
            return opened

        monkeypatch.setattr(made, "_open", opening)
        with pytest.raises(Silent, match="nobody watches the server any more"):
            await made.call("PING")
        assert opened.is_closed


def is_killed(writer: asyncio.StreamWriter, process: ServerProcess) -> None:
    writer.close()
    process.kill()


def refuses(writer: asyncio.StreamWriter, _process: ServerProcess) -> None:
    writer.write(b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n")


def dies_without_a_word(_writer: asyncio.StreamWriter, process: ServerProcess) -> None:
    process.kill()


def hangs_up_and_stays(writer: asyncio.StreamWriter, _process: ServerProcess) -> None:
    writer.close()


@pytest.mark.parametrize("treat", [refuses, is_killed, dies_without_a_word, hangs_up_and_stays])
async def test_any_other_end_is_not_a_clean_stop(
    tmp_path: Path,
    treat: Treat,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "GOODBYE", 0.2)
    async with living(tmp_path, treat) as running:
        assert not await running.shut_down(0.5)


async def test_a_server_that_cannot_be_asked_and_ends_has_not_stopped_cleanly(tmp_path: Path) -> None:
    async with living(tmp_path, None) as running:
        running.process.kill()
        assert not await running.shut_down(5)


@asynccontextmanager
async def real(folder: Path, version: str, *options: str) -> AsyncIterator[LivingServer]:
    """A server of that version, told what to keep, and held as the sidecar holds it."""
    told = ["--port", "0", "--unixsocket", str(folder / "s"), "--dir", str(folder), *options]
    program = await asyncio.create_subprocess_exec(
        *server_command(version), *told, stdout=asyncio.subprocess.DEVNULL
    )
    process = ServerProcess.hold(program.pid)
    assert process is not None
    made = LivingServer(process, folder / "s", "", list)
    try:
        async with asyncio.timeout(20):
            while made.info is None or made.info.get("loading") == "1":
                await made.look()
                await asyncio.sleep(0.02)
        yield made
    finally:
        process.kill()
        await program.wait()
        await process.end()
        made._disconnect()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kept", [("--save", "900", "1"), ("--save", "", "--appendonly", "yes")])
async def test_a_server_that_saves_and_ends_has_stopped_cleanly(
    tmp_path: Path, version: str, kept: tuple[str, ...]
) -> None:
    async with real(tmp_path, version, *kept) as running:
        await running.call("SET", "a", "1")
        assert await running.shut_down(10)
    async with real(tmp_path, version, *kept) as again:
        assert await again.call("GET", "a") == "1"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_killed_while_it_saves_for_the_last_time_has_not_stopped_cleanly(
    tmp_path: Path, version: str
) -> None:
    """It hangs up and ends, like one that has saved."""
    async with real(tmp_path, version, "--save", "900", "1", "--rdb-key-save-delay", "20000") as running:
        for n in range(200):
            await running.call("SET", f"k{n}", "1")
        stopping = asyncio.ensure_future(running.shut_down(10))
        await asyncio.sleep(0.5)
        assert not stopping.done()
        running.process.kill()
        assert not await stopping
    assert not (tmp_path / "dump.rdb").exists()


async def test_a_save_by_name_does_not_depend_on_what_somebody_has_set(tmp_path: Path) -> None:
    async with real(tmp_path, "9.1", "--save", "900", "1") as running:
        await running.call("SET", "a", "1")
        await running.call("CONFIG", "SET", "save", "")
        assert await running.shut_down(10, "SAVE")
    assert (tmp_path / "dump.rdb").exists()


async def test_a_server_that_loads_its_data_saves_nothing_when_it_stops(tmp_path: Path) -> None:
    async with real(tmp_path, "9.1", "--save", "900", "1", "--rdbcompression", "no") as running:
        for n in range(100):
            await running.call("SET", f"k{n}", "x" * 1000)
        assert await running.shut_down(10)
    program = await asyncio.create_subprocess_exec(
        *server_command("9.1"), "--port", "0", "--unixsocket", str(tmp_path / "s"), "--dir", str(tmp_path),
        "--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024",
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    process = ServerProcess.hold(program.pid)
    assert process is not None
    loading = LivingServer(process, tmp_path / "s", "", list)
    try:
        async with asyncio.timeout(10):
            while loading.info is None:
                await loading.look()
                await asyncio.sleep(0.01)
        assert loading.info.get("loading") == "1"
        assert not await loading.shut_down(10)
    finally:
        process.kill()
        await program.wait()
        await process.end()


async def test_a_process_that_has_ended_and_was_not_asked_after_is_no_server() -> None:
    program = await asyncio.create_subprocess_exec("sleep", "60")
    program.send_signal(signal.SIGKILL)
    # The loop reaps it only when it is given a turn; until then it is there by its number.
    held = ServerProcess.hold(program.pid)
    await program.wait()
    if held is not None:
        await asyncio.wait_for(held.end(), 5)
    assert ServerProcess.hold(program.pid) is None


async def test_a_question_behind_one_that_was_given_up_was_not_answered(tmp_path: Path) -> None:
    """`Ended` would be taken for a yes of a server that shuts down, or that loads its users."""

    is_over = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        is_over.set()

    listening = await asyncio.start_unix_server(listen, str(tmp_path / "s"))
    connection = await Connection.open(tmp_path / "s")
    first = asyncio.create_task(connection.call("INFO", limit=0.1))
    second = asyncio.create_task(connection.call("ACL", "LOAD", limit=5))
    with pytest.raises(Silent, match="no answer in time"):
        await first
    with pytest.raises(Silent, match="closed before it could be asked") as found:
        await second
    assert not isinstance(found.value, Ended)
    await is_over.wait()
    listening.close()
    await listening.wait_closed()

"""When a stop counts as a clean one: a real process, held by its pidfd, and a socket that answers as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from valkey_operator.sidecar import server
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer

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
    made = LivingServer(process, socket, "", "")
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


def goes(writer: asyncio.StreamWriter, process: ServerProcess) -> None:
    writer.close()
    process.kill()


def refuses(writer: asyncio.StreamWriter, _process: ServerProcess) -> None:
    writer.write(b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n")


def dies_without_a_word(_writer: asyncio.StreamWriter, process: ServerProcess) -> None:
    process.kill()


def hangs_up_and_stays(writer: asyncio.StreamWriter, _process: ServerProcess) -> None:
    writer.close()


async def test_a_server_that_hangs_up_and_ends_has_stopped_cleanly(tmp_path: Path) -> None:
    async with living(tmp_path, goes) as running:
        assert await running.shut_down(5)


@pytest.mark.parametrize("treat", [refuses, dies_without_a_word, hangs_up_and_stays])
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

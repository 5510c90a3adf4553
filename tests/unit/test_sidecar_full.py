"""A full volume under a server that syncs every write: it refuses writes, and does not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.caches import eventually
from tests.replicas import CONFIG, running, writes
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.disk import Space, Volume

ALWAYS = CONFIG.replace("appendonly no", "appendonly yes\nappendfsync always")


async def test_it_refuses_writes_until_there_is_room(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = tmp_path_factory.mktemp("f")
    async with running(folder, count=1, config=ALWAYS) as (node,):
        await node.ask("SET", "k", "v")
        process = node.process
        monkeypatch.setattr(node.pod._volume, "space", lambda: Space(1, 1000))

        async def refuses() -> bool:
            return not await writes(node)

        await eventually(refuses, 10)
        assert node.pod.observe().disk.is_full
        assert await node.ask("GET", "k") == "v"
        monkeypatch.undo()
        await eventually(lambda: writes(node), 10)
        assert node.process is process


async def test_who_is_primary_is_noted_also_where_there_is_no_room(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_volume: Volume, _record: Record) -> None:
        raise OSError(28, "No space left on device")

    async with running(tmp_path_factory.mktemp("f"), count=3) as (_a, b, c):
        monkeypatch.setattr(Volume, "note_record", full)
        noted = await c.order(2, note_primary=contract.NotePrimary(primary=b.name))
        assert noted.result == contract.RESULT_DONE
        assert c.pod.record == Record(2, b.name)
        await c.stop_sidecar()
        await c.start_sidecar(again=True)
        assert c.pod.record == Record(2, b.name)

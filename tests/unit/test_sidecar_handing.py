"""The office goes from one node to another: real servers, real sidecars, a client that writes, and cuts at every step."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.caches import eventually
from tests.replicas import Node, running, under_load, writes
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar import handing

DONE, REFUSED, FAILED = contract.RESULT_DONE, contract.RESULT_REFUSED, contract.RESULT_FAILED


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


async def hand_over(to: Node, by: Node, epoch: int = 2, limit: float = 10.0) -> contract.Outcome:
    return await by.order(epoch, limit, hand_over=contract.HandOver(to=to.name))


@pytest.mark.parametrize("version", ["8.0", "8.1", "9.1"])
async def test_the_office_goes_to_and_fro_under_a_writing_client_and_nothing_is_lost(
    folder: Path, version: str
) -> None:
    async with running(folder, version) as (a, b), under_load([a, b]) as (writer, watcher):
        pauses = []
        for epoch in range(2, 8):
            by, to = (a, b) if epoch % 2 == 0 else (b, a)
            before = writer.acknowledged
            outcome = await hand_over(to, by, epoch)
            assert outcome.result == DONE, outcome.message
            pauses.append(outcome.write_pause_milliseconds)
            assert (await by.role(), await to.role()) == ("slave", "master")
            assert by.pod.record == to.pod.record == Record(epoch, to.name)
            await eventually(by.is_in_sync, 10)
            await eventually(lambda before=before: writer.acknowledged > before + 100, 10)
        full_syncs = (await to.ask("INFO", "stats")).split("sync_full:")[1].split()[0]
        print(
            f"\n{version}: write pauses {pauses} ms, longest gap of a client {writer.longest_gap * 1000:.0f} ms, "
            f"{writer.acknowledged} acknowledged, {watcher.looks} looks, full syncs {full_syncs}"
        )
        assert writer.longest_gap < 1
        assert watcher.two == []
        assert await writer.lost(to) == 0


async def test_asked_again_it_is_done_already(folder: Path) -> None:
    async with running(folder) as (a, b):
        for _ in range(2):
            assert (await hand_over(b, a)).result == DONE
        assert (await b.order(2, promote=contract.Promote())).result == DONE
        assert (await a.role(), await b.role()) == ("slave", "master")

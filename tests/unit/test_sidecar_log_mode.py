"""What of an append-only file counts while a new one is being written: after a full copy, or for the first time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.caches import eventually
from tests.replicas import CONFIG, Node, running
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.disk import Kept
from valkey_operator.sidecar.log_mode import LogMode

VERSIONS = ["8.0", "8.1", "9.1"]
# 9.1 makes a copy that came as a file the log's base at once, without a rewrite.
LOGGED = CONFIG.replace("appendonly no", "appendonly yes\nappendfsync always\nrepl-diskless-load swapdb")
# In microseconds per key, for the process that rewrites the log.
SLOWLY = ("CONFIG", "SET", "rdb-key-save-delay", "200000")
KEPT = Kept(appendonly=True, synced_always=True)
NOT_KEPT = Kept()
ON = {"aof_enabled": "1", "aof_last_bgrewrite_status": "ok"}
OFF = {"aof_enabled": "0"}


class Said:
    def __init__(self, info: dict[str, str]) -> None:
        self.info: Mapping[str, str] | None = info

    async def call(self, *words: str | int) -> Any:
        raise AssertionError(words)


class Noted:
    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def note_kept(self, kept: Kept) -> None:
        self.kept = kept


@pytest.mark.parametrize(
    ("kept", "info", "after"),
    [
        (KEPT, ON, KEPT),
        (KEPT, {**ON, "loading": "1"}, KEPT),
        (KEPT, {**OFF, "loading": "1"}, NOT_KEPT),
        (KEPT, OFF, NOT_KEPT),
        (KEPT, {**ON, "aof_rewrite_in_progress": "1"}, KEPT),
        (KEPT, {**ON, "aof_rewrite_scheduled": "1"}, Kept(appendonly=True)),
        (NOT_KEPT, {**ON, "aof_rewrite_in_progress": "1"}, NOT_KEPT),
        (NOT_KEPT, {**ON, "aof_rewrite_scheduled": "1"}, NOT_KEPT),
        (NOT_KEPT, {**ON, "aof_last_bgrewrite_status": "err"}, NOT_KEPT),
        (NOT_KEPT, ON, KEPT),
    ],
)
async def test_a_log_counts_until_a_full_copy_and_again_when_the_next_one_is_whole(
    kept: Kept, info: dict[str, str], after: Kept
) -> None:
    volume = Noted(kept)
    await LogMode(volume).follow(Said(info), KEPT, synced_always=True)
    assert volume.kept == after


async def copied_anew(replica: Node, primary: Node) -> None:
    """A full copy, after which its log is written for so long that it is not whole yet."""
    await replica.ask(*SLOWLY)
    await replica.ask("REPLICAOF", "NO", "ONE")
    await replica.ask("SET", "its-own", "1")
    await replica.ask("REPLICAOF", *replica.settings.server_of(primary.name))
    await asyncio.sleep(0.1)
    await eventually(replica.is_in_sync, 20)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_primary_that_ends_before_its_log_is_whole_does_not_start_with_the_one_before(
    tmp_path: Path, version: str
) -> None:
    async with running(tmp_path, version, config=LOGGED) as (first, second):
        for number in range(100):
            await first.ask("SET", f"key-{number}", number)
        await eventually(lambda: second.pod.observe().disk.is_synced_always, 20)
        await copied_anew(second, first)
        done = await second.order(2, promote=contract.Promote())
        assert done.result == contract.RESULT_DONE, done.message
        await second.ask("SET", "acknowledged", "1")
        seen = second.pod.observe().disk
        assert not seen.has_data
        assert not seen.is_synced_always
        second.process.kill()
        await eventually(lambda: "a_living_member_goes_first" in second.pod.observe().gate.waits_for, 20)
        assert "KIND_STARTED_EMPTY" not in second.told


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_log_that_was_written_to_its_end_counts_again(tmp_path: Path, version: str) -> None:
    async with running(tmp_path, version, config=LOGGED) as (first, second):
        await first.ask("SET", "key", "1")
        await copied_anew(second, first)
        await eventually(lambda: second.pod.observe().disk.is_synced_always, 20)
        second.process.kill()
        await eventually(lambda: second.told.count("KIND_SERVER_STARTED") == 2, 20)
        await eventually(second.is_in_sync, 20)
        await eventually(lambda: second.pod.observe().disk.is_synced_always, 20)


async def test_a_stop_before_the_log_is_begun_anew_is_not_a_clean_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Which servers allow, while another process of theirs is at work."""
    caplog.set_level("INFO")
    async with running(tmp_path, config=LOGGED) as (first, second):
        for number in range(30):
            await first.ask("SET", f"key-{number}", number)
        await eventually(lambda: second.pod.observe().disk.is_synced_always, 20)
        await second.ask(*SLOWLY)
        await second.ask("BGSAVE")
        await second.ask("BGREWRITEAOF")
        await second.pod.observe_now()
        await second.pod.stop()
        await eventually(lambda: second.told.count("KIND_SERVER_STARTED") == 2, 20)
        assert "stopped cleanly" not in caplog.text
        await eventually(second.is_in_sync, 20)
        await eventually(lambda: second.pod.observe().disk.is_synced_always, 20)
        await second.pod.stop()
        assert "stopped cleanly" in caplog.text

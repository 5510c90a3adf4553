"""When a server hangs and is ended: the rules in a table, and real servers that are stopped by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.replicas import CONFIG, Node, mount_record, running
from valkey_operator.sidecar import hang, process
from valkey_operator.sidecar.hang import Silent, why_left

LONG = 40.0
ALWAYS = CONFIG.replace("appendonly no", "appendonly yes\nappendfsync always")


@pytest.mark.parametrize(
    ("seen", "guard"),
    [
        (Silent(9, 9, "T"), "a_hung_server_is_silent_for_long"),
        (Silent(11, 1, "R"), "a_hung_server_is_silent_for_long"),
        (Silent(29, 0, "R"), "a_hung_server_is_silent_for_long"),
        (Silent(LONG, LONG, "D", is_stopping=True), "a_server_that_stops_has_its_time"),
        (Silent(LONG, LONG, "D", has_served=False), "a_server_that_starts_or_loads_is_not_hung"),
        (Silent(LONG, LONG, "D", was_loading=True), "a_server_that_starts_or_loads_is_not_hung"),
        (Silent(LONG, LONG, "t", successors=("b",)), "a_traced_server_is_left_to_who_traces_it"),
        (Silent(LONG, 0, "R", successors=()), "a_server_at_work_is_ended_only_for_a_successor"),
        (
            Silent(LONG, 0, "R", is_complete_on_disk=True, successors=()),
            "a_server_at_work_is_ended_only_for_a_successor",
        ),
        (Silent(LONG, LONG, "T", successors=()), "nothing_is_lost_with_a_hung_server"),
        (Silent(LONG, LONG, "T", has_served=False, successors=()), "nothing_is_lost_with_a_hung_server"),
        (Silent(11, 11, "T", successors=("b",)), None),
        (Silent(11, 11, "T", is_complete_on_disk=True, successors=()), None),
        (Silent(11, 11, "T", is_primary=False, successors=()), None),
        (Silent(LONG, 0, "R", successors=("b",)), None),
        (Silent(LONG, 0, "R", is_primary=False, successors=()), None),
    ],
)
def test_a_silent_server_is_ended_or_left_for_a_reason(seen: Silent, guard: str | None) -> None:
    left = why_left(seen)
    assert (left.guard if left else None) == guard


def test_what_a_person_reads_says_what_to_do() -> None:
    left = why_left(Silent(LONG, LONG, "T", successors=()))
    assert left is not None
    assert left.why == (
        "the server was stopped by a signal and does not answer; it is not ended, because nobody else has all its "
        "data: continue it (kill -CONT), or delete its pod to start it with what is on its volume"
    )


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For servers that are ended sooner than in earnest."""
    monkeypatch.setattr(hang, "STILL", 2.0)
    return tmp_path_factory.mktemp("h")


def stop(node: Node) -> int:
    pid: int = node.process.pid
    os.kill(pid, signal.SIGSTOP)
    return pid


async def has_ended(pid: int, patience: float) -> bool:
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        stat = process.stat(pid)
        if stat is None or stat.state == "Z":
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_stopped_primary_is_ended_when_a_replica_can_take_over(folder: Path) -> None:
    async with running(folder) as (primary, replica):
        primary.heard_at = time.monotonic()
        pid = stop(primary)
        assert await has_ended(pid, 8)
        assert "KIND_SERVER_HUNG" in primary.told
        # It waits for who takes over.
        await eventually(
            lambda: "KIND_GATE_CLOSED" in primary.told[primary.told.index("KIND_SERVER_HUNG") :], 20
        )
        assert await replica.role() == "slave"


async def test_a_stopped_primary_is_left_when_no_operator_would_promote_another(folder: Path) -> None:
    async with running(folder) as (primary, _replica):
        pid = stop(primary)
        try:
            assert not await has_ended(pid, 5)
            assert "nobody else has all its data" in (primary.pod.why_not_ready() or "")
        finally:
            os.kill(pid, signal.SIGCONT)
        await eventually(lambda: primary.pod.why_not_ready() is None, 10)


async def test_a_stopped_replica_is_ended_and_follows_again(folder: Path) -> None:
    async with running(folder) as (_primary, replica):
        pid = stop(replica)
        assert await has_ended(pid, 8)
        await eventually(replica.is_in_sync, 10)


async def test_a_stopped_lone_server_comes_back_with_what_it_had_synced(folder: Path) -> None:
    async with running(folder, count=1, config=ALWAYS) as nodes:
        (lone,) = nodes
        mount_record(nodes, 1, lone.name)
        await lone.ask("SET", "k", "v")
        pid = stop(lone)
        assert await has_ended(pid, 8)
        await eventually(lone.is_in_sync, 10)
        assert await lone.ask("GET", "k") == "v"


async def test_a_script_that_runs_for_long_is_no_hang(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers BUSY, which is an answer."""
    monkeypatch.setattr(hang, "AT_WORK", 3.0)
    config = CONFIG + "busy-reply-threshold 100\n"
    async with running(folder, config=config) as (primary, _replica):
        primary.heard_at = time.monotonic()
        script = asyncio.ensure_future(primary.ask("EVAL", "while true do end", 0))
        await asyncio.sleep(7)
        assert "KIND_SERVER_HUNG" not in primary.told
        await primary.ask("SCRIPT", "KILL")
        await asyncio.wait({script})
        script.exception()

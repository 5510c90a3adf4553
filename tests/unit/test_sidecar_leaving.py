"""A pod that is being stopped: what its primary does first, with the operator and without; real servers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.replicas import CONFIG, Node, running, under_load
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar import leaving
from valkey_operator.sidecar.leaving import choose


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


async def left(node: Node) -> float:
    """The seconds until its server was stopped."""
    begun = time.monotonic()
    await node.pod.leave()
    return time.monotonic() - begun


async def test_with_the_operator_the_primary_waits_to_be_handed_over_and_then_stops(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        a.heard_at = time.monotonic() + 60
        stopping = asyncio.create_task(left(a))
        await eventually(lambda: "KIND_POD_STOPPING" in a.told)
        await asyncio.sleep(1)
        assert not stopping.done()
        outcome = await a.order(2, hand_over=contract.HandOver(to=b.name))
        assert outcome.result == contract.RESULT_DONE
        assert await stopping < 5
        assert await b.role() == "master"
        # Its next server, of the next pod, follows.
        await eventually(a.is_in_sync, 20)
        assert watcher.two == []
        assert await writer.lost(b) == 0
        print(f"\nlongest gap of a client {writer.longest_gap * 1000:.0f} ms")


async def test_an_operator_that_hears_and_does_nothing_is_not_waited_for_without_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LIMIT", 1.0)
    async with running(folder) as (a, b):
        a.heard_at = time.monotonic() + 60
        assert 1 < await left(a) < 5
        assert b.pod.record == Record(1, a.name)


async def test_without_the_operator_and_a_disk_the_primary_hands_over_itself(folder: Path) -> None:
    async with running(folder, count=3) as (a, b, c), under_load([a, b, c]) as (writer, watcher):
        assert await left(a) < 5
        (new,) = [each for each in (b, c) if await each.role() == "master"]
        assert new.pod.record == Record(2, new.name)
        assert new.pod.observe().taken_over == contract.TakenOver(former=a.name, epoch=2)
        await eventually(a.is_in_sync, 20)
        assert a.pod.record == Record(2, new.name)
        assert watcher.two == []
        assert await writer.lost(new) == 0


async def test_without_the_operator_nobody_is_made_primary_while_one_follows_another(folder: Path) -> None:
    async with running(folder, count=3) as (a, b, c):
        c.pod.note_record(Record(2, c.name))
        await left(a)
        assert (await b.role(), await c.role()) == ("slave", "slave")


async def test_without_the_operator_a_primary_whose_data_is_on_disk_comes_back_as_primary(
    folder: Path,
) -> None:
    async with running(folder, config=CONFIG.replace('save ""', "save 900 1")) as (a, b):
        await a.ask("SET", "kept", "1")
        assert await left(a) < 5
        await eventually(a.is_in_sync, 20)
        assert (await a.role(), await b.role()) == ("master", "slave")
        assert await a.ask("GET", "kept") == "1"
        assert a.pod.observe().gate.opened_by == "a_complete_primary_may_start"


async def test_a_primary_that_does_not_answer_as_it_is_stopped_hands_over_all_the_same(folder: Path) -> None:
    """A command that takes longer than a look has patience for."""
    async with running(folder, config=f"{CONFIG}enable-debug-command local\n") as (a, b):
        busy = await a.connect()
        sleeping = asyncio.create_task(busy.call("DEBUG", "SLEEP", "1.5"))
        await asyncio.sleep(0.1)
        assert await left(a) < 8
        assert await sleeping == "OK"
        busy.close()
        assert await b.role() == "master"


async def test_a_replica_stops_at_once(folder: Path) -> None:
    async with running(folder) as (a, b):
        b.heard_at = time.monotonic() + 60
        assert await left(b) < 3
        assert await a.role() == "master"


def seen(offset: int, **what: object) -> contract.Observation:
    said = {"link_is_up": True, "primary_address": "a:1", **what}
    replication = contract.Replication(offset=offset, **said)  # type: ignore[arg-type]
    return contract.Observation(
        server=contract.Server(answers=True, role=contract.ROLE_REPLICA, replication=replication)
    )


def test_the_replica_that_has_the_most_is_chosen_and_none_out_of_sync() -> None:
    assert choose({"b": seen(5), "c": seen(7), "d": seen(6)}, "a:1") == "c"
    assert choose({"b": seen(5), "c": seen(7, link_is_up=False)}, "a:1") == "b"
    assert choose({"b": seen(5, sync_in_progress=True), "c": seen(7, primary_address="x:1")}, "a:1") == ""
    assert choose({"b": seen(5), "c": seen(5)}, "a:1") == "b"
    assert choose({"b": contract.Observation()}, "a:1") == ""

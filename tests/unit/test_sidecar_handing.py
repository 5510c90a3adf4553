"""The office goes from one node to another: real servers and sidecars, a client that writes, cuts at every step."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.caches import eventually
from tests.replicas import Node, running, under_load, writes
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar import handing
from valkey_operator.sidecar.refusals import Refusal
from valkey_operator.valkey.connection import Silent

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
            await writer.goes_on(before + 100)
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


async def test_whoever_ordered_it_may_go_at_any_moment(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        for epoch, delay in enumerate((0.0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06), 2):
            by, to = (a, b) if epoch % 2 == 0 else (b, a)
            cut = asyncio.create_task(hand_over(to, by, epoch))
            await asyncio.sleep(delay)
            cut.cancel()
            await asyncio.gather(cut, return_exceptions=True)
            outcome = await hand_over(to, by, epoch)
            assert outcome.result == DONE, outcome.message
            assert (await by.role(), await to.role()) == ("slave", "master")
            await eventually(by.is_in_sync, 10)
        assert watcher.two == []
        assert await writer.lost(to) == 0


async def test_without_the_other_sidecar_nothing_is_begun(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        await b.stop_sidecar()
        outcome = await hand_over(b, a)
        assert (outcome.result, outcome.guard) == (REFUSED, "the_replica_is_connected")
        assert a.pod.record == Record(1, a.name)
        assert await writes(a)
        await b.start_sidecar(again=True)
        await eventually(lambda: b.pod.why_not_ready() is None)
        assert (await hand_over(b, a)).result == DONE
        assert watcher.two == []
        assert writer.longest_gap < 1
        assert await writer.lost(b) == 0


async def test_without_the_other_server_nothing_is_begun(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        b.process.kill()
        outcome = await hand_over(b, a)
        assert (outcome.result, outcome.guard) == (REFUSED, "the_replica_is_connected")
        assert await writes(a)
        await eventually(b.is_in_sync, 20)
        assert (await hand_over(b, a)).result == DONE
        assert watcher.two == []
        assert await writer.lost(b) == 0


@pytest.mark.parametrize(
    ("by", "to", "epoch", "guard"),
    [
        (1, 2, 2, "only_a_primary_hands_over"),
        (0, 0, 2, "the_replica_is_connected"),
        (0, 1, 1, "one_primary_per_epoch"),
    ],
)
async def test_what_is_no_handover_is_refused(folder: Path, by: int, to: int, epoch: int, guard: str) -> None:
    async with running(folder, count=3) as nodes:
        outcome = await hand_over(nodes[to], nodes[by], epoch)
        assert (outcome.result, outcome.guard) == (REFUSED, guard)
        assert outcome.message
        assert await writes(nodes[0])


async def test_a_replica_that_hangs_in_the_pause_leaves_the_primary_in_office(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        put_up = a.pod.fence.put_up

        async def hang(reason: Any) -> None:
            await put_up(reason)
            os.kill(b.process.pid, signal.SIGSTOP)

        a.pod.fence.put_up = hang  # type: ignore[method-assign]
        outcome = await hand_over(b, a)
        assert outcome.result == FAILED
        assert "this node stays primary" in outcome.message
        assert await writes(a)
        assert not a.pod.observe().is_fenced
        assert writer.longest_gap < handing.PAUSE
        a.pod.fence.put_up = put_up  # type: ignore[method-assign]
        os.kill(b.process.pid, signal.SIGCONT)
        await eventually(b.is_in_sync)
        assert (await hand_over(b, a)).result == DONE
        assert watcher.two == []
        assert await writer.lost(b) == 0


@pytest.mark.parametrize("taken", [False, True])
async def test_without_an_answer_after_the_demotion_nobody_guesses(folder: Path, taken: bool) -> None:
    """Whether the other one has taken over, and only its answer was lost, makes no difference."""
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        take_over = b.pod.take_over

        async def mute(epoch: int, by: str) -> None:
            if taken:
                await take_over(epoch, by)
            await asyncio.Event().wait()

        b.pod.take_over = mute  # type: ignore[method-assign]
        outcome = await hand_over(b, a, limit=3)
        assert (outcome.result, outcome.guard) == (FAILED, "the_replica_takes_over")
        assert "this node stays its replica" in outcome.message
        assert (await a.role(), await b.role()) == ("slave", "master" if taken else "slave")
        b.pod.take_over = take_over  # type: ignore[method-assign]
        assert (await hand_over(b, a)).result == DONE
        assert (await a.role(), await b.role()) == ("slave", "master")
        await eventually(a.is_in_sync, 10)
        assert watcher.two == []
        assert await writer.lost(b) == 0


async def test_what_was_cut_after_the_demotion_is_completed_by_promote(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):

        async def refuse(_epoch: int, _by: str) -> None:
            raise Silent("it does not answer")

        b.pod.take_over = refuse  # type: ignore[method-assign, assignment]
        assert (await hand_over(b, a, limit=1)).result == FAILED
        assert (await b.order(2, promote=contract.Promote())).result == DONE
        await eventually(a.is_in_sync, 10)
        assert (await a.role(), await b.role()) == ("slave", "master")
        assert watcher.two == []
        assert await writer.lost(b) == 0


async def test_a_sidecar_that_dies_in_the_pause_leaves_a_fence_and_the_next_goes_on(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (writer, watcher):
        caught_up, calls, is_dead = a.pod._handing._caught_up, 0, asyncio.Event()

        async def die(*what: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                return await caught_up(*what)
            await is_dead.wait()
            raise asyncio.CancelledError

        a.pod._handing._caught_up = die  # type: ignore[method-assign, assignment]
        order = asyncio.create_task(hand_over(b, a))
        await eventually(lambda: calls == 2)
        await a.stop_sidecar()
        is_dead.set()
        order.cancel()
        await asyncio.gather(order, return_exceptions=True)
        await asyncio.sleep(handing.PAUSE)
        assert not await writes(a)
        assert await a.ask("GET", "key-1") == "1"
        await a.start_sidecar(again=True)
        await eventually(lambda: a.pod.observe().is_fenced)
        outcome = await hand_over(b, a)
        assert outcome.result == DONE, outcome.message
        assert watcher.two == []
        assert await writer.lost(b) == 0
        # Back in office, nothing of the fence is left.
        await eventually(a.is_in_sync, 10)
        assert (await hand_over(a, b, 3)).result == DONE
        assert await writes(a)


@pytest.mark.parametrize(
    ("state", "guard"),
    [
        ("older", "no_order_of_an_older_epoch"),
        ("another", "one_primary_per_epoch"),
        ("primary", "only_a_replica_takes_over"),
        ("stranger", "a_replica_follows_who_hands_over"),
        ("dead", "a_server_runs"),
    ],
)
async def test_who_must_not_take_over_refuses(folder: Path, state: str, guard: str) -> None:
    async with running(folder, count=3) as (a, b, c):
        epoch, by, asked = 5, a, b
        if state == "older":
            b.pod.note_record(Record(6, c.name))
        elif state == "another":
            b.pod.note_record(Record(5, c.name))
        elif state == "primary":
            by, asked = b, a
        elif state == "stranger":
            by = c
        else:
            b.process.kill()
            await b.pod.server_is_gone()
        with pytest.raises(Refusal) as refusal:
            await asked.pod.take_over(epoch, by.name)
        assert refusal.value.guard == guard
        assert await a.role() == "master"


async def test_a_dead_primary_lets_another_go_first_and_then_follows(folder: Path) -> None:
    async with running(folder) as (a, b), under_load([a, b]) as (_, watcher):
        a.process.kill()
        await eventually(lambda: "a_living_member_goes_first" in a.pod.observe().gate.waits_for)
        note = contract.NotePrimary(primary=b.name)
        assert (await a.order(2, note_primary=note)).result == DONE
        assert (await b.order(2, note_primary=note)).result == DONE
        promoted = await b.order(2, promote=contract.Promote())
        assert (promoted.result, promoted.observation.server.role) == (DONE, contract.ROLE_PRIMARY)
        await eventually(a.is_in_sync, 10)
        assert (await a.role(), await b.role()) == ("slave", "master")
        refused = await b.order(3, note_primary=contract.NotePrimary(primary=a.name))
        assert (refused.result, refused.guard) == (REFUSED, "a_running_primary_is_not_deposed")
        assert watcher.two == []


async def test_a_primary_that_dies_right_after_the_first_writes_does_not_come_back_empty(
    folder: Path,
) -> None:
    """What its replica said a second ago is that it is empty, too."""
    async with running(folder) as (a, b):
        await asyncio.gather(*(a.ask("SET", f"key-{number}", "1") for number in range(50)))
        await eventually(lambda: has_keys(b, 50))
        a.process.kill()
        await eventually(lambda: "a_living_member_goes_first" in a.pod.observe().gate.waits_for, 5)
        await asyncio.sleep(1)
        assert a.pod.running_server() is None
        assert await has_keys(b, 50)


async def has_keys(node: Node, count: int) -> bool:
    return bool(await node.ask("DBSIZE") == count)


async def test_asked_at_this_moment_a_server_that_hangs_does_not_answer(folder: Path) -> None:
    async with running(folder) as (a, b):
        os.kill(b.process.pid, signal.SIGSTOP)
        try:
            seen = (await a.pod.members.observed([b.name]))[b.name]
            assert seen.HasField("server")
            assert not seen.server.answers
            outcome = await b.order(2, note_primary=contract.NotePrimary(primary=a.name))
            assert outcome.guard == "a_running_primary_is_not_deposed"
        finally:
            os.kill(b.process.pid, signal.SIGCONT)
        await a.ask("SET", "a", "1")
        seen = (await a.pod.members.observed([b.name]))[b.name]
        assert seen.server.replication.offset == (await a.ask("ROLE"))[1]

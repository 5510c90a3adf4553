"""What a controller does with keys, failures and time; no server is needed to see it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.caches import eventually
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, itself, label, owner
from valkey_operator.kube.objects import Key, Metadata, Object, OwnerReference, StatusAnswer

A, B = Key("n", "a"), Key("n", "b")


@contextlib.asynccontextmanager
async def working(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Recorded:
    """A reconcile that notes what it was called with and fails as told."""

    def __init__(self, *failures: Exception) -> None:
        self.calls: list[Key] = []
        self.failures = list(failures)

    async def __call__(self, key: Key) -> Again:
        self.calls.append(key)
        if self.failures:
            raise self.failures.pop(0)
        return None


def refused(kind: type[errors.ApiError], code: int) -> errors.ApiError:
    return kind(code, StatusAnswer(message="no"), "ask")


async def test_changes_while_a_key_is_worked_on_lead_to_one_more_turn_that_sees_the_newest() -> None:
    world, seen, started = [0], list[int](), asyncio.Event()

    async def reconcile(_key: Key) -> Again:
        seen.append(world[0])
        started.set()
        await asyncio.sleep(0.05)
        return None

    controller = Controller("test", reconcile)
    async with working(controller):
        controller.wake(A)
        await started.wait()
        for _ in range(10):
            world[0] += 1
            controller.wake(A)
        await eventually(lambda: seen == [0, 10])


async def test_one_key_is_never_worked_on_twice_at_once_and_others_are() -> None:
    active: Counter[Key] = Counter()
    most = Counter[Key]()
    together = 0

    async def reconcile(key: Key) -> Again:
        nonlocal together
        active[key] += 1
        most[key] = max(most[key], active[key])
        together = max(together, active.total())
        await asyncio.sleep(0.01)
        active[key] -= 1
        return None

    controller = Controller("test", reconcile)
    async with working(controller):
        for _ in range(20):
            for n in range(10):
                controller.wake(Key("n", str(n)))
            await asyncio.sleep(0.005)
        await eventually(lambda: not active.total() and not len(controller.queue))
    assert set(most.values()) == {1}
    assert together == 10


async def test_slow_and_hot_keys_do_not_starve_another() -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> Again:
        if key.name.startswith("slow"):
            await asyncio.sleep(3600)
        done.append(key)
        return 0.0 if key.name == "hot" else None

    controller = Controller("test", reconcile, workers=4)
    async with working(controller):
        for n in range(3):
            controller.wake(Key("n", f"slow{n}"))
        controller.wake(Key("n", "hot"))
        for n in range(50):
            controller.wake(Key("n", str(n)))
        await eventually(lambda: {key.name for key in done} >= {str(n) for n in range(50)})
        assert done.count(Key("n", "hot")) >= 2, "the hot one had its turns too"


async def test_no_more_keys_are_worked_on_at_once_than_there_are_workers() -> None:
    active, most = 0, 0

    async def reconcile(_key: Key) -> Again:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.01)
        active -= 1
        return None

    controller = Controller("test", reconcile, workers=3)
    async with working(controller):
        for n in range(20):
            controller.wake(Key("n", str(n)))
        await eventually(lambda: not active and not len(controller.queue))
    assert most == 3


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("broken"),
        refused(errors.Conflict, 409),
        errors.Unreachable("no answer"),
        TimeoutError(),
        errors.NotLeader("another one leads"),  # it may come back, and nothing else would wake this key
        errors.Throttled(429, StatusAnswer(), "ask", 0.05, ""),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_failed_reconcile_is_tried_again(failure: Exception) -> None:
    reconcile = Recorded(failure, failure)
    controller = Controller("test", reconcile)
    async with working(controller):
        controller.wake(A)
        await eventually(lambda: reconcile.calls == [A, A, A])


async def test_a_broken_key_is_reported_with_its_name_and_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    reconcile = Recorded(ValueError("broken"))
    controller = Controller("test", reconcile)
    async with working(controller):
        controller.wake(A)
        await eventually(lambda: len(reconcile.calls) == 2)
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "ValueError: broken" in caplog.text


async def test_a_reconcile_past_its_deadline_is_ended_and_the_report_says_where_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = asyncio.Event()

    async def waits_for_a_lost_reply() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.set()
            raise

    async def reconcile(_key: Key) -> Again:
        await waits_for_a_lost_reply()
        return None

    controller = Controller("test", reconcile, deadline=0.05)
    async with working(controller):
        controller.wake(A)
        await asyncio.wait_for(ended.wait(), 5)
        await eventually(lambda: "waits_for_a_lost_reply" in caplog.text)


async def test_a_reconcile_that_asks_for_later_gets_its_turn_later() -> None:
    calls = 0

    async def reconcile(_key: Key) -> Again:
        nonlocal calls
        calls += 1
        return 0.01 if calls < 3 else None

    controller = Controller("test", reconcile)
    async with working(controller):
        controller.wake(A)
        await eventually(lambda: calls == 3)


async def test_nothing_is_decided_before_what_is_in_doubt_was_looked_at() -> None:
    reconcile, settled = Recorded(), [errors.Unreachable("cannot see"), None]

    async def settle() -> None:
        if (problem := settled.pop(0)) is not None:
            raise problem

    controller = Controller("test", reconcile, settle=settle)
    async with working(controller):
        controller.wake(A)
        await eventually(lambda: reconcile.calls == [A])
    assert settled == []


async def test_a_stop_lets_work_end_and_begins_nothing_new() -> None:
    begun, ended = list[Key](), list[Key]()

    async def reconcile(key: Key) -> Again:
        begun.append(key)
        await asyncio.sleep(0.1)
        ended.append(key)
        return None

    controller = Controller("test", reconcile)
    running = asyncio.create_task(controller.run(grace=30))
    controller.wake(A)
    await eventually(lambda: begun == [A])
    controller.stop()
    controller.wake(B)
    await asyncio.wait_for(running, 10)
    assert (begun, ended) == ([A], [A])


async def test_a_stop_ends_what_does_not_end_by_itself() -> None:
    begun = asyncio.Event()

    async def reconcile(_key: Key) -> Again:
        begun.set()
        await asyncio.sleep(3600)
        return None

    controller = Controller("test", reconcile)
    running = asyncio.create_task(controller.run(grace=0.05))
    controller.wake(A)
    await begun.wait()
    controller.stop()
    await asyncio.wait_for(running, 10)


async def test_a_key_cut_off_in_the_middle_is_the_next_run_s_first() -> None:
    begun, calls = asyncio.Event(), list[Key]()

    async def reconcile(key: Key) -> Again:
        calls.append(key)
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(3600)
        return None

    controller = Controller("test", reconcile)
    async with working(controller):
        controller.wake(A)
        await begun.wait()
    async with working(controller):
        await eventually(lambda: calls == [A, A])


def test_children_lead_to_their_parents() -> None:
    reference = OwnerReference("valkey.io/v1alpha1", "Valkey", "parent", "1", controller=True)
    other = OwnerReference("v1", "ConfigMap", "bystander", "2")
    metadata = Metadata(name="x", namespace="n", owner_references=(other, reference), labels={"for": "b"})
    item = Object(metadata)
    assert list(itself(item)) == [Key("n", "x")]
    assert list(owner("Valkey")(item)) == [Key("n", "parent")]
    assert list(owner("ConfigMap")(item)) == [], "an owner that does not control is no parent"
    assert list(label("for")(item)) == [B]
    assert list(label("none")(item)) == []


async def test_a_key_cut_off_before_its_work_began_is_not_lost() -> None:
    reconcile = Recorded()
    controller = Controller("test", reconcile)
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    controller.wake(A)
    while not controller._working:  # noqa: ASYNC110 - taken, its task made, and not one step of it run
        await asyncio.sleep(0)
    running.cancel()
    for task in controller._working:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    async with working(controller):
        await eventually(lambda: reconcile.calls == [A])

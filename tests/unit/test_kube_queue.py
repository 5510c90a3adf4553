"""The queue against a model, and what it promises about time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from valkey_operator.kube.backoff import Backoff
from valkey_operator.kube.queue import Queue

KEYS = st.sampled_from("abcdef")


class QueueMachine(RuleBasedStateMachine):
    """Random adds, takes and dones; the model is a list of waiting keys and a set of active ones."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.queue: Queue[str] = Queue()
        self.order: list[str] = []
        self.again: list[str] = []
        self.active: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.runner.run(self._call(lambda: self.queue.add(key)))
        if key in self.active:
            if key not in self.again:
                self.again.append(key)
        elif key not in self.order:
            self.order.append(key)

    @precondition(lambda self: self.order)
    @rule()
    def take(self) -> None:
        key, waited = self.runner.run(self.queue.take())
        assert key == self.order.pop(0), "the key that waited longest comes first"
        assert key not in self.active, "never two workers on one key"
        assert waited >= 0
        self.active.add(key)

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.active)))
        self.runner.run(self._call(lambda: self.queue.done(key)))
        self.active.discard(key)
        if key in self.again:
            self.again.remove(key)
            self.order.append(key)

    @invariant()
    def counts_what_waits(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.queue) == len(self.order) + len(self.again)

    async def _call(self, what: Callable[[], None]) -> None:
        what()


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueue = QueueMachine.TestCase


async def test_a_delayed_key_comes_later_and_an_earlier_time_wins() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)
    assert len(queue) == 0
    key, _ = await asyncio.wait_for(queue.take(), 5)
    assert key == "a"


async def test_a_key_that_comes_by_itself_needs_its_timer_no_more() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("a", 0.05)
    queue.add("a")
    await queue.take()
    queue.done("a")
    await asyncio.sleep(0.1)
    assert len(queue) == 0


async def test_each_failure_waits_longer_and_a_success_forgets_them() -> None:
    queue: Queue[str] = Queue(lambda: Backoff(first=1, longest=8))
    waits = [queue.retry("a") for _ in range(6)]
    assert all(
        nominal * 0.75 <= wait <= nominal * 1.25
        for nominal, wait in zip([1, 2, 4, 8, 8, 8], waits, strict=True)
    )
    assert queue.retry("b") <= 1.25, "the failures of one key are not another's"
    queue.succeeded("a")
    assert queue.retry("a") <= 1.25


async def test_a_waiting_consumer_is_woken_by_the_first_key() -> None:
    queue: Queue[str] = Queue()
    taking = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")
    assert (await asyncio.wait_for(taking, 5))[0] == "a"

"""Writes to a target for as long as a test needs it, then reads everything back and has it judged."""

import asyncio
import platform
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.chaos.history import Demands, End, Header, Kind, Operation, Recorder, wall_clock
from tests.chaos.judge import judge
from tests.chaos.outcomes import Outcome
from tests.chaos.readback import NoFinalRead, read_back
from tests.chaos.slots import slot_of, spread_tags
from tests.chaos.targets import Target
from tests.chaos.verdict import Verdict
from tests.chaos.wire import ErrorReply, NotSent, Unanswered, as_text
from tests.chaos.writers import Writer

CLUSTER_TAGS = 16  # three writers each: at the usual pace some 900 writes a second
PLAIN_TAGS = 8
LONGEST_RUN = 3600.0


class Workload:
    """One run. `pace` is the sleep of each writer between two writes, and so the precision of a pause."""

    def __init__(
        self,
        target: Target,
        recorder: Recorder,
        *,
        demands: Demands | None = None,
        tags: int | None = None,
        pace: float = 0.05,
        seed: int = 0,
        heal_within: float = 30.0,
    ) -> None:
        self._target = target
        self._recorder = recorder
        self._demands = demands or Demands()
        self._tags = spread_tags(tags or (CLUSTER_TAGS if target.is_cluster else PLAIN_TAGS))
        self._pace = pace
        self._seed = seed
        self._heal_within = heal_within
        self._label = ""
        self._ended = 0.0
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        chance = random.Random(self._seed)  # noqa: S311 (it spreads the writers in time, no more)
        run = f"run-{time.time_ns():x}"
        self._recorder.begin(await self._header(run))
        for tag in self._tags:
            for kind in Kind:
                writer = Writer(kind, tag, run, self._target, self._recorder, lambda: self._label)
                self._start(writer, first_after=chance.uniform(0, self._pace))
        return self

    def _start(self, writer: Writer, first_after: float) -> None:
        most = round(LONGEST_RUN / self._pace)
        work = writer.run(self._stop, self._pace, first_after, most)
        self._tasks.append(asyncio.create_task(work, name=f"{writer.kind} {writer.tag}"))

    async def _header(self, run: str) -> Header:
        versions = {"python": platform.python_version(), "valkey": await self._server_version()}
        return Header(
            target=str(self._target),
            run=run,
            seed=self._seed,
            started=wall_clock(),
            tags=self._tags,
            versions=versions,
            demands=self._demands,
        )

    async def _server_version(self) -> str:
        with suppress(NotSent, Unanswered, ErrorReply):
            async with await self._target.connect(slot_of(self._tags[0])) as wire:
                return info_field(as_text(await wire.call("INFO", "server")), "valkey_version")
        return "unknown"

    async def __aexit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            await self.stop()
        finally:
            if failure is not None:
                self._recorder.close()  # without an end line: a run that broke off proves nothing

    async def stop(self) -> None:
        """Lets every write under way have its outcome; after that nothing more is sent."""
        if self._stop.is_set():
            return
        self._ended = self._recorder.now()
        self._stop.set()
        access = self._target.access
        _, late = await asyncio.wait(
            self._tasks, timeout=2 * access.connect_limit + 2 * access.command_limit + 1
        )
        for task in late:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks)

    @contextmanager
    def during(self, operation: str) -> Iterator[None]:
        """Stamps every write sent meanwhile with the operation's name."""
        outer, began = self._label, self._recorder.now()
        self._label = operation
        try:
            yield
        finally:
            self._label = outer
            self._recorder.record(Operation(operation, began, self._recorder.now()))

    async def acknowledged(self, each: int, within: float = 15.0) -> None:
        """Waits until every tag has this many more acknowledged writes than now."""
        history = self._recorder.history
        seen = len(history.writes)
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            acks = Counter(write.tag for write in history.writes[seen:] if write.outcome is Outcome.OK)
            if all(acks[tag] >= each for tag in self._tags):
                return
            await asyncio.sleep(self._pace)
        slow = [tag for tag in self._tags if acks[tag] < each]
        raise TimeoutError(f"not {each} acknowledged writes within {within:g} s for tags {', '.join(slow)}")

    async def judge(self) -> Verdict:
        """Stops, reads every server back, closes the history, and judges it."""
        await self.stop()
        unread = ""
        try:
            for read in await read_back(self._target, self._recorder.history.header.run, self._heal_within):
                self._recorder.record(read)
        except NoFinalRead as error:
            unread = str(error)
        self._recorder.finish(End(self._ended, unread))
        return judge(self._recorder.history)


def info_field(info: str, name: str) -> str:
    for line in info.splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value
    return "unknown"

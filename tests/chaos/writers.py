"""The three writers. Each owns one tag and one connection, and has one write under way at a time.

Every element is a key of its own: one SCAN then reads back everything that is there, whether it was
sent or not and whether its neighbours are there or not, so that a hole in the middle or a stranger is
seen; and no key grows, so that moving slots moves many small keys as it does for most users.
A counter is raised by INCR and not by SET: a late, unanswered SET could lower it without any loss.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.cluster_target import moved_to
from tests.chaos.history import Kind, Recorder, Waited, Write
from tests.chaos.outcomes import Outcome, outcome_of_error
from tests.chaos.slots import slot_of
from tests.chaos.targets import Target
from tests.chaos.wire import Address, ErrorReply, NotSent, Reply, Unanswered, Wire, Word

WAIT_MILLISECONDS = 500


@dataclass(frozen=True)
class Answer:
    outcome: Outcome
    node: str = ""
    reason: str = ""
    reply: Reply = None


class Line:
    """The way to the primary of one slot. Whatever is not acknowledged makes it look for a new one.

    A slot that is moved key by key has two: the owner says ASK for a key that it does not have, and that one key is
    looked for elsewhere, as every client does.
    """

    def __init__(self, target: Target, slot: int) -> None:
        self._target = target
        self._slot = slot
        self._wire: Wire | None = None
        # Where the last command went by ASK; one that follows from it (WAIT) goes there too.
        self._aside: Wire | None = None

    async def send(self, *words: Word) -> Answer:
        """To where the owner of the slot has it."""
        self._close_aside()
        try:
            wire = self._wire or await self._target.connect(self._slot)
        except NotSent as error:
            return Answer(Outcome.FAIL, reason=str(error))
        self._wire = wire
        try:
            return await self._call(wire, *words)
        except ErrorReply as error:
            if not str(error).startswith("ASK "):
                return self._drop(wire, outcome_of_error(str(error)), str(error))
            return await self._ask(moved_to(str(error), wire.address), *words)

    async def send_after(self, *words: Word) -> Answer:
        """To where the last command went."""
        if self._aside is None:
            return await self.send(*words)
        try:
            return await self._call(self._aside, *words)
        except ErrorReply as error:
            return self._drop(self._aside, outcome_of_error(str(error)), str(error))

    async def _ask(self, other: Address, *words: Word) -> Answer:
        try:
            self._aside = wire = await Wire.open(other, self._target.access)
            await wire.call("ASKING")
        except (NotSent, Unanswered, ErrorReply) as error:
            return Answer(Outcome.FAIL, str(other), str(error))
        try:
            return await self._call(wire, *words)
        except ErrorReply as error:
            return self._drop(wire, outcome_of_error(str(error)), str(error))

    async def _call(self, wire: Wire, *words: Word) -> Answer:
        try:
            return Answer(Outcome.OK, str(wire.address), reply=await wire.call(*words))
        except NotSent as error:
            return self._drop(wire, Outcome.FAIL, str(error))
        except Unanswered as error:
            return self._drop(wire, Outcome.INFO, str(error))

    def _drop(self, wire: Wire, outcome: Outcome, reason: str) -> Answer:
        self.close()
        self._target.suspect(wire.address, reason)
        return Answer(outcome, str(wire.address), reason)

    def close(self) -> None:
        self._close_aside()
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _close_aside(self) -> None:
        if self._aside is not None:
            self._aside.close()
            self._aside = None


class Writer:
    """Writes one kind of element to one tag."""

    def __init__(
        self, kind: Kind, tag: str, run: str, target: Target, recorder: Recorder, during: Callable[[], str]
    ) -> None:
        self.kind = kind
        self.tag = tag
        self._run = run
        self._line = Line(target, slot_of(f"{{{tag}}}"))
        self._recorder = recorder
        self._during = during
        self._sent = 0

    async def write_once(self) -> Outcome:
        """Sends the next element, and records its outcome before anything else is sent."""
        self._sent += 1
        element, words = self._next()
        label, sent = self._during(), self._recorder.now()
        answer = Answer(Outcome.INFO, reason="the checker was stopped while it waited for the answer")
        try:
            answer = await self._line.send(*words)
        finally:
            self._record(element, label, sent, answer)
        if self.kind is Kind.WAITED and answer.outcome is Outcome.OK:
            await self._wait_for_a_replica(element)
        return answer.outcome

    def _next(self) -> tuple[str, tuple[Word, ...]]:
        if self.kind is Kind.COUNTER:
            element = f"{self.kind}:{{{self.tag}}}"
            return element, ("INCR", f"{self._run}:{element}")
        element = f"{self.kind}:{{{self.tag}}}:{self._sent}"
        return element, ("SET", f"{self._run}:{element}", self._sent)

    def _record(self, element: str, label: str, sent: float, answer: Answer) -> None:
        self._recorder.record(
            Write(
                kind=self.kind,
                element=element,
                tag=self.tag,
                sent=sent,
                done=self._recorder.now(),
                outcome=answer.outcome,
                during=label,
                node=answer.node,
                reason=answer.reason,
                value=answer.reply if isinstance(answer.reply, int) else None,
            )
        )

    async def _wait_for_a_replica(self, element: str) -> None:
        answer = await self._line.send_after("WAIT", 1, WAIT_MILLISECONDS)
        replicas = answer.reply if isinstance(answer.reply, int) else 0
        self._recorder.record(Waited(element, replicas))

    async def run(self, stop: asyncio.Event, pace: float, first_after: float, most: int) -> None:
        """Writes at a steady pace until told to stop; `most` bounds the run whatever happens."""
        await _sleep_unless(stop, first_after)
        try:
            for _ in range(most):
                if stop.is_set():
                    return
                await self.write_once()
                await _sleep_unless(stop, pace)
        finally:
            self.close()

    def close(self) -> None:
        self._line.close()


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return

"""Tells the operator how this node is: every ten seconds, and at once when something has happened.

It finds the operator that leads, stays connected to it, and looks for the next one as soon as that one hangs up.
Nothing waits for it: without an operator it tries for ever, and the sidecar goes on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from valkey_operator.contract.heartbeat import LEADER, PATH, Address
from valkey_operator.contract.identity import OperatorIdentity
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.backoff import Backoff
from valkey_operator.sidecar.line import Answer, Line, Names, Unheard
from valkey_operator.sidecar.metrics import Count, Counts
from valkey_operator.sidecar.outbox import Outbox

PERIOD = 10.0
# The operator may wish for another period, within these.
SHORTEST, LONGEST = 1.0, 60.0
# How often one that does not lead may send us on, within one heartbeat.
HOPS = 2
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
log = logging.getLogger(__name__)


class Sender:
    """`service` is the operator's Service, behind which every replica answers."""

    def __init__(
        self,
        outbox: Outbox,
        observe: Callable[[], contract.Observation],
        credentials: Credentials,
        operator: OperatorIdentity,
        service: Address,
        counts: Counts,
    ) -> None:
        self._outbox, self._observe, self._counts = outbox, observe, counts
        self._credentials, self._operator, self._service = credentials, operator, service
        self._names = Names()
        self._line: Line | None = None
        # The last one that heard us, for when there is no DNS.
        self._leader: Address | None = None
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)
        self._is_heard: bool | None = None

    async def run(self) -> None:
        """For ever; nothing but a cancellation ends it."""
        try:
            while True:
                await self._beat()
        finally:
            self._hang_up()

    async def _beat(self) -> None:
        """One heartbeat, and the wait for the next."""
        try:
            answer = await self._delivered()
        except Unheard as problem:
            self._say_lost(str(problem))
            await asyncio.sleep(problem.again * random.uniform(1, 1.5) or self._backoff.failed())  # noqa: S311
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one heartbeat, the next is sent
            self._say_lost(repr(error), error)
            await asyncio.sleep(self._backoff.failed())
        else:
            self._say_heard()
            await self._pause(answer.next_milliseconds / 1000)

    async def _delivered(self) -> contract.HeartbeatAnswer:
        """By the first way that works: the open connection, then the Service."""
        problems: list[Unheard] = []
        if (kept := self._kept()) is not None:
            try:
                return await self._ask(kept)
            except Unheard as problem:
                problems.append(problem)
        for place in await self._places(problems):
            try:
                return await self._ask(await self._opened(place))
            except Unheard as problem:
                problems.append(problem)
        sentences = dict.fromkeys(map(str, problems))
        raise Unheard("; ".join(sentences), max(problem.again for problem in problems))

    async def _places(self, problems: list[Unheard]) -> list[Address]:
        try:
            return await self._names.addresses(self._service)
        except Unheard as problem:
            problems.append(problem)
            return [self._leader] if self._leader is not None else []

    async def _ask(self, line: Line, hops: int = HOPS) -> contract.HeartbeatAnswer:
        """With an observation of this moment; whoever does not lead says who does."""
        self._line, events = line, self._outbox.waiting()
        heartbeat = contract.Heartbeat(observation=self._observe(), events=events)
        answer = await self._answer(line, heartbeat)
        if answer.status == 200:
            self._outbox.acknowledged(events)
            self._leader = line.place
            return contract.HeartbeatAnswer.FromString(answer.body)
        self._hang_up()
        if answer.status != 421 or not hops:
            raise Unheard(_sentence(line, answer), _retry_after(answer))
        return await self._ask(await self._opened(_leader(line, answer)), hops - 1)

    async def _answer(self, line: Line, heartbeat: contract.Heartbeat) -> Answer:
        try:
            return await line.ask(PATH, heartbeat.SerializeToString())
        except Unheard:
            self._hang_up()
            raise

    async def _opened(self, place: Address) -> Line:
        return await Line.open(place, self._credentials, self._operator)

    def _kept(self) -> Line | None:
        """The open connection, unless it was made with a certificate that has been replaced."""
        if self._line is not None and self._line.context is not self._credentials.client_context():
            self._hang_up()
        return self._line

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    async def _pause(self, wished: float) -> None:
        """Until the next is due; ends with an event, and with the connection."""
        line, period = self._line, min(max(wished, SHORTEST), LONGEST) if wished else PERIOD
        assert line is not None
        ended, news = (asyncio.ensure_future(each) for each in (line.end(), self._outbox.news()))
        try:
            await asyncio.wait({ended, news}, timeout=period, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                self._hang_up()
                # From one that hangs up after every answer we come back less often.
                await asyncio.wait({news}, timeout=line.opened_at + SHORTEST - time.monotonic())
        finally:
            ended.cancel()
            news.cancel()
            await asyncio.wait({ended, news})

    def _say_lost(self, why: str, error: Exception | None = None) -> None:
        self._counts.add(Count.HEARTBEATS_FAILED)
        if self._is_heard is not False:
            log.warning("the operator does not hear of this node, which goes on: %s", why, exc_info=error)
        self._is_heard = False

    def _say_heard(self) -> None:
        self._counts.add(Count.HEARTBEATS_SENT)
        if not self._is_heard:
            log.info("the operator at %s hears of this node", self._leader)
        self._is_heard = True
        self._backoff.succeeded()


def _leader(line: Line, answer: Answer) -> Address:
    try:
        place = Address.parse(answer.head.get(LEADER.lower(), ""))
    except ValueError as problem:
        raise Unheard(f"{line.place} leads not, and names no leader: {problem}") from None
    if not place.is_numeric:
        raise Unheard(f"{line.place} leads not, and names a leader without an address: {place.host}")
    return place


def _sentence(line: Line, answer: Answer) -> str:
    return f"{line.place} answers {answer.status}: {answer.body.decode(errors='replace').strip()}"


def _retry_after(answer: Answer) -> float:
    seconds = answer.head.get("retry-after", "")
    return min(float(seconds), LONGEST_WAIT) if seconds.isascii() and seconds.isdigit() else 0.0

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

from valkey_operator.contract.heartbeat import PATH, Address
from valkey_operator.contract.identity import OperatorIdentity
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.backoff import Backoff
from valkey_operator.sidecar.line import Unheard
from valkey_operator.sidecar.metrics import Count, Counts
from valkey_operator.sidecar.outbox import Outbox
from valkey_operator.sidecar.way import LONGEST_WAIT, Way

PERIOD = 10.0
# The operator may wish for another period, within these.
SHORTEST, LONGEST = 1.0, 60.0
FIRST_WAIT = 0.2
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
        self._way = Way(credentials, operator, service)
        self._backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)
        self._is_heard: bool | None = None

    async def run(self) -> None:
        """For ever; nothing but a cancellation ends it."""
        try:
            while True:
                await self._beat()
        finally:
            self._way.hang_up()

    async def _beat(self) -> None:
        """One heartbeat, and the wait for the next."""
        try:
            answer = await self._delivered()
        except Unheard as problem:
            if problem.is_dismissed:
                self._outbox.dismissed()
            self._say_lost(str(problem))
            await asyncio.sleep(problem.again * random.uniform(1, 1.5) or self._backoff.failed())  # noqa: S311
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one heartbeat, the next is sent
            self._say_lost(repr(error), error)
            await asyncio.sleep(self._backoff.failed())
        else:
            self._say_heard()
            await self._pause(answer.next_milliseconds / 1000)

    async def _delivered(self) -> contract.HeartbeatAnswer:
        """With an observation of the moment it is sent."""
        events: list[contract.Event] = []

        def body() -> bytes:
            events[:] = self._outbox.waiting()
            return contract.Heartbeat(observation=self._observe(), events=events).SerializeToString()

        answer = await self._way.ask(PATH, body)
        self._outbox.acknowledged(events)
        return contract.HeartbeatAnswer.FromString(answer)

    async def _pause(self, wished: float) -> None:
        """Until the next is due; ends with an event, and with the connection."""
        line, period = self._way.line, min(max(wished, SHORTEST), LONGEST) if wished else PERIOD
        assert line is not None
        ended, news = (asyncio.ensure_future(each) for each in (line.end(), self._outbox.news()))
        try:
            await asyncio.wait({ended, news}, timeout=period, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                self._way.hang_up()
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
            log.info("the operator at %s hears of this node", self._way.leader)
        self._is_heard = True
        self._backoff.succeeded()

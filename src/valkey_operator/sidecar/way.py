"""The way to the operator that leads: found by the Service, kept as one connection, found anew when that one ends.

Each that asks has a way of its own, so that nothing waits behind a slow answer to something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from valkey_operator.contract.heartbeat import LEADER, Address
from valkey_operator.contract.identity import OperatorIdentity
from valkey_operator.contract.mtls import Credentials
from valkey_operator.sidecar.line import Answer, Line, Names, Unheard

# How often one that does not lead may send us on, within one question.
HOPS = 2
LONGEST_WAIT = 5.0
GONE = 410


class Way:
    """`service` is the operator's Service, behind which every replica answers."""

    def __init__(self, credentials: Credentials, operator: OperatorIdentity, service: Address) -> None:
        self._credentials, self._operator, self._service = credentials, operator, service
        self._names = Names()
        # The open connection, if there is one.
        self.line: Line | None = None
        # The last one that heard us, for when there is no DNS.
        self.leader: Address | None = None

    async def ask(self, path: str, body: Callable[[], bytes]) -> bytes:
        """By the first way that works: the open connection, then the Service. The body is made for each attempt."""
        problems: list[Unheard] = []
        if (kept := self._kept()) is not None:
            try:
                return await self._ask(kept, path, body)
            except Unheard as problem:
                problems.append(problem)
        for place in await self._places(problems):
            try:
                return await self._ask(await self._opened(place), path, body)
            except Unheard as problem:
                problems.append(problem)
        sentences = dict.fromkeys(map(str, problems))
        raise Unheard(
            "; ".join(sentences),
            max(problem.again for problem in problems),
            is_dismissed=any(problem.is_dismissed for problem in problems),
        )

    def hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None

    async def _places(self, problems: list[Unheard]) -> list[Address]:
        try:
            return await self._names.addresses(self._service)
        except Unheard as problem:
            problems.append(problem)
            return [self.leader] if self.leader is not None else []

    async def _ask(self, line: Line, path: str, body: Callable[[], bytes], hops: int = HOPS) -> bytes:
        """Whoever does not lead says who does."""
        self.line = line
        answer = await self._answer(line, path, body())
        if answer.status == 200:
            self.leader = line.place
            return answer.body
        self.hang_up()
        if answer.status != 421 or not hops:
            raise Unheard(_sentence(line, answer), _retry_after(answer), is_dismissed=answer.status == GONE)
        return await self._ask(await self._opened(_leader(line, answer)), path, body, hops - 1)

    async def _answer(self, line: Line, path: str, body: bytes) -> Answer:
        try:
            return await line.ask(path, body)
        except (Unheard, asyncio.CancelledError):
            self.hang_up()  # an answer may be on its way that nobody waits for
            raise

    async def _opened(self, place: Address) -> Line:
        return await Line.open(place, self._credentials, self._operator)

    def _kept(self) -> Line | None:
        """The open connection, unless it was made with a certificate that has been replaced."""
        if self.line is not None and self.line.context is not self._credentials.client_context():
            self.hang_up()
        return self.line


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

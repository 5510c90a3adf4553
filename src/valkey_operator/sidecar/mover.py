"""Moves slots key by key, for servers that cannot move them as a whole: out of the server beside us.

Cut anywhere nothing is lost: a key is deleted here only when the target has it, and while a slot is open the copy here
is the one that counts, so it replaces what an earlier attempt has left at the target. The same migration, begun again,
does what is left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from valkey_operator.api.guards import Guard
from valkey_operator.model.cluster import MigrationState, SeenMember, SeenMigration, as_ranges, as_slots
from valkey_operator.sidecar.refusals import Failure, Refusal
from valkey_operator.sidecar.slot_marks import Server, set_slots
from valkey_operator.valkey.cluster import parse_nodes
from valkey_operator.valkey.connection import Connection, Refused, Silent, Word

# A server does nothing else while it hands keys over: as many at once as take about this long.
GOAL = 0.02
MOST_KEYS = 512
SLOTS_AT_ONCE = 64
# For each piece on its way, in seconds. The server stands still meanwhile, so one that waits for a target that hangs
# must be back before the others take it for dead.
USUAL_PATIENCE = 1.0
# For a key that is so large that it does not get through in the usual time: this much of the node timeout.
PATIENCE_FOR_ONE = 0.8
# For the whole answer: a server counts its patience anew with each piece it sends.
LIMIT = 300.0
# For the target to say that the slots are its own.
CLAIM = 60.0
LOOK_AGAIN = 0.05
REMEMBERED = 16
log = logging.getLogger(__name__)


class Mover:
    """One migration at a time; and what came of the last ones."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._numbers = count(1)
        # Newest first, each with the moment when its state changed.
        self._noted: tuple[tuple[float, SeenMigration], ...] = ()

    @property
    def seen(self) -> tuple[SeenMigration, ...]:
        now = time.monotonic()
        return tuple(replace(each, age=now - at) for at, each in self._noted)

    @property
    def is_under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    async def begin(self, server: Server, own_id: str, target: SeenMember, slots: Collection[int]) -> None:
        if self.is_under_way:
            now = self._noted[0][1]
            if (now.target_id, now.ranges) == (target.id, as_ranges(slots)):
                return  # it is the very same
            if as_slots(now.ranges).isdisjoint(slots):
                raise Refusal(Guard.ONE_MIGRATION_AT_A_TIME, f"other slots go to {now.target_id} just now")
            await (
                self.cancel()
            )  # whoever asks for the same slots has a reason: the target may be another by now
        begun = SeenMigration(
            f"key-by-key-{next(self._numbers)}",
            own_id,
            target.id,
            as_ranges(slots),
            MigrationState.UNDER_WAY,
            is_key_by_key=True,
        )
        self._noted = ((time.monotonic(), begun), *self._noted[: REMEMBERED - 1])
        self._task = asyncio.create_task(self._run(server, target, sorted(slots)))

    async def cancel(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait({task})
        self._note(MigrationState.CANCELLED)

    def _note(self, state: MigrationState, message: str = "") -> None:
        now = replace(self._noted[0][1], state=state, message=message)
        self._noted = ((time.monotonic(), now), *self._noted[1:])

    async def _run(self, server: Server, target: SeenMember, slots: list[int]) -> None:
        try:
            connection = await server.connect()
            try:
                await set_slots(server, slots, "MIGRATING", target.id)
                await _Carrier(connection, target, await _Terms.of(connection)).carry(slots)
                self._note(MigrationState.EMPTIED)
                await _settle(server, connection, target.id, slots)
            finally:
                connection.close()
        except (Refused, Silent, Failure) as error:
            log.warning("slots are not moved: %s", error)
            self._note(MigrationState.FAILED, str(error))
        except Exception as error:
            # What is said to be under way is waited for: whatever ends this must be told as its end.
            log.exception("slots are not moved")
            kind = type(error).__name__
            self._note(MigrationState.FAILED, f"the sidecar itself failed ({kind}), and its log says how")
        else:
            self._note(MigrationState.DONE)


@dataclass(frozen=True)
class _Terms:
    """What the server's own configuration says of talking to others."""

    # Those by which it speaks to others as their replica.
    credentials: tuple[Word, ...]
    patience_for_one: float

    @classmethod
    async def of(cls, connection: Connection) -> _Terms:
        said = await connection.call("CONFIG", "GET", "masteruser", "masterauth", "cluster-node-timeout")
        known = dict(zip(said[::2], said[1::2], strict=True))
        user, password = known[b"masteruser"], known[b"masterauth"]
        named: tuple[Word, ...] = ("AUTH2", user, password) if user else ("AUTH", password)
        patience = int(known[b"cluster-node-timeout"]) / 1000 * PATIENCE_FOR_ONE
        return cls(named if password else (), patience)


Keys = list[bytes]


class _Carrier:
    """Carries the keys of slots to one target."""

    def __init__(self, connection: Connection, target: SeenMember, terms: _Terms) -> None:
        self._connection, self._target, self._terms = connection, target, terms
        self._at_once, self._database = 64, 0

    async def carry(self, slots: list[int]) -> None:
        """Of all databases, until none has any: a client may copy a key into one that was looked at before."""
        databases = await self._databases()
        while True:
            found = 0
            for self._database in range(databases):
                if databases > 1:
                    await self._connection.call("SELECT", self._database)
                found += await self._carry_all(slots)
            if not found or databases == 1:
                return

    async def _databases(self) -> int:
        """From 9.0 on a cluster may have several."""
        said = await self._connection.call("CONFIG", "GET", "cluster-databases")
        return int(said[1]) if said else 1

    async def _carry_all(self, slots: list[int]) -> int:
        """How many slots had keys."""
        left, carried = slots, 0
        while left:
            found = await self._keys(left[:SLOTS_AT_ONCE])
            for group in _groups(found.values(), self._at_once):
                await self._carry(group)
            left, carried = [*found, *left[SLOTS_AT_ONCE:]], carried + len(found)
        return carried

    async def _keys(self, slots: list[int]) -> dict[int, Keys]:
        """Of those that have any left."""
        asked: list[tuple[Word, ...]] = [("CLUSTER", "GETKEYSINSLOT", slot, self._at_once) for slot in slots]
        answers = await self._connection.call_all(asked)
        return {slot: keys for slot, keys in zip(slots, _accepted(answers), strict=True) if keys}

    async def _carry(self, group: list[Keys]) -> None:
        """Keys of one slot go by one command."""
        begun = time.monotonic()
        try:
            await self._migrate(group, USUAL_PATIENCE)
        except Refused as refusal:
            if refusal.code != "IOERR":
                raise
            log.info("some of %d keys are carried alone: %s", sum(map(len, group)), refusal)
            for keys in group:
                for key in keys:
                    await self._migrate([[key]], max(USUAL_PATIENCE, self._terms.patience_for_one))
        if time.monotonic() - begun > GOAL:
            self._at_once = max(1, self._at_once // 2)
        else:
            self._at_once = min(MOST_KEYS, self._at_once * 2)

    async def _migrate(self, group: list[Keys], patience: float) -> None:
        host, port = self._target.address.partition("@")[0].rsplit(":", 1)
        way = (
            "MIGRATE",
            host,
            port,
            "",
            self._database,
            round(patience * 1000),
            "REPLACE",
            *self._terms.credentials,
            "KEYS",
        )
        # Not in one go: between commands that came together a server does nothing else, and for a target that hangs it
        # would wait in each of them.
        for keys in group:
            await self._connection.call(*way, *keys, limit=LIMIT)


def _groups(found: Iterable[Keys], most: int) -> Iterable[list[Keys]]:
    """As many keys in each as go at once; those of one slot may be in several."""
    group: list[Keys] = []
    for keys in found:
        for first in range(0, len(keys), most):
            group.append(keys[first : first + most])
            if sum(map(len, group)) >= most:
                yield group
                group = []
    if group:
        yield group


def _accepted(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, Refused):
            raise answer
    return answers


async def _settle(server: Server, connection: Connection, target_id: str, slots: list[int]) -> None:
    """When the target owns them, the marks here go."""
    ends = time.monotonic() + CLAIM
    while time.monotonic() < ends:
        seen = parse_nodes((await connection.call("CLUSTER", "NODES")).decode())
        owned = next((each.slots for each in seen.members if each.id == target_id), frozenset[int]())
        if owned.issuperset(slots):
            marked = {mark.slot for mark in seen.migrating if mark.other_id == target_id}
            await set_slots(server, marked & owned, "NODE", target_id)
            return
        await asyncio.sleep(LOOK_AGAIN)
    raise Failure(Guard.THE_TARGET_CLAIMS_WHAT_IS_EMPTY, f"{target_id} has not claimed the slots in time")

"""How long a primary may write: the rule by a clock of its own, and real servers whose operator comes and goes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.replicas import Granting, Node, mount_record, running, writes
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.fence import FENCED_HERE
from valkey_operator.sidecar.lease import GRANT, Lease, Standing, clock
from valkey_operator.valkey.connection import Refused

BOTH = frozenset({"b", "c"})
B = frozenset({"b"})
NONE: frozenset[str] = frozenset()
GRANTED, NEEDS_WORD, FENCED = Standing.GRANTED, Standing.NEEDS_WORD, Standing.FENCED


def standings(lease: Lease, *times: float) -> list[Standing]:
    return [lease.standing(each, BOTH) for each in times]


def test_a_grant_is_counted_from_before_it_was_asked_for() -> None:
    lease = Lease()
    lease.granted(100.0, 6.0, B)
    assert standings(lease, 102.4, 102.6, 105.4, 105.6) == [GRANTED, NEEDS_WORD, NEEDS_WORD, FENCED]


def test_the_word_of_all_that_may_be_promoted_is_as_good_as_a_grant() -> None:
    lease = Lease()
    lease.granted(100.0, 6.0, B)
    lease.acknowledged(104.0, NONE, BOTH)
    assert lease.standing(106.0, BOTH) is FENCED
    lease.acknowledged(104.0, B, BOTH)
    assert standings(lease, 104.4, 106.0, 107.6) == [GRANTED, NEEDS_WORD, FENCED]


def test_before_the_first_grant_all_others_count() -> None:
    lease = Lease()
    lease.begin(100.0)
    lease.acknowledged(103.0, B, BOTH)
    assert lease.until == 106.0
    lease.acknowledged(103.0, BOTH, BOTH)
    assert lease.until == 107.0


def test_a_list_that_has_grown_since_they_were_asked_counts() -> None:
    lease = Lease()
    lease.granted(100.0, 6.0, B)
    lease.granted(101.0, 6.0, BOTH)
    lease.acknowledged(100.5, B, BOTH)
    assert lease.until == 107.0


def test_with_nobody_to_promote_no_lease_is_needed_until_a_grant_says_otherwise() -> None:
    lease = Lease()
    lease.granted(100.0, 6.0, NONE)
    assert lease.standing(1e9, BOTH) is GRANTED
    lease.granted(200.0, 6.0, B)
    assert lease.standing(206.0, BOTH) is FENCED


def test_a_late_answer_takes_nothing_back_and_a_grant_is_never_longer_than_agreed() -> None:
    lease = Lease()
    lease.granted(102.0, 6.0, B)
    lease.granted(100.0, 6.0, B)
    assert lease.until == 108.0
    lease.granted(103.0, 600.0, B)
    assert lease.until == 103.0 + GRANT


def test_what_was_asked_for_in_an_office_that_is_over_is_of_no_use() -> None:
    lease = Lease()
    lease.granted(100.0, 6.0, B)
    lease.end(101.0)
    lease.granted(100.9, 6.0, B)
    lease.acknowledged(100.9, BOTH, BOTH)
    assert (lease.until, lease.promotable) == (0.0, None)
    lease.begin(103.0)
    lease.granted(104.0, 6.0, B)
    assert lease.until == 110.0


def test_a_new_office_begins_with_a_full_time() -> None:
    lease = Lease(until=5.0, promotable=B)
    lease.begin(100.0)
    assert (lease.until, lease.promotable) == (106.0, None)


@pytest.mark.parametrize("promotable", [None, NONE, B])
def test_a_sidecar_that_starts_again_has_what_is_left_and_no_more(
    tmp_path: Path, promotable: frozenset[str] | None
) -> None:
    file = tmp_path / "lease.json"
    found = Lease.kept_in(file)
    assert found.standing(clock(), B) is FENCED
    found.until, found.promotable = 106.0, promotable
    found.note()
    again = Lease.kept_in(file)
    assert (again.until, again.promotable) == (106.0, promotable)


@asynccontextmanager
async def leased(folder: Path, promotable: int, count: int = 3) -> AsyncIterator[tuple[Granting, list[Node]]]:
    """A primary whose lease names the first so many of its replicas."""
    operator = Granting()
    await operator.start()
    try:
        async with running(folder, count=count, operator=operator.address) as nodes:
            operator.promotable = [each.name for each in nodes[1 : 1 + promotable]]
            await eventually(
                lambda: bool(operator.asked) and list(operator.asked[-1].promotable) == operator.promotable
            )
            yield operator, nodes
    finally:
        await operator.stop()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


async def writes_for(node: Node, seconds: float) -> bool:
    """Every tenth of a second, all of them."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if not await writes(node):
            return False
        await asyncio.sleep(0.1)
    return True


async def never_writes(node: Node, seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if await writes(node):
            return False
        await asyncio.sleep(0.05)
    return True


async def fenced_after(node: Node, patience: float = 10.0) -> float:
    begun = time.monotonic()

    async def is_fenced() -> bool:
        return not await writes(node)

    await eventually(is_fenced, patience)
    return time.monotonic() - begun


async def test_the_lease_is_asked_for_every_two_seconds_by_the_primary_alone(folder: Path) -> None:
    async with leased(folder, 1) as (operator, (a, *_)):
        operator.asked.clear()
        await asyncio.sleep(5)
        assert 2 <= len(operator.asked) <= 3
        assert {(each.node, each.pod_uid, each.epoch) for each in operator.asked} == {
            (a.name, a.settings.pod_uid, 1)
        }


async def test_without_the_operator_and_a_promotable_replica_a_primary_is_fenced_in_time(
    folder: Path,
) -> None:
    async with leased(folder, 1) as (operator, (a, b, _c)):
        await a.ask("SET", "kept", "1")
        client = await a.connect()
        await operator.stop()
        await b.stop_sidecar()
        took = await fenced_after(a)
        print(f"\nfenced {took:.1f} s after operator and replica were gone")
        assert took < GRANT
        assert a.pod.observe().is_fenced
        await eventually(lambda: "KIND_FENCED" in a.told)
        with pytest.raises(Refused, match="NOREPLICAS"):
            await a.ask("SET", "kept", "2")
        assert await a.ask("GET", "kept") == "1"
        assert (await a.ask("CONFIG", "GET", "min-replicas-to-write"))[1] == str(FENCED_HERE)
        with pytest.raises(Exception, match="PING"):
            await client.call("PING")
        client.close()
        # A sidecar that starts again beside it opens nothing, not for a moment and however often.
        for _ in range(2):
            await a.stop_sidecar()
            await a.start_sidecar(again=True)
            assert await never_writes(a, 3.0)
            assert a.pod.observe().is_fenced
        await operator.start()
        await eventually(lambda: writes(a), 5)
        assert not a.pod.observe().is_fenced
        await operator.stop()
        await fenced_after(a)
        await b.start_sidecar(again=True)
        await eventually(lambda: writes(a), 5)


async def test_a_sidecar_that_starts_again_in_time_is_not_noticed_by_writers(folder: Path) -> None:
    async with leased(folder, 1) as (_operator, (a, *_)):
        writing = asyncio.create_task(writes_for(a, 6.0))
        for _ in range(3):
            await asyncio.sleep(1.0)
            await a.stop_sidecar()
            await a.start_sidecar(again=True)
        assert await writing


async def test_a_server_that_somebody_makes_primary_by_hand_does_not_write(folder: Path) -> None:
    async with leased(folder, 2) as (operator, (a, b, _c)):
        await b.ask("REPLICAOF", "NO", "ONE")
        assert await fenced_after(b) < GRANT / 2
        # Nor one that was primary a moment ago: its time is over with its office.
        await b.order(1, replicate=contract.Replicate(primary=a.name))
        await eventually(b.is_in_sync)
        operator.epoch = 2
        assert (await a.order(2, hand_over=contract.HandOver(to=b.name))).result == contract.RESULT_DONE
        await a.ask("REPLICAOF", "NO", "ONE")
        assert await fenced_after(a) < GRANT / 2


async def test_a_primary_that_comes_back_begins_behind_its_fence(folder: Path) -> None:
    """It may have been replaced while it was away, and nobody may have been able to tell it so."""
    async with leased(folder, 1) as (operator, (a, b, c)):
        await operator.stop()
        await b.stop_sidecar()
        await c.stop_sidecar()
        a.pod.lease.end(clock())
        os.kill(a.process.pid, signal.SIGKILL)
        await eventually(a.pod.open_gate)
        await eventually(a.is_in_sync)
        assert await never_writes(a, 1.0)
        assert "KIND_FENCED" not in a.told
        await operator.start()
        await eventually(lambda: writes(a), 5)


async def test_without_the_operator_it_goes_on_while_all_replicas_follow(folder: Path) -> None:
    async with leased(folder, 2) as (operator, (a, b, c)):
        await operator.stop()
        assert await writes_for(a, GRANT + 3)
        # One that was told of another primary follows no more, and that is enough.
        note = contract.NotePrimary(primary=c.name)
        assert (await c.order(2, note_primary=note)).result == contract.RESULT_DONE
        assert await fenced_after(a) < GRANT
        # A grant for the epoch that is over does not open it again: the primary has heard of the newer one.
        assert "KIND_FENCED" not in b.told


async def test_with_nobody_to_promote_it_needs_nobody(folder: Path) -> None:
    async with leased(folder, 0) as (operator, (a, b, c)):
        await operator.stop()
        await b.stop_sidecar()
        await c.stop_sidecar()
        assert await writes_for(a, GRANT + 2)


async def test_a_replica_that_takes_office_is_not_fenced_and_asks_for_itself(folder: Path) -> None:
    async with leased(folder, 1) as (operator, (a, b, c)):
        assert (await a.order(2, hand_over=contract.HandOver(to=b.name))).result == contract.RESULT_DONE
        assert (await c.order(2, replicate=contract.Replicate(primary=b.name))).result == contract.RESULT_DONE
        operator.promotable = [a.name]
        assert await writes_for(b, 3)
        assert (operator.asked[-1].node, operator.asked[-1].epoch) == (b.name, 2)
        # Without the operator: the old primary acknowledges the new one.
        await operator.stop()
        assert await writes_for(b, GRANT + 1)


async def test_an_operator_that_refuses_is_as_good_as_none_and_the_record_decides(folder: Path) -> None:
    async with leased(folder, 1) as (operator, nodes):
        a, b, _c = nodes
        operator.epoch = 2
        mount_record(nodes, 2, b.name)
        assert await fenced_after(a) < GRANT + 0.5
        # The operator gives the office back, in an epoch of its own.
        operator.epoch = 3
        mount_record(nodes, 3, a.name)
        assert (await a.order(3, promote=contract.Promote())).result == contract.RESULT_DONE
        await eventually(lambda: writes(a), 3)
        assert await writes_for(a, 3)

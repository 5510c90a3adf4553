"""Who stands for election, on real servers: only a replica that has had the data of the primary it follows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.cluster_servers import NODE_TIMEOUT, Member, formed
from valkey_operator.contract.v1 import sidecar_pb2 as contract


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c")  # short: a socket's path has a limit


async def is_barred(member: Member) -> bool:
    return (await member.view()).is_barred


async def is_admitted(member: Member) -> bool:
    return not await is_barred(member)


async def is_primary(member: Member) -> bool:
    return (await member.view()).own.is_primary


async def says_failed(member: Member, node: str) -> bool:
    return (await member.view()).by_id[node].is_failed


@pytest.mark.parametrize("version", ["8.0", "9.1"])
async def test_a_replica_without_the_data_of_its_primary_is_not_elected(folder: Path, version: str) -> None:
    async with formed(folder, shards=3, replicas=1, version=version) as everyone:
        a, a1, b = everyone["a"], everyone["a1"], everyone["b"]
        for each in everyone.values():
            await eventually(lambda each=each: is_admitted(each), 30)  # type: ignore[misc]
        former = await a.id()
        await a1.kill()
        await a.ask("SET", "{06S}", "told while the replica was away")
        await a.kill()
        await a1.start()
        await eventually(lambda: says_failed(b, former), 20)
        assert await is_barred(a1)
        # A new sidecar knows nothing of it, and lets it be.
        a1.begin_sidecar()
        await a1.view()
        assert (await is_barred(a1), await is_primary(a1)) == (True, False)
        # Its primary comes back with what only it has, and is followed.
        await a.start()
        await eventually(lambda: is_admitted(a1), 20)
        await a.kill()
        await eventually(lambda: is_primary(a1), 20)


async def test_a_replica_is_barred_right_after_its_start_and_admitted_when_others_are_away(
    folder: Path,
) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        a, a1, b = (everyone[name] for name in ("a", "a1", "b"))
        await a1.kill()
        a1.begin_sidecar()  # what it knew of the run before would be taken for what it knows of this one
        await a1.start()
        await eventually(lambda: has_its_primary(a1), 10)
        assert await is_barred(a1)
        lost = await a.id()
        await a.kill()
        await eventually(lambda: says_suspected(b, lost), 20)
        # Its primary is dead, and it has had all that one had: it is elected, only not at once.
        await eventually(lambda: is_primary(a1), 30)


async def test_a_primary_that_is_back_is_not_replaced_because_the_others_still_call_it_dead(
    folder: Path,
) -> None:
    """For two node timeouts they do, though it answers and takes writes."""
    async with formed(folder, shards=3, replicas=1) as everyone:
        a, a1, b = (everyone[name] for name in ("a", "a1", "b"))
        former = await a.id()
        await a1.kill()
        a1.begin_sidecar()
        await a.kill()
        await a1.start()
        await asyncio.sleep(2 * int(NODE_TIMEOUT) / 1000)  # so long it must run
        assert await says_failed(b, former)
        await a.start()
        await eventually(lambda: has_its_primary(a1), 10)
        assert await says_failed(b, former)
        while await is_barred(a1):
            assert not await is_primary(a1)
            await asyncio.sleep(0.1)
        assert not await says_failed(a1, former)
        await a.kill()
        await eventually(lambda: is_primary(a1), 20)


async def says_suspected(member: Member, node: str) -> bool:
    seen = (await member.view()).by_id[node]
    return seen.is_suspected or seen.is_failed


async def has_its_primary(member: Member) -> bool:
    """And its sidecar has seen that."""
    return bool(member.candidacy.has_data_of)


async def test_the_operator_may_still_make_it_primary(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        a, a1 = everyone["a"], everyone["a1"]
        former = await a.id()
        await a1.kill()
        await a.kill()
        await a1.start()
        await eventually(lambda: says_failed(everyone["b"], former), 20)
        await a1.obeys(promote=contract.Promote(force=True, former_id=former))
        assert await is_primary(a1)
        await eventually(lambda: is_admitted(a1), 30)

"""An owner of slots whose pod is being stopped, or that does not answer; real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.caches import eventually
from tests.cluster_servers import Member, formed
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.cluster_leaving import ClusterLeaving


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c")  # short: a socket's path has a limit


class Shard:
    """`a` with its replica, as its sidecar sees them; who is asked to take over does so."""

    node, others = "a", frozenset({"a1"})

    def __init__(self, everyone: dict[str, Member]) -> None:
        self._everyone = everyone
        self.members, self.turn = self, asyncio.Lock()

    async def observed(self, names: Collection[str]) -> dict[str, contract.Observation]:
        return {name: await self._everyone[name].observe_now() for name in names}

    def running_server(self) -> Any:
        return self._everyone["a"].living


class Leaving(ClusterLeaving):
    """Without the way to the other sidecar."""

    def __init__(self, everyone: dict[str, Member]) -> None:
        super().__init__(Shard(everyone))  # type: ignore[arg-type]
        self._heir, self._former = everyone["a1"], everyone["a"]

    async def _asked(self, _to: str, _pod_uid: str) -> str:
        promote = contract.Promote(former_id=await self._former.id())
        outcome = await self._heir.order(promote=promote)
        return outcome.message


async def test_one_that_does_not_answer_at_once_hands_over_when_it_does(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        a = everyone["a"]
        assert a.living is not None
        busy = await a.living.connect()
        sleeping = asyncio.create_task(busy.call("DEBUG", "SLEEP", "1.5"))
        await asyncio.sleep(0.1)
        await Leaving(everyone).leave_office()
        assert await sleeping == b"OK"
        busy.close()
        assert (await everyone["a1"].view()).own.slots
        await eventually(lambda: owns_nothing(a))


async def owns_nothing(member: Member) -> bool:
    return not (await member.view()).own.slots


async def test_who_is_in_office_in_its_place_is_its_successor(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        leaving = Leaving(everyone)
        assert await leaving.successors() == ()
        await leaving.leave_office()
        assert await leaving.successors() == ("a1",)

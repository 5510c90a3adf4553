"""A ValkeyCluster of three shards of two under writes: planned work loses nothing, and a crash is healed at once."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.cluster_target import ClusterTarget
from tests.chaos.deployed import Deployed, Misfortune, longest_pause, titled
from tests.chaos.history import Demands, Recorder
from tests.chaos.slots import slot_of
from tests.chaos.test_replicated import MEMORY
from tests.chaos.verdict import Verdict
from tests.chaos.wire import Address
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

SEEDS = range(int(os.environ.get("CHAOS_SEEDS", "1")))
HAS_TIME = len(SEEDS) > 1
NEWEST = "9.1"
SPEC: dict[str, Any] = {
    "imagePullPolicy": "Never",
    "shards": 3,
    "replicas": 2,
    "persistence": {"size": "64Mi", "storageClassName": "standard"},
}


def image(version: str) -> str:
    return f"valkey-operator/valkey:{version}"


class Grid(Deployed):
    """A ValkeyCluster called `grid`, and what can be done to it."""

    kind, name = "valkeycluster", "grid"
    passing_wish: ClassVar[dict[str, Any]] = {"replicas": 3}

    def apply(self, version: str = NEWEST, **more: Any) -> None:
        self.place.apply("ValkeyCluster", "grid", {**SPEC, "image": image(version), **more})

    async def make(self, version: str = NEWEST, **more: Any) -> None:
        self.apply(version, **more)
        await self.is_well()

    async def is_well(self, patience: float = 120) -> None:
        def claim() -> bool:
            found = self.place.get("valkeycluster", "grid")
            status = found.get("status", {})
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            is_whole = bool(status.get("readyShards") == found["spec"]["shards"])
            return is_seen and is_whole and status.get("state") == "Ready"

        await self.becomes(claim, patience)

    def primary(self, shard: int) -> str:
        return str(self.status()["shards"][shard]["primary"])

    def has_replaced(self, shard: int, former: str) -> bool:
        return bool(self.status()["shards"][shard].get("primary", former) != former)

    async def switch_over(self, shard: int, to: str) -> None:
        await self.ask_for_another(to, self.primary(shard))
        await self.becomes(lambda: self.primary(shard) == to, 30)
        await self.is_well()

    def moves_slots(self) -> bool:
        return "total" in (self.status().get("operation") or {})

    def runs(self, version: str) -> bool:
        """Every server is of this version."""
        nodes = json.loads(self.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
        return all(each["status"].get("valkeyVersion", "").startswith(f"{version}.") for each in nodes)

    def target(self) -> ClusterTarget:
        address = self.place.get("service", "grid")["spec"]["clusterIP"]
        return ClusterTarget([Address(address, 6379)])


async def a_switchover(grid: Grid) -> None:
    shard = grid.dice.randrange(3)
    before = grid.primary(shard)
    to = next(node for node in (f"grid-{shard}-0", f"grid-{shard}-1") if node != before)
    await grid.switch_over(shard, to)


async def a_pod_is_deleted(grid: Grid) -> None:
    """A primary's, with its usual grace."""
    shard = grid.dice.randrange(3)
    before = grid.primary(shard)
    async with grid.beside():
        await asyncio.to_thread(grid.place.kubectl, "delete", "pod", f"{before}-0")
        await grid.becomes(lambda: grid.has_replaced(shard, before), 120)
    await grid.is_well()


async def a_roll(grid: Grid) -> None:
    await grid.patch({"config": {"databases": str(grid.dice.randint(20, 60))}})
    await asyncio.sleep(3)
    await grid.is_well()
    nodes = json.loads(grid.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
    assert not [each for each in nodes if each["status"].get("needsRestart")]


async def a_roll_of_all_shards_at_once(grid: Grid) -> None:
    await grid.patch({"update": {"maxParallelShards": 3}})
    works = [a_roll(grid)]
    if grid.misfortune is Misfortune.NONE:  # else the status may come too late to see it
        works.append(grid.becomes(lambda: grid.status()["readyReplicas"] <= 4, 60))
    await asyncio.gather(*works)


async def other_resources(grid: Grid) -> None:
    await grid.patch({"resources": MEMORY})
    await grid.becomes(lambda: grid.memory_limits() == {"256Mi"}, 120)
    await grid.is_well()


async def volumes_grow(grid: Grid) -> None:
    await grid.grow("96Mi")
    await grid.is_well()


async def a_suspension(grid: Grid) -> None:
    await grid.patch({"replicas": 0})
    await grid.becomes(lambda: grid.status().get("state") == "Suspended", 120)
    await grid.patch({"replicas": 2})
    await grid.is_well()


async def scaling(grid: Grid) -> None:
    await grid.patch({"shards": 4})
    await grid.is_well()
    await grid.patch({"shards": 3})
    await grid.is_well()


async def fewer_replicas_and_more(grid: Grid) -> None:
    await grid.patch({"replicas": 1})
    await grid.is_well()
    await grid.patch({"replicas": 2})
    await grid.is_well()


async def an_upgrade(grid: Grid) -> None:
    """To every version that is newer than the one it began with, one after the other."""
    first = str(grid.place.get("valkeycluster", "grid")["spec"]["image"]).rpartition(":")[2]
    for version in VERSIONS[VERSIONS.index(first) + 1 :]:
        await grid.patch({"image": image(version)})
        await asyncio.to_thread(grid.place.eventually, partial(grid.runs, version), 180)
        await grid.is_well()


async def an_upgrade_and_a_shard_more(grid: Grid) -> None:
    """At once: slots go from servers of the old version to one of the new."""
    await grid.patch({"image": image(NEWEST), "shards": 4})
    await asyncio.to_thread(grid.place.eventually, partial(grid.runs, NEWEST), 180)
    await grid.is_well()


Work = Callable[[Grid], Awaitable[None]]
VERSIONS = ("8.0", "8.1", NEWEST)
PLANNED: list[tuple[Work, str]] = [
    *((work, NEWEST) for work in (a_switchover, a_pod_is_deleted, a_roll, scaling)),
    (an_upgrade, "8.1"),
]
# Only where there is time: key by key a scaling takes longer, and two upgrades twice as long as one.
LONGER: list[tuple[Work, str]] = [
    *(
        (work, NEWEST)
        for work in (
            fewer_replicas_and_more,
            a_roll_of_all_shards_at_once,
            other_resources,
            volumes_grow,
            a_suspension,
        )
    ),
    (scaling, "8.0"),
    (scaling, "8.1"),
    (an_upgrade, "8.0"),
    (an_upgrade_and_a_shard_more, "8.1"),
]


def cases() -> Iterator[Any]:
    """Every work with every seed, which chooses what goes wrong in the middle."""
    for work, version in [*PLANNED, *(LONGER if HAS_TIME else [])]:
        for seed in SEEDS:
            yield pytest.param(work, version, seed, id=f"{titled(named(work, version), seed)}-{seed}")


def named(work: Work, version: str) -> str:
    name = getattr(work, "__name__", "work").replace("_", " ")
    return name if version == NEWEST else f"{name} from {version}"


@pytest.mark.parametrize(("work", "version", "seed"), [*cases()])
async def test_planned_work_on_a_cluster_loses_nothing(
    place: Place, faults: Faults, work: Work, version: str, seed: int, tmp_path: Path
) -> None:
    grid = Grid(place, faults, seed)
    await grid.make(version)
    recorder = Recorder(tmp_path / "history.jsonl")
    name = named(work, version)
    # Suspended it takes no writes, for as long as somebody wishes.
    demands = Demands(replicas=1, pause=None if work is a_suspension else longest_pause(seed))
    async with Workload(grid.target(), recorder, demands=demands, seed=seed) as load:
        await load.acknowledged(each=10)
        with load.during(name):
            async with grid.struck(Misfortune.of(seed)):
                await work(grid)
        await load.acknowledged(each=10, within=30)
        await grid.is_well()
    verdict = await load.judge()
    figures.note(f"cluster: {titled(name, seed)}", seed, verdict)
    print(verdict)
    assert verdict.clean, str(verdict)


@pytest.mark.skipif(not HAS_TIME, reason="with CHAOS_SEEDS only: one takes a minute")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("version", "shard"), [(NEWEST, 0), (NEWEST, 3), ("8.1", 0), ("8.0", 3)])
async def test_a_server_that_is_killed_while_its_slots_move_is_replaced_and_they_move_on(
    place: Place, faults: Faults, version: str, shard: int, seed: int, tmp_path: Path
) -> None:
    """A source (shard 0), or the target (shard 3). What a replica has confirmed is not lost."""
    grid = Grid(place, faults, seed)
    await grid.make(version)
    name = f"kill -9 of a {'target' if shard == 3 else 'source'} while slots move, {version}"
    async with Workload(grid.target(), Recorder(tmp_path / "history"), pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        with load.during(name):
            await grid.patch({"shards": 4})
            await asyncio.to_thread(place.eventually, grid.moves_slots, 60)
            await asyncio.sleep(grid.dice.uniform(0, 2))
            await asyncio.to_thread(faults.kill, f"{place.namespace}/{grid.primary(shard)}-0", "valkey")
            await grid.is_well(180)
        await load.acknowledged(each=5, within=30)
    verdict = await load.judge()
    figures.note(f"cluster: {name}", seed, verdict)
    print(verdict)
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)


def assert_bounded(grid: Grid, verdict: Verdict) -> None:
    """No write of the shard that failed over last is lost beyond what its status says."""
    last = grid.status()["lastFailover"]
    shard = grid.status()["shards"][last["shard"]]
    lost = [write for write in verdict.lost if is_in(shard["slots"], slot_of(write.element))]
    bound = last["lossBound"]
    assert bound.get("isUnknown") or not lost or verdict.seconds_lost(lost) <= bound["seconds"], str(verdict)


def is_in(ranges: str, slot: int) -> bool:
    ends = ([int(end) for end in part.split("-")] for part in ranges.split(","))
    return any(end[0] <= slot <= end[-1] for end in ends)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_primary_of_a_shard_is_replaced_at_once(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    grid = Grid(place, faults, seed)
    await grid.make()
    async with Workload(grid.target(), Recorder(tmp_path / "history"), pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        shard = grid.dice.randrange(3)
        before = grid.primary(shard)
        with load.during("kill -9 of a primary"):
            await asyncio.to_thread(faults.kill, f"{place.namespace}/{before}-0", "valkey")
            await load.acknowledged(each=5, within=30)
        await grid.is_well()
        await grid.becomes(lambda: "epoch" in grid.status()["lastFailover"], 20)
    verdict = await load.judge()
    figures.note("cluster: kill -9 of a primary", seed, verdict)
    print(verdict)
    last = grid.status()["lastFailover"]
    assert (last["shard"], last["from"], last["planned"], last["reason"]) == (
        shard,
        before,
        False,
        "ServerDied",
    )
    assert_bounded(grid, verdict)
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)

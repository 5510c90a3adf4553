"""Planned work on a Valkey of three under writes, in a real cluster: nothing acknowledged is lost, whatever is cut.

`CHAOS_SEEDS=12` runs each twelve times, with something else going wrong in the middle each time; with 18 it is done on
all versions of Valkey. A seed replays.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.deployed import Deployed, Misfortune, longest_pause, titled
from tests.chaos.history import Demands, Recorder
from tests.chaos.targets import PlainTarget
from tests.chaos.wire import Address
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place, by_name

SEEDS = range(int(os.environ.get("CHAOS_SEEDS", "1")))
PORT = 6379
NODES = ("cache-0", "cache-1", "cache-2")
SPEC: dict[str, Any] = {
    "image": "valkey-operator/valkey:9.1",
    "imagePullPolicy": "Never",
    "replicas": 3,
    "persistence": {"size": "64Mi", "storageClassName": "standard"},
}
MEMORY = {"requests": {"memory": "64Mi"}, "limits": {"memory": "256Mi"}}


class Instance(Deployed):
    """A Valkey called `cache`, and what can be done to it."""

    kind, name = "valkey", "cache"
    passing_wish: ClassVar[dict[str, Any]] = {"replicas": 2}

    async def make(self, **more: Any) -> None:
        self.place.apply("Valkey", "cache", {**SPEC, **more})
        await self.is_well(more.get("replicas", SPEC["replicas"]))

    async def is_well(self, replicas: int = 3, patience: float = 90) -> None:
        def claim() -> bool:
            found = self.place.get(self.kind, self.name)
            status = found.get("status", {})
            # While the API server restarts, what it says may be from before the wish.
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return is_seen and (status.get("state"), status.get("readyReplicas")) == ("Ready", replicas)

        await self.becomes(claim, patience)

    @property
    def primary(self) -> str:
        return str(self.status()["primary"])

    async def switch_over(self, to: str = "any") -> None:
        former, before = self.primary, self.status()["primaryEpoch"]
        if self._is_reversed:  # with any, the last wish could be the former one
            to = next(node for node in NODES if node != former)
        await self.ask_for_another(to, former)
        await asyncio.to_thread(self.place.eventually, lambda: self.status()["primaryEpoch"] > before)
        await self.is_well()

    def target(self) -> PlainTarget:
        address = self.place.get("service", "cache")["spec"]["clusterIP"]
        return PlainTarget(Address(address, PORT), replicas=self.replicas)

    def replicas(self) -> list[Address]:
        found = json.loads(
            self.place.kubectl("get", "pods", "--selector=valkey.io/role=replica", "--output=json")
        )
        return [Address(each["status"]["podIP"], PORT) for each in found["items"]]


async def switchover(instance: Instance) -> None:
    await instance.switch_over()


async def a_pod_is_deleted(instance: Instance) -> None:
    """The primary's, with its usual grace."""
    before = instance.primary
    async with instance.beside():
        await asyncio.to_thread(instance.place.kubectl, "delete", "pod", f"{before}-0")
        await instance.becomes(lambda: instance.primary != before, 90)
    await instance.is_well()


async def a_roll(instance: Instance) -> None:
    await instance.patch({"config": {"databases": str(instance.dice.randint(20, 60))}})
    await asyncio.sleep(3)
    await instance.is_well()


async def an_upgrade(instance: Instance) -> None:
    await instance.patch({"image": "valkey-operator/valkey:9.1"})
    await asyncio.sleep(3)
    await instance.is_well()
    pods = json.loads(instance.place.kubectl("get", "pods", "--output=json"))["items"]
    images = [by_name(each["spec"]["containers"])["valkey"]["image"] for each in pods]
    assert images == ["valkey-operator/valkey:9.1"] * 3, instance.status()


async def scaling(instance: Instance) -> None:
    await instance.patch({"replicas": 1})
    await instance.is_well(1)
    await instance.patch({"replicas": 3})
    await instance.is_well(3)


async def a_volume_grows(instance: Instance) -> None:
    await instance.grow("96Mi")
    await instance.is_well()


async def other_resources(instance: Instance) -> None:
    await instance.patch({"resources": MEMORY})
    await instance.becomes(lambda: instance.memory_limits() == {"256Mi"}, 120)
    await asyncio.sleep(3)
    await instance.is_well()


@dataclass(frozen=True)
class Work:
    do: Callable[[Instance], Awaitable[None]]
    versions: tuple[str, ...] = ("9.1", "8.1", "8.0")

    def image(self, seed: int) -> str:
        """Six seeds for each version: with each something else goes wrong."""
        return f"valkey-operator/valkey:{self.versions[seed // len(Misfortune) % len(self.versions)]}"

    def __str__(self) -> str:
        return getattr(self.do, "__name__", "work").replace("_", " ")


PLANNED = [
    Work(switchover),
    Work(a_pod_is_deleted),
    Work(a_roll),
    Work(an_upgrade, versions=("8.1", "8.0")),
    Work(scaling),
    Work(other_resources),
    Work(a_volume_grows),
]


def cases() -> Iterator[Any]:
    """Every work with every seed, which chooses what goes wrong in the middle."""
    for work in PLANNED:
        is_worth_two = len(SEEDS) == 1 and work.do in (switchover, a_roll)
        for seed in (0, 1) if is_worth_two else SEEDS:
            yield pytest.param(work, seed, id=f"{titled(work, seed)}-{seed}")


@pytest.mark.parametrize(("work", "seed"), [*cases()])
async def test_planned_work_loses_nothing(
    place: Place, faults: Faults, work: Work, seed: int, tmp_path: Path
) -> None:
    instance = Instance(place, faults, seed)
    await instance.make(image=work.image(seed))
    recorder = Recorder(tmp_path / "history.jsonl")
    demands = Demands(replicas=2, pause=longest_pause(seed))
    async with Workload(instance.target(), recorder, demands=demands, pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        with load.during(str(work)):
            async with instance.struck(Misfortune.of(seed)):
                await work.do(instance)
        await load.acknowledged(each=10, within=30)
        await instance.is_well()
    verdict = await load.judge()
    figures.note(titled(work, seed), seed, verdict)
    print(verdict)
    assert verdict.clean, str(verdict)

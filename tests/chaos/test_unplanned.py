"""What nobody planned, on a Valkey of three under writes: it comes back by itself, and says what may be lost."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import EmbeddedCluster
from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.history import Recorder
from tests.chaos.test_replicated import NODES, SEEDS, SPEC, Instance
from tests.chaos.verdict import Verdict
from tests.chaos.workload import Workload
from tests.e2e.conftest import PLACE, Place

ALWAYS = {**SPEC["persistence"], "aof": {"enabled": True, "fsync": "always"}}
# For how long nobody looks after the servers, in seconds.
AWAY = float(os.environ.get("OPERATOR_AWAY", "10"))


def kill(instance: Instance, node: str) -> None:
    instance.faults.kill(f"{instance.place.namespace}/{node}-0", "valkey")


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_primary_is_replaced_at_once(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    instance = Instance(place, faults, seed)
    await instance.make()
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        before, epoch = instance.primary, instance.status()["primaryEpoch"]
        with load.during("kill -9 of the primary"):
            await asyncio.to_thread(kill, instance, before)
            await load.acknowledged(each=5, within=30)
        await instance.is_well()
    verdict = await load.judge()
    figures.note("kill -9 of the primary", seed, verdict)
    print(f"writes again after {verdict.longest_pause:.2f} s\n{verdict}")
    last = instance.status()["lastFailover"]
    assert (last["from"], last["planned"], last["reason"], last["epoch"]) == (
        before, False, "ServerDied", epoch + 1,
    )  # fmt: skip
    assert instance.primary == last["to"] != before
    # Replication is asynchronous: what was lost is bounded by what the status says, or it says that nobody knows.
    assert is_bounded(verdict, last["lossBound"])
    assert not verdict.lost_after_wait, str(verdict)


async def by_kill(instance: Instance) -> None:
    await asyncio.gather(*(asyncio.to_thread(kill, instance, node) for node in NODES))


async def by_force(instance: Instance) -> None:
    pods = (f"{node}-0" for node in NODES)
    await asyncio.to_thread(instance.place.kubectl, "delete", "pod", *pods, "--force", "--grace-period=0")


@pytest.mark.parametrize("end", [by_kill, by_force])
async def test_all_that_end_at_once_come_back_with_every_synced_write(
    place: Place, faults: Faults, end: Callable[[Instance], Awaitable[None]], tmp_path: Path
) -> None:
    """Deleted ones come back at other addresses. A primary that lacked a write would have it lost."""
    instance = Instance(place, faults, 0)
    await instance.make(persistence=ALWAYS)
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02, heal_within=60) as load:
        await load.acknowledged(each=10)
        with load.during("all pods end"):
            await end(instance)
            await load.acknowledged(each=5, within=90)
        await instance.is_well()
    verdict = await load.judge()
    print(verdict)
    assert verdict.clean, str(verdict)


async def on_another_machine_than_the_leading_operator(instance: Instance) -> str:
    """The machine of the primary: where both are lost, the next operator must take over first."""
    taken = instance.leading_machine()
    machines = {node: instance.place.get("pod", f"{node}-0")["spec"]["nodeName"] for node in NODES}
    if machines[instance.primary] == taken:
        await instance.switch_over(next(node for node in NODES if machines[node] != taken))
    return str(machines[instance.primary])


def has_two_promotable(instance: Instance) -> bool:
    return len(instance.status().get("promotable") or ()) == 2


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_machine_that_is_lost_costs_seconds(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    instance = Instance(place, faults, seed)
    await instance.make()
    machine = await on_another_machine_than_the_leading_operator(instance)
    place.eventually(lambda: has_two_promotable(instance))
    before = instance.primary
    recorder = Recorder(tmp_path / "history")
    async with Workload(instance.target(), recorder, pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        await asyncio.sleep(instance.dice.uniform(0, 3))
        with load.during("a machine is lost"), await asyncio.to_thread(faults.stop_node, machine):
            await load.acknowledged(each=5, within=90)
        await instance.is_well(patience=180)
    verdict = await load.judge()
    last = instance.status()["lastFailover"]
    figures.note("a machine is lost", seed, verdict)
    print(f"writes again after {verdict.longest_pause:.1f} s; at most lost {last['lossBound']}\n{verdict}")
    assert (last["from"], last["reason"]) == (before, "Unreachable")
    assert is_bounded(verdict, last["lossBound"])
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)


def is_bounded(verdict: Verdict, bound: dict[str, Any]) -> bool:
    """No write that was lost is older than the bound says, if it says anything."""
    is_unknown: bool = bound.get("isUnknown", False)
    return is_unknown or not verdict.lost or verdict.seconds_lost(verdict.lost) <= bound["seconds"]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_primary_that_is_cut_off_stops_writing_before_another_begins(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    """With clients on both sides: one on the machine that is cut off, the others in the rest of the world."""
    instance = Instance(place, faults, seed)
    await instance.make()
    machine = await on_another_machine_than_the_leading_operator(instance)
    place.eventually(lambda: has_two_promotable(instance))
    before = instance.primary
    address = place.get("pod", f"{before}-0")["status"]["podIP"]
    near = (sys.executable, "-m", "tests.chaos.near_client", address, "35")
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        assert isinstance(place.cluster, EmbeddedCluster)
        there = asyncio.create_task(asyncio.to_thread(place.cluster.run_in, machine, *near))
        await asyncio.sleep(instance.dice.uniform(2, 5))
        with load.during("a cut network"), await asyncio.to_thread(faults.cut, machine):
            cut = time.monotonic()
            await asyncio.sleep(1)
            await load.acknowledged(each=1, within=60)
            began = time.monotonic()
            result = json.loads(await there)
        await instance.is_well(patience=120)
    verdict = await load.judge()
    stopped, last = max(result["acknowledged"]), instance.status()["lastFailover"]
    print(
        f"the old primary wrote on for {stopped - cut:.1f} s ({result['refused']}), "
        f"the new one began {began - cut:.1f} s after the cut; at most lost {last['lossBound']}\n{verdict}"
    )
    assert cut < stopped < began, "two primaries accepted writes at the same time"
    assert "NOREPLICAS" in result["refused"]
    assert (last["from"], last["reason"]) == (before, "Unreachable")
    assert stopped - cut <= last["lossBound"]["seconds"]
    assert not verdict.lost_after_wait, str(verdict)
    assert place.valkey(f"{before}-0", "ROLE").startswith("slave")


async def test_without_an_operator_nothing_that_a_replica_holds_is_rolled_back(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    operator = Place(place.cluster, PLACE)
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        operator.kubectl("scale", "deployment/valkey-operator", "--replicas=0")
        operator.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=60s")
        try:
            ends = time.monotonic() + AWAY
            while time.monotonic() < ends:  # all replicas say that they follow: writes go on
                await load.acknowledged(each=10)
                await asyncio.sleep(1)
            await load.acknowledged(each=10)
            await asyncio.to_thread(kill, instance, instance.primary)
            await asyncio.sleep(5)
        finally:
            operator.kubectl("scale", "deployment/valkey-operator", "--replicas=2")
        await load.acknowledged(each=10, within=90)
        await instance.is_well()
    verdict = await load.judge()
    print(verdict)
    assert not verdict.lost_after_wait, str(verdict)


async def test_suspended_and_back_with_the_same_data(place: Place, faults: Faults) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    primary = f"{instance.primary}-0"
    for number in range(20):
        assert place.valkey(primary, "SET", f"k{number}", str(number)) == "OK"
    await instance.patch({"replicas": 0})
    is_suspended: Callable[[], bool] = lambda: instance.status().get("state") == "Suspended"  # noqa: E731
    await asyncio.to_thread(place.eventually, is_suspended, 60)
    assert place.kubectl("get", "pods", "--output=name") == ""
    assert len(place.kubectl("get", "persistentvolumeclaims", "--output=name").split()) == 3
    await instance.patch({"replicas": 3})
    await instance.is_well()
    assert place.valkey(f"{instance.primary}-0", "DBSIZE") == "20"


async def test_a_wrong_image_stops_the_roll_and_going_back_heals_it(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        with load.during("a wrong image"):
            await instance.patch({"image": "valkey-operator/valkey:no-such"})
            await asyncio.to_thread(
                place.eventually, lambda: "waits: ErrImage" in instance.status()["message"], 60
            )
            assert instance.status()["readyReplicas"] == 2
            await load.acknowledged(each=10)
            await instance.patch({"image": SPEC["image"]})
            await instance.is_well()
    verdict = await load.judge()
    assert verdict.clean, str(verdict)

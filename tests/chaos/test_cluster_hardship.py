"""What befalls one shard of a ValkeyCluster and leaves the others as they are; and an operator that sees half of it.

`HARDSHIP_SECONDS=60` (`make chaos`) is for how long a server hangs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from devcluster.cluster import EmbeddedCluster
from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.slots import SLOTS, slot_of, spread_tags
from tests.chaos.test_cluster import NEWEST, SPEC, Grid, assert_bounded, image, is_in
from tests.chaos.test_cluster_healing import PODS, SEEDS, until, workload
from tests.chaos.test_hardship import SECONDS
from tests.e2e.conftest import Place, by_name


def roles(grid: Grid) -> dict[str, str]:
    """What each server says it is."""
    return {pod.removesuffix("-0"): grid.place.valkey(pod, "ROLE").split()[0] for pod in PODS}


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_primary_of_a_shard_that_hangs_is_replaced_and_returns_as_a_replica(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    grid = Grid(place, faults, seed)
    await grid.make()
    async with workload(grid, tmp_path, seed) as load:
        await load.acknowledged(each=10)
        shard = grid.dice.randrange(3)
        before = grid.primary(shard)
        begun = time.monotonic()
        with (
            load.during("SIGSTOP of a primary"),
            await asyncio.to_thread(faults.pause, f"{place.namespace}/{before}-0", "valkey"),
        ):
            await load.acknowledged(each=5, within=SECONDS + 30)
            took = time.monotonic() - begun
            await asyncio.sleep(max(0.0, SECONDS - took))
        await until(grid, lambda _: grid.primary(shard) != before)
        await grid.is_well()
    verdict = await load.judge()
    figures.note("cluster: SIGSTOP of a primary", seed, verdict)
    print(f"writes again after {took:.1f} s\n{grid.status()['lastFailover']}\n{verdict}")
    assert roles(grid)[before] == "slave"
    assert_bounded(grid, verdict)
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)


async def test_a_full_volume_of_a_shard_is_named_and_heals_by_growing_without_a_failover(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    grid = Grid(place, faults, 0)
    await grid.make(persistence={**SPEC["persistence"], "aof": {"enabled": True}})
    primary = grid.primary(1)
    claim, before = f"{primary}-data", started(place)
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        with (
            load.during("a full volume"),
            await asyncio.to_thread(faults.fill, f"{place.namespace}/{claim}"),
        ):
            status = await until(grid, lambda status: status["reason"] == "DiskFull", 60)
            assert status["state"] == "Degraded"
            status = await until(grid, lambda status: f"{primary}: its volume {claim}" in status["message"])
            assert "grow spec.persistence.size" in status["message"]
            # A change among the others, which it cannot write down, does not end it.
            other = next(pod for pod in PODS if pod.startswith("grid-0-") and pod != f"{grid.primary(0)}-0")
            assert place.valkey(other, "CLUSTER", "FAILOVER") == "OK"
            await asyncio.sleep(3)  # nobody is made primary for that
            await grid.patch({"persistence": {"size": "128Mi"}})
            await load.acknowledged(each=10, within=60)
            await grid.is_well()
    verdict = await load.judge()
    print(status["message"], verdict, sep="\n")
    assert (roles(grid)[primary], started(place)) == ("master", before)
    assert verdict.clean, str(verdict)


def started(place: Place) -> dict[str, int]:
    """How often each server was."""
    said = {pod: by_name(place.get("pod", pod)["status"]["containerStatuses"]) for pod in PODS}
    return {pod: containers["valkey"]["restartCount"] for pod, containers in said.items()}


class Hopeless(NamedTuple):
    """A wish with which no server comes up, the way back, and what is said meanwhile."""

    wish: dict[str, Any]
    way_back: dict[str, Any]
    why: str


HOPELESS = (
    Hopeless({"image": image("no-such")}, {"image": image(NEWEST)}, "waits: ErrImage"),
    Hopeless(
        {"config": {"loadmodule": "/no/such/module.so"}},
        {"config": None},
        "Can't load module from /no/such/module.so",
    ),
)


def uids(place: Place) -> dict[str, str]:
    return {pod: place.get("pod", pod)["metadata"]["uid"] for pod in PODS}


async def stops_at_the_first(grid: Grid, hopeless: Hopeless) -> str:
    """The pod that does not come up."""
    before = uids(grid.place)
    await grid.patch(hopeless.wish)
    status = await until(grid, lambda status: hopeless.why in status["message"], 90)
    print(status["message"])
    await asyncio.sleep(5)  # nobody else is restarted
    [first] = [pod for pod, uid in uids(grid.place).items() if uid != before[pod]]
    assert f"{first.removesuffix('-0')}: " in status["message"]
    assert status["state"] != "Ready"
    assert grid.status()["slotsAssigned"] == SLOTS
    return first


def write_and_read_in_every_shard(grid: Grid) -> None:
    pod = f"{grid.primary(0)}-0"
    for tag in spread_tags(3):
        assert grid.place.valkey(pod, "-c", "SET", tag, "here").endswith("OK")
        assert grid.place.valkey(pod, "-c", "GET", tag).endswith("here")


async def test_a_wish_with_which_no_pod_comes_up_stops_the_roll_at_the_first_and_going_back_heals_it(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    grid = Grid(place, faults, 0)
    await grid.make()
    before, hit = uids(place), set()
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        for hopeless in HOPELESS:
            with load.during(hopeless.why):
                hit.add(await stops_at_the_first(grid, hopeless))
                await asyncio.to_thread(write_and_read_in_every_shard, grid)
                await load.acknowledged(each=10)
                await grid.patch(hopeless.way_back)
                await grid.is_well()
    verdict = await load.judge()
    print(verdict)
    assert {pod for pod, uid in uids(place).items() if uid != before[pod]} == hit
    assert verdict.clean, str(verdict)


def pod_networks(place: Place) -> dict[str, str]:
    """By machine, as the addresses of its pods tell."""
    pods = json.loads(place.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    placed = (
        (each["spec"]["nodeName"], each["status"]["podIP"]) for each in pods if "podIP" in each["status"]
    )
    return {machine: f"{address.rpartition('.')[0]}.0/24" for machine, address in placed}


def machines_of(place: Place) -> dict[str, str]:
    """By node."""
    return {pod.removesuffix("-0"): place.get("pod", pod)["spec"]["nodeName"] for pod in PODS}


async def leave_one_primary_there(grid: Grid, machines: dict[str, str], machine: str) -> None:
    """First primaries are on different machines where that can be; here it must be."""
    there = [shard for shard in range(3) if machines[grid.primary(shard)] == machine]
    for shard in there[1:]:
        elsewhere = (name for name, its in machines.items() if its != machine)
        await grid.switch_over(shard, next(name for name in elsewhere if name.startswith(f"grid-{shard}-")))


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_operator_that_sees_only_a_minority_takes_nothing_over(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    """Its machine reaches the API server, and no other machine; the servers on those see each other, and elect."""
    grid = Grid(place, faults, seed)
    await grid.make()
    machine, machines = grid.leading_machine(), machines_of(place)
    networks = pod_networks(place)
    await leave_one_primary_there(grid, machines, machine)
    before = {shard: grid.primary(shard) for shard in range(3)}
    beyond = [shard for shard in range(3) if machines[before[shard]] != machine]
    cut_off = [shard for shard in range(3) if machines[before[shard]] == machine]
    async with workload(grid, tmp_path, seed) as load:
        await load.acknowledged(each=10)
        with load.during("a partition"), ExitStack() as cuts:
            for other in networks.keys() - {machine}:
                for peer in (other, networks[other]):
                    cuts.enter_context(await asyncio.to_thread(faults.cut, machine, peer=peer))
            await asyncio.sleep(20)
            now = {shard: grid.primary(shard) for shard in range(3)}
            said = {shard: place.valkey(f"{before[shard]}-0", "ROLE").split()[0] for shard in beyond}
        await load.acknowledged(each=5, within=60)
        await grid.is_well()
    verdict = await load.judge()
    figures.note("cluster: the operator in a minority", seed, verdict)
    print(f"{machine} was cut off with the primaries of {cut_off}; {now}\n{verdict}")
    assert said == dict.fromkeys(beyond, "master"), "somebody beyond the cut was replaced"
    assert {shard: grid.primary(shard) for shard in beyond} == {shard: before[shard] for shard in beyond}
    assert list(roles(grid).values()).count("master") == 3
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)


# A server that hears nothing asks after half of the node timeout, and gives up a whole one later; a second for us.
LONGEST_ALONE = 1.5 * 5 + 1


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_primary_of_a_shard_that_is_cut_off_stops_writing_after_the_node_timeout(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    """With clients on both sides: one on the machine that is cut off; the others, and the operator, in the rest of the
    world."""
    grid = Grid(place, faults, seed)
    await grid.make()
    leading, machines = grid.leading_machine(), machines_of(place)
    shard = next(shard for shard in range(3) if machines[grid.primary(shard)] != leading)
    before = grid.primary(shard)
    await leave_one_primary_there(grid, machines, machines[before])
    address = place.get("pod", f"{before}-0")["status"]["podIP"]
    slots = grid.status()["shards"][shard]["slots"]
    tag = next(tag for tag in spread_tags(6) if is_in(slots, slot_of(tag)))
    near = (sys.executable, "-m", "tests.chaos.near_client", address, "20", tag)
    async with workload(grid, tmp_path, seed) as load:
        await load.acknowledged(each=10)
        assert isinstance(place.cluster, EmbeddedCluster)
        there = asyncio.create_task(asyncio.to_thread(place.cluster.run_in, machines[before], *near))
        await asyncio.sleep(grid.dice.uniform(2, 5))
        with load.during("a cut network"), await asyncio.to_thread(faults.cut, machines[before]):
            cut = time.monotonic()
            await asyncio.sleep(1)
            await load.acknowledged(each=1, within=30)
            began = time.monotonic()
            result = json.loads(await there)
        await load.acknowledged(each=5, within=60)
        await until(grid, lambda _: grid.has_replaced(shard, before))
        await grid.is_well()
    verdict = await load.judge()
    stopped, last = max(result["acknowledged"]), grid.status()["lastFailover"]
    figures.note("cluster: a primary is cut off", seed, verdict)
    print(
        f"the old primary wrote on for {stopped - cut:.1f} s ({result['refused']}), "
        f"the new one began {began - cut:.1f} s after the cut; {last}\n{verdict}"
    )
    assert cut < stopped < cut + LONGEST_ALONE, "it accepted writes beyond the node timeout"
    assert "CLUSTERDOWN" in result["refused"]
    assert (last["shard"], last["from"], last["planned"]) == (shard, before, False)
    assert_bounded(grid, verdict)
    # Only it may have lost writes, and none of which a replica has said that it has it.
    assert {write.node for write in verdict.lost} <= {f"{address}:6379"}
    assert not verdict.lost_after_wait, str(verdict)
    kept = place.valkey(f"{grid.primary(shard)}-0", "--scan", "--pattern", f"{{{tag}}}:*").split()
    assert result["confirmed"]
    assert set(result["confirmed"]) <= set(kept)
    assert not verdict.phantoms, str(verdict)
    assert roles(grid)[before] == "slave"

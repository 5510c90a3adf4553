"""A ValkeyCluster of three shards of two after the worst: lost quorum, lost volumes, all pods gone, no operator."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from devcluster.command import CommandFailed
from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.history import Recorder
from tests.chaos.slots import slot_of
from tests.chaos.test_cluster import NEWEST, SPEC, Grid, assert_bounded, image, is_in
from tests.chaos.workload import Workload
from tests.e2e.conftest import PLACE, Place

SEEDS = range(int(os.environ.get("CHAOS_SEEDS", "1")))
ALWAYS = {**SPEC["persistence"], "aof": {"enabled": True, "fsync": "always"}}
PODS = [f"grid-{shard}-{index}-0" for shard in range(3) for index in range(2)]
UNPROVEN = "a_primary_is_replaced_without_a_vote_only_when_it_is_proven_dead"
LOST = "lost_slots_are_not_refilled"
FENCED = "node.kubernetes.io/out-of-service"


def workload(grid: Grid, folder: Path, seed: int = 0) -> Workload:
    return Workload(grid.target(), Recorder(folder / "history"), pace=0.02, seed=seed, heal_within=60)


async def kill(grid: Grid, *nodes: str) -> None:
    pods = [f"{grid.place.namespace}/{node}-0" for node in nodes]
    await asyncio.gather(*(asyncio.to_thread(grid.faults.kill, pod, "valkey") for pod in pods))


async def kubectl(grid: Grid, *words: str) -> str:
    return await asyncio.to_thread(grid.place.kubectl, *words)


async def until(grid: Grid, claim: Callable[[dict[str, Any]], bool], patience: float = 30) -> dict[str, Any]:
    try:
        await asyncio.to_thread(grid.place.eventually, lambda: claim(grid.status()), patience)
    except AssertionError as late:
        raise AssertionError(f"{late}: {json.dumps(grid.status(), indent=1)}") from None
    return grid.status()


def guards(status: dict[str, Any]) -> set[str]:
    return {each["refusedBy"] for each in status.get("next", []) if "refusedBy" in each}


async def annotate(grid: Grid, words: str) -> None:
    await kubectl(grid, "annotate", "--overwrite", "valkeycluster", "grid", words)


@pytest.mark.parametrize("seed", SEEDS)
async def test_two_of_three_primaries_that_die_at_once_are_replaced_without_a_vote(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    grid = Grid(place, faults, seed)
    await grid.make()
    async with workload(grid, tmp_path, seed) as load:
        await load.acknowledged(each=10)
        dying = [grid.primary(shard) for shard in grid.dice.sample(range(3), 2)]
        with load.during("kill -9 of two primaries"):
            await kill(grid, *dying)
            await load.acknowledged(each=5, within=30)
        await grid.is_well()
    verdict = await load.judge()
    figures.note("cluster: kill -9 of two primaries", seed, verdict)
    print(f"writes again after {verdict.longest_pause:.1f} s\n{verdict}")
    assert not {grid.primary(shard) for shard in range(3)} & set(dying)
    assert_bounded(grid, verdict)
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)


async def primaries_on_one_machine(grid: Grid) -> tuple[str, list[int]]:
    """A machine without the leading operator, with the primaries of two shards."""
    taken = grid.leading_machine()
    machines: dict[str, dict[int, str]] = {}
    for pod in PODS:
        machine = grid.place.get("pod", pod)["spec"]["nodeName"]
        machines.setdefault(machine, {})[int(pod.split("-")[1])] = pod
    machine = max((name for name in machines if name != taken), key=lambda name: len(machines[name]))
    pods = dict(sorted(machines[machine].items())[:2])
    for shard, pod in pods.items():
        if f"{grid.primary(shard)}-0" != pod:
            assert grid.place.valkey(pod, "CLUSTER", "FAILOVER") == "OK"
    wanted = {shard: pod.removesuffix("-0") for shard, pod in pods.items()}
    await until(grid, lambda _: all(grid.primary(shard) == node for shard, node in wanted.items()))
    return machine, sorted(wanted)


@contextmanager
def fenced(grid: Grid, machine: str) -> Iterator[None]:
    """As a person does who has made sure that it is off."""
    cluster = Place(grid.place.cluster, PLACE)
    cluster.kubectl("taint", "node", machine, f"{FENCED}=nodeshutdown:NoExecute")
    try:
        yield
    finally:
        cluster.kubectl("taint", "node", machine, f"{FENCED}-")


@pytest.mark.parametrize("way", ["fenced", "allowed"][: len(SEEDS)])
async def test_a_lost_machine_with_two_primaries_is_no_proof_until_somebody_says_so(
    place: Place, faults: Faults, way: str, tmp_path: Path
) -> None:
    grid = Grid(place, faults, 0)
    # After the loss some of its pods get addresses that were those of the other's.
    place.apply("ValkeyCluster", "other", {**SPEC, "image": image(NEWEST), "persistence": {"enabled": False}})
    await grid.make()
    machine, shards = await primaries_on_one_machine(grid)
    await grid.is_well()
    before = [grid.primary(shard) for shard in shards]
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        with load.during("a lost quorum"), await asyncio.to_thread(faults.stop_node, machine):
            status = await until(grid, lambda status: UNPROVEN in guards(status))
            print(status["message"])
            await asyncio.sleep(6)  # longer than the node timeout
            assert [grid.primary(shard) for shard in shards] == before
            numbers = ",".join(map(str, shards))
            assert f"valkey.io/allow-takeover: {numbers} be set" in grid.status()["message"]
            assert machine in grid.status()["message"]
            begun = time.monotonic()
            if way == "fenced":
                with fenced(grid, machine):
                    await load.acknowledged(each=5, within=30)
            else:
                await annotate(grid, f"valkey.io/allow-takeover={numbers}")
                await load.acknowledged(each=5, within=30)
            print(f"writes again {time.monotonic() - begun:.1f} s after it was {way}")
        await grid.is_well(patience=60)
    for pod in json.loads(await kubectl(grid, "get", "pods", "--output=json"))["items"]:
        name = pod["metadata"]["name"]
        known = place.valkey(name, "CLUSTER", "NODES").splitlines()
        assert all(f",{name.partition('-')[0]}-" in line for line in known), (
            f"{name} knows strangers: {known}"
        )
    verdict = await load.judge()
    print(grid.status()["lastFailover"], verdict)
    assert_bounded(grid, verdict)
    assert not verdict.lost_after_wait, str(verdict)
    if way == "allowed":
        assert grid.status()["allowancesUsed"] == {"takeover": shards}


async def drop_volumes(grid: Grid, *nodes: str) -> None:
    """The pods go at once, and nothing of them is left."""
    await kubectl(grid, "delete", "pvc", *(f"{node}-data" for node in nodes), "--wait=false")
    pods = [f"{node}-0" for node in nodes]
    await kubectl(grid, "delete", "pod", *pods, "--force", "--grace-period=0")


async def test_a_shard_whose_volumes_are_gone_is_served_again_only_when_a_person_says_so(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    grid = Grid(place, faults, 0)
    await grid.make()
    slots = grid.status()["shards"][1]["slots"]
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        with load.during("the volumes of a shard are gone"):
            await drop_volumes(grid, "grid-1-0", "grid-1-1")
            status = await until(grid, lambda status: LOST in guards(status), 60)
            print(status["message"])
            assert f"the data of shard 1, slots {slots}, is lost" in status["message"]
            assert "valkey.io/allow-data-loss: 1" in status["message"]
            assert (status["state"], status["reason"]) == ("Degraded", "SlotsWithoutPrimary")
            assert (status["readyShards"], status["slotsUnassigned"]) == (2, 5461)
            other = grid.place.valkey(f"{grid.primary(0)}-0", "-c", "SET", "a{06S}", "v")
            assert other.endswith("OK"), "the other shards do not serve"
            assert grid.status()["shards"][1].get("slots", "") == ""
            await annotate(grid, "valkey.io/allow-data-loss=1")
            await load.acknowledged(each=5, within=30)
        await grid.is_well()
    verdict = await load.judge()
    print(verdict)
    assert grid.status()["allowancesUsed"] == {"dataLoss": [1]}
    assert verdict.lost, "nothing was lost with a shard's volumes"
    assert all(is_in(slots, slot_of(write.element)) for write in verdict.lost), str(verdict)
    await annotate(grid, "valkey.io/allow-data-loss-")
    await until(grid, lambda status: "allowancesUsed" not in status)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_primary_that_comes_back_with_an_empty_volume_follows_its_replica(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    grid = Grid(place, faults, seed)
    await grid.make()
    async with workload(grid, tmp_path, seed) as load:
        await load.acknowledged(each=10)
        shard = grid.dice.randrange(3)
        before = grid.primary(shard)
        old = place.valkey(f"{before}-0", "CLUSTER", "MYID")
        with load.during("a primary's volume is gone"):
            # Its sidecar says nothing any more, and hands nothing over.
            await asyncio.to_thread(faults.pause, f"{place.namespace}/{before}-0", "sidecar")
            await drop_volumes(grid, before)
            await load.acknowledged(each=5, within=40)
        await until(grid, lambda status: status["shards"][shard].get("primary", before) != before)
        await grid.is_well()
    verdict = await load.judge()
    figures.note("cluster: a primary's volume is gone", seed, verdict)
    print(f"writes again after {verdict.longest_pause:.1f} s\n{verdict}")
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.diverged, str(verdict)
    for pod in PODS:
        known = place.valkey(pod, "CLUSTER", "NODES")
        assert (old in known, len(known.splitlines())) == (False, 6)


async def with_grace(grid: Grid) -> None:
    await kubectl(grid, "delete", "pod", *PODS, "--wait=false")


async def by_force(grid: Grid) -> None:
    await kubectl(grid, "delete", "pod", *PODS, "--force", "--grace-period=0")


async def by_kill(grid: Grid) -> None:
    await kill(grid, *(pod.removesuffix("-0") for pod in PODS))


Ending = Callable[[Grid], Awaitable[None]]
ENDINGS: dict[str, Ending] = {"grace": with_grace, "kill": by_kill, "force": by_force}
TRIED = list(ENDINGS)[: 1 + len(SEEDS)]


@pytest.mark.parametrize("ending", TRIED)
async def test_all_pods_end_at_once_and_every_synced_write_is_back(
    place: Place, faults: Faults, ending: str, tmp_path: Path
) -> None:
    """Deleted ones come back at other addresses."""
    grid = Grid(place, faults, 0)
    await grid.make(persistence=ALWAYS)
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        with load.during("all pods end"):
            await ENDINGS[ending](grid)
            await load.acknowledged(each=5, within=90)
        await grid.is_well()
    verdict = await load.judge()
    print(verdict)
    assert verdict.clean, str(verdict)


async def test_all_servers_are_killed_at_once_with_snapshots_only(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    """What was not in a snapshot is lost, and it serves again by itself."""
    grid = Grid(place, faults, 0)
    await grid.make()
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        await by_kill(grid)
        await load.acknowledged(each=5, within=60)
        await grid.is_well()
    verdict = await load.judge()
    print(verdict)
    assert not verdict.diverged, str(verdict)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_cluster_whose_operator_dies_while_it_is_formed_is_whole_in_the_end(
    place: Place, faults: Faults, seed: int
) -> None:
    grid = Grid(place, faults, seed)
    grid.apply()
    killed = await grid.kill_an_operator()
    await asyncio.to_thread(place.eventually, lambda: grid.leading_operator() not in ("", killed))
    await grid.kill_an_operator()
    await grid.is_well()
    assert [shard["slots"] for shard in grid.status()["shards"]] == ["0-5461", "5462-10922", "10923-16383"]


class SeenServer(NamedTuple):
    """What changes when a pod is replaced, a container started again, a server restarted or its role taken."""

    pod: str
    restarts: tuple[int, ...]
    run: str
    role: str


def seen_servers(place: Place) -> dict[str, SeenServer]:
    """By pod."""
    pods = json.loads(place.kubectl("get", "pods", "--output=json"))["items"]
    return {pod["metadata"]["name"]: seen_server(place, pod) for pod in pods}


def seen_server(place: Place, pod: dict[str, Any]) -> SeenServer:
    name, status = pod["metadata"]["name"], pod["status"]
    containers = status["containerStatuses"]
    facts = dict(
        line.split(":", 1) for line in place.valkey(name, "INFO", "server").splitlines() if ":" in line
    )
    role = place.valkey(name, "ROLE").split()[0]
    restarts = tuple(each["restartCount"] for each in containers)
    return SeenServer(pod["metadata"]["uid"], restarts, facts["run_id"].strip(), role)


def follows(place: Place, pod: str) -> bool:
    try:
        role = place.valkey(pod, "ROLE").split()
    except CommandFailed:
        return False  # its server has yet to start
    return role[:1] == ["slave"] and "connected" in role


async def test_without_an_operator_the_servers_elect_and_nothing_is_rolled_back(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    """And the operator, when it is back, only tidies."""
    grid = Grid(place, faults, 0)
    await grid.make()
    operator = Place(place.cluster, PLACE)
    async with workload(grid, tmp_path) as load:
        await load.acknowledged(each=10)
        before = grid.primary(1)
        operator.kubectl("scale", "deployment/valkey-operator", "--replicas=0")
        operator.kubectl("wait", "pods", "--all", "--for=delete", "--timeout=60s")
        try:
            with load.during("kill -9 without an operator"):
                await kill(grid, before)
                await load.acknowledged(each=5, within=40)
            await grid.becomes(lambda: follows(place, f"{before}-0"), 60)
            alone = await asyncio.to_thread(seen_servers, place)
        finally:
            operator.kubectl("scale", "deployment/valkey-operator", "--replicas=2")
        await until(grid, lambda _: grid.primary(1) != before)
        await grid.is_well()
        tidied = await asyncio.to_thread(seen_servers, place)
    verdict = await load.judge()
    print(f"writes again after {verdict.longest_pause:.1f} s\n{verdict}")
    assert sorted(tidied) == PODS
    assert tidied == alone, "the operator has restarted or moved something when it was back"
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)

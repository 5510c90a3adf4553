"""Every operation is taken back in its middle, under writes: it ends where the last wish says, and nothing is lost.

`CHAOS_SEEDS=10` (`make chaos`) takes them back at ten other moments; a seed replays.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from devcluster.command import CommandFailed
from devcluster.faults import Faults
from tests.chaos.history import Demands, Recorder
from tests.chaos.test_replicated import SEEDS, SPEC, Instance
from tests.chaos.test_unplanned import NODES
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

Change = Callable[[Instance], Awaitable[None]]
MEMORY = {"requests": {"memory": "64Mi"}, "limits": {"memory": "256Mi"}}
LESS = {"requests": {"memory": "64Mi"}, "limits": {"memory": "192Mi"}}


def servers_say(instance: Instance, *words: str) -> set[str]:
    """The last word of each; nothing while one of them is away."""
    try:
        return {instance.place.valkey(f"{node}-0", *words).split()[-1] for node in NODES}
    except CommandFailed:
        return set()


async def ends_well(instance: Instance) -> None:
    """When nothing is under way any more, and the operator has seen the last wish."""

    def claim() -> bool:
        found = instance.place.get("valkey", "cache")
        status = found["status"]
        is_seen = status["observedGeneration"] == found["metadata"]["generation"]
        nodes = json.loads(instance.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
        waiting = any(each.get("status", {}).get("needsRestart", True) for each in nodes)
        is_seen &= all(
            each["status"]["observedGeneration"] == each["metadata"]["generation"] for each in nodes
        )
        is_well = (status["state"], status["readyReplicas"], len(nodes)) == ("Ready", 3, 3)
        return is_seen and is_well and not waiting and "operation" not in status

    await asyncio.to_thread(instance.place.eventually, claim, 120)


async def ask_for(instance: Instance, primary: str) -> None:
    note = f"valkey.io/switchover={primary}/{instance.dice.getrandbits(64):x}"
    await asyncio.to_thread(instance.place.kubectl, "annotate", "--overwrite", "valkey", "cache", note)


async def a_switchover(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    before = instance.primary
    other = next(node for node in NODES if node != before)
    await ask_for(instance, other)
    await pause()
    await ask_for(instance, before)
    await asyncio.to_thread(
        instance.place.eventually,
        lambda: instance.status().get("lastSwitchover", {}).get("result") != "UnderWay",
    )
    await asyncio.to_thread(instance.place.eventually, lambda: instance.primary == before)


async def a_config(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    await instance.patch({"config": {"databases": "40"}})
    await pause()
    await instance.patch({"config": {"databases": "20"}})
    await asyncio.to_thread(
        instance.place.eventually, lambda: servers_say(instance, "CONFIG", "GET", "databases") == {"20"}, 90
    )


async def resources(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    await instance.patch({"resources": MEMORY})
    await pause()
    await instance.patch({"resources": LESS})
    await ends_well(instance)
    pods = [instance.place.get("pod", f"{node}-0") for node in NODES]
    limits = [each["spec"]["containers"][0]["resources"]["limits"]["memory"] for each in pods]
    assert set(limits) == {"192Mi"}


async def an_image(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    await instance.patch({"image": "valkey-operator/valkey:8.1"})
    await pause()
    await instance.patch({"image": "valkey-operator/valkey:8.0"})
    await ends_well(instance)
    assert {each[:3] for each in versions(instance)} == {"8.0"}


def versions(instance: Instance) -> set[str]:
    nodes = json.loads(instance.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
    return {each["status"]["valkeyVersion"] for each in nodes}


async def a_scaling(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    await instance.patch({"replicas": 1})
    await pause()
    await instance.patch({"replicas": 3})


async def a_suspension(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    await instance.patch({"replicas": 0})
    await pause()
    await instance.patch({"replicas": 3})


async def a_growth(instance: Instance, pause: Callable[[], Awaitable[None]]) -> None:
    """It cannot be taken back: the smaller size is refused with a sentence, and all goes on."""
    persistence: dict[str, Any] = SPEC["persistence"]
    await instance.patch({"persistence": {**persistence, "size": "96Mi"}})
    await pause()
    await instance.patch({"persistence": persistence})
    sentence = "the volume has 96Mi and cannot shrink to 64Mi"
    await asyncio.to_thread(instance.place.eventually, lambda: sentence in instance.status()["message"])
    await instance.patch({"persistence": {**persistence, "size": "96Mi"}})
    await asyncio.to_thread(instance.place.eventually, lambda: "shrink" not in instance.status()["message"])


TAKEN_BACK = (a_switchover, a_config, resources, an_image, a_scaling, a_suspension, a_growth)


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_taken_back_in_the_middle_ends_where_the_last_wish_says(
    place: Place, faults: Faults, seed: int, tmp_path: Path
) -> None:
    instance = Instance(place, faults, seed)
    await instance.make(image="valkey-operator/valkey:8.0")

    async def pause() -> None:
        await asyncio.sleep(instance.dice.uniform(0.1, 5))

    recorder, demands = Recorder(tmp_path / "history"), Demands(replicas=2)
    async with Workload(instance.target(), recorder, demands=demands, pace=0.02, seed=seed) as load:
        await load.acknowledged(each=10)
        for change in TAKEN_BACK:
            with load.during(change.__name__.replace("_", " ")):
                await change(instance, pause)
                await ends_well(instance)
            await load.acknowledged(each=10, within=30)
    verdict = await load.judge()
    print(verdict)
    assert verdict.clean, str(verdict)

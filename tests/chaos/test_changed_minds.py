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
from tests.chaos.test_replicated import MEMORY, NODES, SEEDS, Instance
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

Pause = Callable[[], Awaitable[None]]
LESS = {"requests": {"memory": "64Mi"}, "limits": {"memory": "192Mi"}}


def servers_say(instance: Instance, *words: str) -> set[str]:
    """The last word of each; nothing while one of them is away."""
    try:
        return {instance.place.valkey(f"{node}-0", *words).split()[-1] for node in NODES}
    except CommandFailed:
        return set()


def is_seen(item: dict[str, Any]) -> bool:
    """As it is asked for now; and nothing waits for a restart."""
    status = item.get("status", {})
    is_settled = not status.get("needsRestart", False)
    return is_settled and status.get("observedGeneration") == item["metadata"]["generation"]


async def ends_well(instance: Instance) -> None:
    """When nothing is under way any more, and the operator has seen the last wish."""

    def claim() -> bool:
        found = instance.place.get("valkey", "cache")
        nodes = json.loads(instance.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
        status = found["status"]
        is_well = (status["state"], status["readyReplicas"], len(nodes)) == ("Ready", 3, 3)
        return is_well and "operation" not in status and all(map(is_seen, [found, *nodes]))

    await asyncio.to_thread(instance.place.eventually, claim, 120)


async def a_switchover(instance: Instance, pause: Pause) -> None:
    before = instance.primary
    other = next(node for node in NODES if node != before)
    await instance.ask_for(other)
    await pause()
    await instance.ask_for(before)
    await asyncio.to_thread(
        instance.place.eventually,
        lambda: instance.status().get("lastSwitchover", {}).get("result") != "UnderWay",
    )
    await asyncio.to_thread(instance.place.eventually, lambda: instance.primary == before)


async def a_config(instance: Instance, pause: Pause) -> None:
    await instance.patch({"config": {"databases": "40"}})
    await pause()
    await instance.patch({"config": {"databases": "20"}})
    await asyncio.to_thread(
        instance.place.eventually, lambda: servers_say(instance, "CONFIG", "GET", "databases") == {"20"}, 90
    )


async def resources(instance: Instance, pause: Pause) -> None:
    await instance.patch({"resources": MEMORY})
    await pause()
    await instance.patch({"resources": LESS})
    await asyncio.to_thread(instance.place.eventually, lambda: instance.memory_limits() == {"192Mi"})


async def an_image(instance: Instance, pause: Pause) -> None:
    await instance.patch({"image": "valkey-operator/valkey:8.1"})
    await pause()
    await instance.patch({"image": "valkey-operator/valkey:8.0"})
    await ends_well(instance)
    assert {each[:3] for each in versions(instance)} == {"8.0"}


def versions(instance: Instance) -> set[str]:
    nodes = json.loads(instance.place.kubectl("get", "valkeynodes", "--output=json"))["items"]
    return {each["status"]["valkeyVersion"] for each in nodes}


async def a_scaling(instance: Instance, pause: Pause) -> None:
    await instance.patch({"replicas": 1})
    await pause()
    await instance.patch({"replicas": 3})


async def a_suspension(instance: Instance, pause: Pause) -> None:
    await instance.patch({"replicas": 0})
    await pause()
    await instance.patch({"replicas": 3})


async def a_growth(instance: Instance, pause: Pause) -> None:
    """It cannot be taken back: the smaller size is refused with a sentence, and it goes on."""
    await instance.patch({"persistence": {"size": "96Mi"}})
    await pause()
    with pytest.raises(CommandFailed, match="cannot shrink from 96Mi to 64Mi; volumes only grow"):
        await instance.patch({"persistence": {"size": "64Mi"}})


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

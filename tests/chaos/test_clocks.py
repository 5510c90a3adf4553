"""A server whose wall clock jumps, forward and back, while the others' do not.

Its machine was set by hand, or was stopped and went on: what it wrote is kept, and it is looked after as before.
Sidecars and the operator measure time by a clock that does not jump.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.history import Recorder
from tests.chaos.test_cluster import Grid
from tests.chaos.test_replicated import Instance
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

CLOCK = {"image": "valkey-operator/clock:9.1"}
# For so long a clock stays wrong: longer than servers and sidecars wait for each other.
WRONG = 12.0


def seconds(place: Place, pod: str) -> int:
    return int(place.valkey(pod, "TIME").split()[0])


async def is_off(place: Place, pod: str, other: str, by: int) -> None:
    def claim() -> bool:
        return abs(seconds(place, pod) - seconds(place, other) - by) < 60

    await asyncio.to_thread(place.eventually, claim)


async def set_clock(place: Place, pod: str, other: str, by: int) -> None:
    await asyncio.to_thread(
        place.kubectl, "exec", pod, "--container=valkey", "--", "sh", "-c", f"echo {by} >/data/clock"
    )
    await is_off(place, pod, other, by)


@pytest.mark.parametrize("whose", ["primary", pytest.param("replica", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [pytest.param(Instance, marks=pytest.mark.slow), Grid])
async def test_a_clock_that_jumps_loses_nothing_and_is_healed(
    place: Place, faults: Faults, kind: type[Instance | Grid], whose: str, tmp_path: Path
) -> None:
    deployed = kind(place, faults, 0)
    await deployed.make(**CLOCK)
    primary = deployed.primary(0) if isinstance(deployed, Grid) else deployed.primary
    nodes = [each["metadata"]["name"].removesuffix("-0") for each in deployed._pods()]
    same_shard = [
        name for name in nodes if name.rpartition("-")[0] == primary.rpartition("-")[0] and name != primary
    ]
    node, other = (primary, same_shard[0]) if whose == "primary" else (same_shard[0], primary)
    async with Workload(deployed.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        for hours in (1, -1):
            with load.during(f"the clock of a {whose} goes {hours:+d} h, and back"):
                await set_clock(place, f"{node}-0", f"{other}-0", hours * 3600)
                await asyncio.sleep(WRONG)
                await load.acknowledged(each=5, within=60)
                await set_clock(place, f"{node}-0", f"{other}-0", 0)
                await load.acknowledged(each=5, within=60)
                await deployed.is_well()
    verdict = await load.judge()
    figures.note(f"{deployed.kind}: the clock of a {whose} jumps", 0, verdict)
    print(deployed.status().get("lastFailover"), verdict, sep="\n")
    assert verdict.clean, str(verdict)

"""Somebody deletes what the operator has made, under writes: it is made again, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.history import Demands, Recorder
from tests.chaos.test_cluster import Grid
from tests.chaos.test_replicated import Instance
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

# Of a primary's node; its volume stays, as its claim is in use. With the first two its pod goes, too.
WITH_ITS_POD = ("valkeynode", "statefulset")
DELETED = [
    "valkeynode/{node}",
    *(
        pytest.param(each, marks=pytest.mark.slow)
        for each in ("statefulset/{node}", "service/{node}", "configmap/{node}-config")
    ),
]


def uid(place: Place, deleted: str) -> str:
    return place.kubectl("get", deleted, "--ignore-not-found", "--output=jsonpath={.metadata.uid}")


@pytest.mark.parametrize("what", DELETED)
@pytest.mark.parametrize("kind", [Instance, Grid])
async def test_what_was_deleted_by_hand_is_made_again_and_nothing_is_lost(
    place: Place, faults: Faults, kind: type[Instance] | type[Grid], what: str, tmp_path: Path
) -> None:
    deployed = kind(place, faults, 0)
    await deployed.make()
    primary = deployed.primary(1) if isinstance(deployed, Grid) else deployed.primary
    deleted = what.format(node=primary)
    made_again = [deleted, *([f"pod/{primary}-0"] if what.startswith(WITH_ITS_POD) else [])]
    before = {each: uid(place, each) for each in made_again}
    recorder, demands = Recorder(tmp_path / "history.jsonl"), Demands(replicas=1)
    async with Workload(deployed.target(), recorder, demands=demands, pace=0.02, heal_within=60) as load:
        await load.acknowledged(each=10)
        with load.during(f"{deleted} is deleted"):
            await asyncio.to_thread(place.kubectl, "delete", deleted, "--wait=false")
            await asyncio.to_thread(
                place.eventually,
                lambda: all(uid(place, each) not in ("", before[each]) for each in before),
                90,
            )
            # The status may be from a moment before.
            ready = ("wait", "--for=condition=Ready", f"pod/{primary}-0", "--timeout=60s")
            await asyncio.to_thread(place.kubectl, *ready)
            await deployed.is_well()
            await load.acknowledged(each=10, within=30)
        await deployed.is_well()
    verdict = await load.judge()
    figures.note(f"{deployed.kind}: {what} is deleted", 0, verdict)
    print(verdict)
    assert verdict.clean, str(verdict)
    # Its pod is stopped in good order, and hands over: a tenth of a second. Without that, ten seconds.
    assert verdict.longest_pause < 5, str(verdict)

"""Another version of the operator under writes, and back: sidecars become other ones, and no server is restarted.

`OTHER_VERSION=DIR` names a checkout of that other version; else it is the same code under another name.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.faults import Faults
from tests.chaos import figures
from tests.chaos.history import Demands, Recorder
from tests.chaos.test_cluster import Grid
from tests.chaos.test_replicated import Instance
from tests.chaos.workload import Workload
from tests.e2e.conftest import INSTALL, Place, by_name, charts_of
from tests.operator_image import load_as
from valkey_operator.render.marks import SIDECAR_BEFORE


@pytest.fixture
def next_version(operator: Cluster, tmp_path: Path) -> Iterator[str]:
    """Its tag; in the end the usual one is back."""
    other = os.environ.get("OTHER_VERSION")
    load_as(operator, "next", tmp_path, Path(other) if other else None)
    yield "next"
    charts_of(operator)(*INSTALL, "--take-ownership", "--reset-values", "--wait")


async def install(place: Place, tag: str) -> None:
    charts = charts_of(place.cluster)
    await asyncio.to_thread(charts, *INSTALL, f"--set=image.tag={tag}", "--wait", "--timeout=120s")


def servers(place: Place) -> dict[str, tuple[str, str]]:
    """By pod, what another start of the pod or of its server would change."""
    pods = json.loads(place.kubectl("get", "pods", "--output=json"))["items"]
    return {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            by_name(each["status"]["containerStatuses"])["valkey"]["containerID"],
        )
        for each in pods
    }


def sidecars_are(place: Place, tag: str) -> bool:
    """All of them are to be of this image, and run in another container than the one before."""
    pods = json.loads(place.kubectl("get", "pods", "--output=json"))["items"]
    return all(
        by_name(each["spec"]["containers"])["sidecar"]["image"].endswith(f":{tag}")
        and "running" in (now := by_name(each["status"]["containerStatuses"])["sidecar"])["state"]
        and now["containerID"] != each["metadata"]["annotations"][SIDECAR_BEFORE]
        for each in pods
    )


@pytest.mark.parametrize("kind", [pytest.param(Instance, marks=pytest.mark.slow), Grid])
async def test_another_version_of_the_operator_restarts_no_server(
    place: Place, faults: Faults, next_version: str, kind: type[Instance | Grid], tmp_path: Path
) -> None:
    deployed = kind(place, faults, 0)
    await deployed.make()
    before = servers(place)
    recorder, demands = Recorder(tmp_path / "history"), Demands(replicas=1)
    async with Workload(deployed.target(), recorder, demands=demands) as load:
        await load.acknowledged(each=10)
        for tag in (next_version, "dev"):
            with load.during(f"the operator becomes {tag}"):
                await install(place, tag)
                await asyncio.to_thread(place.eventually, partial(sidecars_are, place, tag), 120)
                await deployed.is_well()
    verdict = await load.judge()
    figures.note(f"{deployed.kind}: another operator, and back", 0, verdict)
    print(verdict)
    assert servers(place) == before
    assert verdict.clean, str(verdict)

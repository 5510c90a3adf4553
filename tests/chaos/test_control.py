"""The control: on bare pods, without any operator, the checker sees loss where there is loss.

Set CONTROL_RUNS=20 to have every unsafe change caught twenty times out of twenty.
"""

import os
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.chaos.history import Recorder
from tests.chaos.pods import pods
from tests.chaos.scenarios import CLEAN, CONTROLS, Scenario
from tests.chaos.verdict import Verdict

RUNS = range(int(os.environ.get("CONTROL_RUNS", "2")))


async def run(cluster: Cluster, scenario: Scenario, folder: Path, seed: int = 0) -> Verdict:
    async with pods(cluster, scenario.servers, scenario.options) as servers:
        return await scenario.run(servers, Recorder(folder / "history.jsonl"), seed)


@pytest.mark.parametrize("scenario", CLEAN, ids=str)
async def test_a_safe_change_is_clean(cluster: Cluster, scenario: Scenario, tmp_path: Path) -> None:
    verdict = await run(cluster, scenario, tmp_path)
    assert verdict.clean, str(verdict)


@pytest.mark.parametrize("seed", RUNS)
@pytest.mark.parametrize("scenario", CONTROLS, ids=str)
async def test_an_unsafe_change_is_caught(
    cluster: Cluster, scenario: Scenario, seed: int, tmp_path: Path
) -> None:
    verdict = await run(cluster, scenario, tmp_path, seed)
    assert verdict.lost, str(verdict)
    assert verdict.rollbacks, str(verdict)
    assert not verdict.clean

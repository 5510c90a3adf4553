"""The checker on local processes: the scenarios of the control without pods, if valkey-server is here."""

import os
from pathlib import Path

import pytest

from tests.chaos.history import Recorder
from tests.chaos.judge import judge
from tests.chaos.processes import processes, server_binary
from tests.chaos.scenarios import CLEAN, CONTROLS, Scenario
from tests.chaos.stored import read_history
from tests.chaos.verdict import Verdict

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no valkey-server on this machine")

RUNS = range(int(os.environ.get("CONTROL_RUNS", "1")))


async def run(scenario: Scenario, folder: Path, seed: int = 0) -> Verdict:
    async with processes(folder, scenario.servers, scenario.options) as servers:
        return await scenario.run(servers, Recorder(folder / "history.jsonl"), seed)


@pytest.mark.parametrize("scenario", CLEAN, ids=str)
async def test_a_safe_change_is_clean(scenario: Scenario, tmp_path: Path) -> None:
    verdict = await run(scenario, tmp_path)
    assert verdict.clean, str(verdict)


@pytest.mark.parametrize("seed", RUNS)
@pytest.mark.parametrize("scenario", CONTROLS, ids=str)
async def test_an_unsafe_change_is_caught(scenario: Scenario, seed: int, tmp_path: Path) -> None:
    verdict = await run(scenario, tmp_path, seed)
    assert verdict.lost, str(verdict)
    assert verdict.rollbacks, str(verdict)
    assert not verdict.clean


async def test_a_stored_history_gets_the_same_verdict_again(tmp_path: Path) -> None:
    verdict = await run(CONTROLS[0], tmp_path)
    assert str(judge(read_history(tmp_path / "history.jsonl"))) == str(verdict)

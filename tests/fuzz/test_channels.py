"""Every port of ours under every attack: it lives, its memory is bounded, and honest clients are served meanwhile.

FUZZ_CASES says how many connections or messages each attack tries (1,000 in `make chaos`), FUZZ_SEED which ones, and
FUZZ_ATTACKS, by their names, that no others are made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fuzz.attacks import ATTACKS
from tests.fuzz.honest import Clients, Heard
from tests.fuzz.stage import Stage, opened

CASES = int(os.environ.get("FUZZ_CASES", "20"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
WISHED = os.environ.get("FUZZ_ATTACKS", "").split()
HOLD, NODES = (2.0, 200) if CASES >= 1000 else (0.2, 20)
NOTHING = "nothing"
# In MiB; the containers may have 512, and a sidecar 128.
MOST_MEMORY = {"operator": 200, "webhook": 200, "sidecar": 90}
# Of a hundred honest calls: a machine that is busy with the attackers may be late for a few.
MOST_FAILURES = 3


@dataclass(frozen=True)
class Measured:
    attack: str
    cases: int
    peak: float
    files: int
    log: int
    heard: Heard

    def __str__(self) -> str:
        heard = self.heard
        return (
            f"{self.attack:42} {self.cases:8} cases  peak {self.peak:6.1f} MiB  {self.files:5} files"
            f"  log {self.log // 1024:4} KiB  honest {len(heard.seconds):5} calls, {len(heard.failures):3} failed,"
            f" median {heard.median * 1000:6.1f} ms, p99 {heard.late * 1000:7.1f} ms"
        )


async def measure(stage: Stage, clients: Clients, target: str, attack: str) -> Measured:
    stage.forget_peak()
    log, files = stage.log.stat().st_size, 0
    await clients.exchanged()
    task = asyncio.create_task(_made(stage, target, attack))
    while not task.done():
        await asyncio.wait({task}, timeout=0.2)
        files = max(files, stage.open_files())
    heard = await clients.exchanged()
    assert stage.server.returncode is None, f"the {stage.kind} has ended under {attack}"
    peak = stage.memory("VmHWM")
    return Measured(f"{target} {attack}", await task, peak, files, stage.log.stat().st_size - log, heard)


async def _made(stage: Stage, target: str, attack: str) -> int:
    if attack == NOTHING:
        await asyncio.sleep(5 * HOLD)
        return 0
    return await stage.attacked(target, attack, CASES, HOLD, SEED)


def attacks_on(kind: str) -> Iterator[tuple[str, str]]:
    for target, attacks in ATTACKS.items():
        if target.startswith(f"{kind}/"):
            yield target, NOTHING
            names = [each.__name__ for each in attacks]
            yield from ((target, name) for name in names if not WISHED or name in WISHED)


@pytest.mark.parametrize("kind", ["operator", "webhook", "sidecar"])
async def test_a_process_under_attack_stays_small_and_serves_the_others(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as stage:
        clients, measured = Clients(), []
        honest = [asyncio.create_task(clients.repeat(*call)) for call in stage.honest(NODES)]
        await asyncio.sleep(1)  # until all of them are connected
        for target, attack in attacks_on(kind):
            measured.append(await measure(stage, clients, target, attack))
            print(measured[-1], *sorted({*measured[-1].heard.failures})[:3], sep="\n    ", flush=True)
        for task in honest:
            task.cancel()
        await asyncio.wait(honest)
    calls = sum(len(each.heard.seconds) + len(each.heard.failures) for each in measured)
    failures = [failure for each in measured for failure in each.heard.failures]
    assert len(failures) * 100 <= calls * MOST_FAILURES, failures
    assert max(each.peak for each in measured) <= MOST_MEMORY[kind], "\n".join(map(str, measured))

"""What happens in a pod reaches the operator that leads, at once, every time."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from devcluster.faults import Faults
from tests.e2e.conftest import PLACE, Place
from tests.e2e.test_one_node import POD, SPEC

# 50 in the long run (`make chaos`).
KILLS = int(os.environ.get("KILLS", "10"))


class Heard:
    """What both replicas of the operator log, as it comes, with the time."""

    def __init__(self) -> None:
        self.lines: list[tuple[float, str, str]] = []
        self._news = asyncio.Event()

    async def follow(self, source: asyncio.StreamReader) -> None:
        async for line in source:
            pod, _, text = line.decode().partition(" ")
            self.lines.append((time.monotonic(), pod, text))
            self._news.set()

    async def said(self, words: str, since: float, patience: float = 30) -> tuple[float, str]:
        """When somebody said so, and who."""
        async with asyncio.timeout(patience):
            while True:
                for at, pod, text in self.lines:
                    if at >= since and words in text:
                        return at, pod
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def listening(place: Place) -> AsyncIterator[Heard]:
    operator = Place(place.cluster, PLACE)
    now = datetime.now(UTC).isoformat(
        timespec="seconds"
    )  # not "a second ago", when kubectl itself may take longer
    command = operator.command(
        "logs",
        "--follow",
        "--prefix",
        f"--since-time={now}",
        "--selector=app.kubernetes.io/name=valkey-operator",
    )
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=2**20)
    heard = Heard()
    assert process.stdout is not None
    task = asyncio.create_task(heard.follow(process.stdout))
    try:
        yield heard
    finally:
        process.kill()
        await process.wait()
        task.cancel()


def leader(place: Place) -> str:
    lease = Place(place.cluster, PLACE).get("lease", "valkey-operator")
    return str(lease["spec"]["holderIdentity"]).partition("_")[0]


async def test_every_death_of_a_server_reaches_the_leader_at_once(place: Place, faults: Faults) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    died, serves = [], []
    node = f"{place.namespace}/one-0: "
    async with listening(place) as heard:
        for _ in range(KILLS):
            begun = time.monotonic()
            await asyncio.to_thread(faults.kill, f"{place.namespace}/{POD}", "valkey")
            told, who = await heard.said(f"{node}KIND_SERVER_DIED", begun)
            assert leader(place) in who
            died.append(told - begun)
            back, _ = await heard.said(f'{node}KIND_READINESS_CHANGED "', told)
            serves.append(back - begun)
    result = {"kills": KILLS, "died": _summary(died), "serves again": _summary(serves)}
    print(json.dumps(result))
    # The usual time is a quarter of a second, and with the kill itself that of a process started here.
    assert max(died) < 5
    assert max(serves) < 15


def _summary(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 3), "longest": round(max(seconds), 3)}

"""Figures of the ground: how long a cluster takes to come and go, what it holds, how soon servers are Ready.

Prints one JSON line per figure. Times stand beside a baseline of the same run, because this machine may be
shared: `baseline_s` is how long one core takes to hash half a gigabyte, `ratio` is the time over that.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from devcluster import cgroups, image_build
from devcluster.cluster import EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.places import default_name
from devcluster.progress import Progress
from devcluster.provider import checkout
from tests.devcluster.servers import apply, stateful_set

RUNS = 3


def main() -> None:
    cluster = EmbeddedCluster(f"{default_name(checkout())}-bench")
    archives = image_build.build(list(image_build.recipes(checkout() / "images").values()), Progress())
    cluster.down(Progress())
    figures: dict[str, list[float]] = {
        "up": [],
        "load": [],
        "set_ready": [],
        "set_with_volumes_ready": [],
        "down": [],
    }
    memory: list[int] = []
    baselines: list[float] = []
    for _ in range(RUNS):
        baselines.append(timed(hash_half_a_gigabyte))
        figures["up"].append(timed(lambda: cluster.up(Wish(), Progress())))
        figures["load"].append(timed(lambda: cluster.load(archives)))
        figures["set_ready"].append(timed(lambda: run_set(cluster, "plain", None)))
        figures["set_with_volumes_ready"].append(timed(lambda: run_set(cluster, "stored", "standard")))
        memory.append(resident_bytes(cgroups.pids(cluster.record.group)))
        figures["down"].append(timed(lambda: cluster.down(Progress())))
    baseline = statistics.median(baselines)
    for name, times in figures.items():
        median = statistics.median(times)
        runs = [round(value, 2) for value in times]
        ratio = round(median / baseline, 1)
        show(f"ground_{name}_s", round(median, 2), baseline_s=round(baseline, 2), ratio=ratio, runs=runs)
    show("ground_memory_mib", max(memory) >> 20)


def timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def resident_bytes(pids: set[int]) -> int:
    """All memory of these processes and their programs, shared pages counted once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def hash_half_a_gigabyte() -> None:
    block = bytes(1 << 20)
    digest = hashlib.sha256()
    for _ in range(512):
        digest.update(block)


def run_set(cluster: EmbeddedCluster, name: str, storage_class: str | None) -> None:
    """Three servers in three zones, from apply to Ready."""
    apply(cluster, "default", stateful_set(name, 3, storage_class))
    cluster.kubectl("rollout", "status", f"statefulset/{name}", "--timeout=120s")


def show(figure: str, value: float, **more: object) -> None:
    print(json.dumps({"figure": figure, "value": value, **more}), flush=True)


if __name__ == "__main__":
    main()

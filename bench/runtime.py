"""Figures of the runtime, each beside the same work done with controller-runtime and kopf in the same run.

Prints one JSON line per figure. `load` is what else the machine was doing when the figure was taken; `baseline_s`
is how long one core took to hash half a gigabyte at the beginning.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench import objects, peer
from bench.ground import hash_half_a_gigabyte, show, timed
from bench.peer import Peer, Program
from bench.runtime_peer import OURS, Pod
from devcluster.cluster import EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.places import default_name
from devcluster.progress import Progress
from devcluster.provider import checkout
from valkey_operator.kube.access import from_kubeconfig
from valkey_operator.kube.client import PAGE, Client, Request
from valkey_operator.kube.objects import Key
from valkey_operator.kube.resources import NAMESPACES, PODS

PEERS = Path(__file__).parent / "peers"
# The initial garbage is collected and the queue is empty.
SETTLE = 5.0


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    pods: int = 5000
    keys: int = 1000
    rate: int = 200
    latency_s: int = 30
    idle_s: int = 60
    runs: int = 3


SHORT = Size(pods=500, keys=100, rate=50, latency_s=5, idle_s=10, runs=1)


OURSELVES = Program("ours", (sys.executable, "-m", "bench.runtime_peer"))
BARE_WATCH = Program("bare_watch", (sys.executable, "-m", "bench.bare_watch"))
CHANGER = Program("changer", (sys.executable, "-m", "bench.changer"))


@dataclass
class Bench:
    """Everything a figure needs."""

    cluster: EmbeddedCluster
    client: Client
    namespace: str
    folder: Path
    size: Size
    programs: Sequence[Program] = ()

    def kubeconfig(self, program: Program) -> Path:
        """Of the account that this program alone uses."""
        return self.folder / f"{program.name}.kubeconfig"

    def run(self, program: Program, mode: str, count: int) -> AbstractAsyncContextManager[Peer]:
        return peer.running(program, self.kubeconfig(program), mode, self.namespace, str(count))


def main() -> None:
    wishes = argparse.ArgumentParser(description="Measure the runtime.")
    wishes.add_argument("--short", action="store_true", help="small numbers, to see that it works")
    wishes.add_argument("--here", action="store_true", help="use this checkout's cluster, which stays")
    wishes.add_argument("figures", nargs="*", help=f"of {', '.join(FIGURES)}; all where none is named")
    wish = wishes.parse_args()
    if unknown := set(wish.figures) - set(FIGURES):
        wishes.error(f"there is no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    name = default_name(checkout())
    cluster = EmbeddedCluster(name if wish.here else f"{name}-bench")
    try:
        cluster.up(Wish(), Progress())
        asyncio.run(measure(cluster, SHORT if wish.short else Size(), wish.figures or list(FIGURES)))
    finally:
        if not wish.here:
            cluster.down(Progress())


async def measure(cluster: EmbeddedCluster, size: Size, chosen: Sequence[str]) -> None:
    async with prepared(cluster, size) as bench:
        tell("runtime_baseline_s", timed(hash_half_a_gigabyte))
        if {"list", "cache"} & set(chosen):
            started = time.monotonic()
            await objects.make_pods(bench.client, bench.namespace, size.pods)
            tell("runtime_pods_made_s", time.monotonic() - started, pods=size.pods)
            await measure_some(bench, chosen, "list", "cache")
            # Gone before the rest, which they would only slow down.
            await objects.delete_all(bench.client, PODS, bench.namespace)
        await objects.make_maps(bench.client, bench.namespace, size.keys)
        await measure_some(bench, chosen, "latency", "idle")


async def measure_some(bench: Bench, chosen: Sequence[str], *names: str) -> None:
    for name in names:
        if name in chosen:
            await FIGURES[name](bench)


@asynccontextmanager
async def prepared(cluster: EmbeddedCluster, size: Size) -> AsyncIterator[Bench]:
    access = from_kubeconfig(str(cluster.kubeconfig))
    with tempfile.TemporaryDirectory() as folder:
        async with Client(access, agent="bench", limit=300) as client:
            bench = Bench(cluster, client, f"bench-{os.getpid()}", Path(folder), size)
            await objects.make_namespace(client, bench.namespace)
            try:
                bench.programs = programs(bench.folder)
                for program in (*bench.programs, BARE_WATCH):
                    target = bench.kubeconfig(program)
                    await objects.make_user(
                        client, bench.namespace, program.account, cluster.kubeconfig, target
                    )
                yield bench
            finally:
                await client.delete(NAMESPACES, Key("", bench.namespace))


def programs(folder: Path) -> list[Program]:
    built = folder / "controller_runtime"
    subprocess.run(
        ["go", "build", "-o", built, "."], cwd=PEERS / "controller_runtime", check=True, timeout=900
    )
    # An environment of its own: it is no dependency of ours.
    isolated = (os.environ.get("UV", "uv"), "run", "--quiet", "--isolated", "--no-project", "--with", "kopf")
    python = (*isolated, "--python", sys.executable, "python")
    subprocess.run([*python, "-c", "import kopf"], check=True, timeout=300)
    kopf = Program("kopf", (*python, str(PEERS / "kopf_peer.py")))
    return [OURSELVES, Program("controller_runtime", (str(built),)), kopf]


# The figures


async def measure_list(bench: Bench) -> None:
    """All pods fetched and read into projections, and the same answers fetched and thrown away."""
    whole, busy, fetched, size = list[float](), list[float](), list[float](), 0
    requests = await list_requests(bench)
    for _ in range(2 * bench.size.runs - 1):
        started, cpu = time.monotonic(), time.process_time()
        found = len(await bench.client.list_all(PODS, Pod, bench.namespace, OURS))
        whole.append(round(time.monotonic() - started, 3))
        busy.append(round(time.process_time() - cpu, 3))
        started = time.monotonic()
        size = sum([len(bytes(await bench.client.ask(request, msgspec.Raw))) for request in requests])
        fetched.append(round(time.monotonic() - started, 3))
        assert found == bench.size.pods
    median = statistics.median
    more = {
        "fetched_only_s": median(fetched),
        "own_cpu_s": median(busy),
        "bytes_per_pod": size // bench.size.pods,
    }
    tell(f"runtime_list_{bench.size.pods}_s", median(whole), goal=0.5, **more, runs=whole)


async def list_requests(bench: Bench) -> list[Request]:
    """One request per page, as the client sends them."""
    requests, query = list[Request](), {**OURS.query(), "limit": str(PAGE)}
    async for page in bench.client.pages(PODS, msgspec.Raw, bench.namespace, OURS):
        requests.append(Request("list", "GET", PODS.collection(bench.namespace), "list pods", query=query))
        query = {**query, "continue": page.metadata.continue_}
    return requests


async def measure_cache(bench: Bench) -> None:
    """Memory of a process that holds all pods, over that of an interpreter that does nothing."""
    bare = await peer.bare_python_bytes()
    held: dict[str, list[float]] = {program.name: [] for program in bench.programs}
    synced: dict[str, list[float]] = {program.name: [] for program in bench.programs}
    started: dict[str, list[float]] = {program.name: [] for program in bench.programs}
    for _ in range(bench.size.runs):
        for program in bench.programs:
            async with bench.run(program, "cache", bench.size.pods) as running:
                await asyncio.sleep(SETTLE)
                held[program.name].append((running.resident_bytes() - bare) / (1 << 20))
                synced[program.name].append(running.sync_s)
                started[program.name].append(running.since_start_s)
                await running.end()
    name = f"runtime_cache_{bench.size.pods}_mib"
    compare(name, medians(held), goal=45, bare_python_mib=round(bare / (1 << 20), 1))
    compare(f"runtime_sync_{bench.size.pods}_s", medians(synced))
    compare(f"runtime_start_and_sync_{bench.size.pods}_s", medians(started))


async def measure_latency(bench: Bench) -> None:
    """From just before a change is sent to the begin of its reconcile, beside a watch that does nothing else."""
    seen: dict[str, list[float]] = {}
    size = bench.size
    arguments = (bench.namespace, *map(str, (size.keys, size.rate, size.latency_s)))
    for program in bench.programs:
        async with (
            bench.run(program, "latency", size.keys) as running,
            bench.run(BARE_WATCH, "latency", size.keys) as floor,
        ):
            await asyncio.sleep(SETTLE)
            limit = size.latency_s + 60.0
            changed = await peer.finished(CHANGER, bench.cluster.kubeconfig, *arguments, limit=limit)
            await asyncio.sleep(1)
            seen[program.name], seen[f"floor_of_{program.name}"] = await running.end(), await floor.end()
        tell(f"runtime_latency_changes_{program.name}", len(seen[program.name]), **changed)
    for percent, goal in ((50, 5), (99, 25)):
        found = {name: percentile(values, percent) for name, values in seen.items()}
        compare(f"runtime_latency_p{percent}_ms", found, goal=goal)


async def measure_idle(bench: Bench) -> None:
    """What it costs to hold keys to which nothing happens."""
    writes, busy = dict[str, int](), dict[str, float]()
    for program in bench.programs:
        audit, user = bench.cluster.audit, f"system:serviceaccount:{bench.namespace}:{program.account}"
        async with bench.run(program, "idle", bench.size.keys) as running:
            await asyncio.sleep(SETTLE)
            # Its reads at the start are there, so its writes would be too.
            assert any(request.user == user for request in audit.requests())
            audit.mark()
            before = running.cpu_seconds()
            await asyncio.sleep(bench.size.idle_s)
            busy[program.name] = 100 * (running.cpu_seconds() - before) / bench.size.idle_s
            seen = audit.requests()
            writes[program.name] = sum(request.is_write and request.user == user for request in seen)
            await running.end()
    name = f"runtime_idle_{bench.size.keys}_keys"
    compare(f"{name}_percent_of_a_core", busy, goal=0.5, seconds=bench.size.idle_s)
    compare(f"{name}_writes", writes, goal=0, seconds=bench.size.idle_s)


FIGURES: Mapping[str, Callable[[Bench], Awaitable[None]]] = {
    "list": measure_list,
    "cache": measure_cache,
    "latency": measure_latency,
    "idle": measure_idle,
}


# Telling


def compare(figure: str, found: Mapping[str, float], **more: object) -> None:
    """Ours as the figure, those of the others beside it."""
    others = {name: round(value, 3) for name, value in found.items() if name != OURSELVES.name}
    tell(figure, found[OURSELVES.name], **more, **others)


def tell(figure: str, value: float, **more: object) -> None:
    show(figure, round(value, 3), **more, load=round(os.getloadavg()[0], 1))


def medians(runs: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in runs.items()}


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()

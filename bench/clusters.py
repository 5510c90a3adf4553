"""Figures of clusters: each operation on 3 x 2 servers with 200,000 keys while twelve clients write.

Needs the cluster of this checkout with the operator in it (`make up`). Prints one JSON line per operation and run: the
seconds until the status says Ready and the servers agree, what was acknowledged and lost, and the longest pause of a
client. With `--peer DIR` the official operator, built from that folder, goes through the same after ours.

    python -m bench.clusters [--runs N] [--peer DIR] [OPERATION ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import valkey

from bench.cluster_sides import Side, ours, peer
from bench.one_node import OPERATORS, Bench, bare, bare_of_two, resident_mib
from tests.chaos.cluster_target import ClusterTarget
from tests.chaos.history import Recorder
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import covers, slot_of
from tests.chaos.targets import Shard, Unsettled
from tests.chaos.wire import Address, ErrorReply, NotSent, Unanswered, Wire, as_text
from tests.chaos.workload import Workload

KEYS = 200_000
TAGS = 4  # three writers each
PACE = 0.01
LIMIT = 300.0
NAME = "grid"
TWENTY = 20


Ready = Callable[[], Awaitable[bool]]


async def nothing_more() -> bool:
    """What is awaited besides that the status says Ready for the wish of now."""
    return True


async def until(claim: Ready, pace: float = 0.1) -> None:
    ends = time.monotonic() + LIMIT
    while not await claim():
        if time.monotonic() > ends:
            raise TimeoutError(f"it was not ready within {LIMIT:g} s")
        await asyncio.sleep(pace)


class Grid:
    """One cluster on one side."""

    def __init__(self, side: Side, namespace: str) -> None:
        self.side, self.namespace = side, namespace
        self.shards = 3

    def objects(self, kind: str) -> list[dict[str, Any]]:
        group = "/apis/valkey.io/v1alpha1" if kind.startswith("valkey") else "/api/v1"
        found = self.side.cluster.api.get(f"{group}/namespaces/{self.namespace}/{kind}")
        items: list[dict[str, Any]] = found["items"]
        return items

    def pods(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.objects("pods")}

    def uids(self) -> dict[str, str]:
        return {name: each["metadata"]["uid"] for name, each in self.pods().items()}

    def pod_at(self, address: Address) -> str:
        return next(name for name, each in self.pods().items() if each["status"].get("podIP") == address.host)

    def target(self) -> ClusterTarget:
        """Services first: pods change their addresses."""
        services = [each["spec"].get("clusterIP", "None") for each in self.objects("services")]
        addresses = [each["status"].get("podIP", "None") for each in self.pods().values()]
        return ClusterTarget([Address(each, 6379) for each in (*services, *addresses) if each != "None"])

    def patch(self, spec: dict[str, Any]) -> None:
        path = f"/apis/valkey.io/v1alpha1/namespaces/{self.namespace}/valkeyclusters/{NAME}"
        self.side.cluster.api.patch(path, {"spec": spec})

    async def well(self, is_done: Ready) -> None:
        """Until it is done, all pods are ready, the status says Ready, and the servers agree."""

        async def is_well() -> bool:
            return (
                await is_done() and await asyncio.to_thread(self._says_ready) and await self._servers_agree()
            )

        await until(is_well, pace=self.shards / 50)

    def _says_ready(self) -> bool:
        (found,) = self.objects("valkeyclusters")
        status, generation = found.get("status", {}), found["metadata"]["generation"]
        if status.get("observedGeneration", generation) != generation:
            return False
        if (status.get("state"), status.get("readyShards")) != ("Ready", self.shards):
            return False  # before their pods are asked for: that many cost the machine what it needs to start them
        pods = self.pods().values()
        return len(pods) == 2 * self.shards and all(map(_is_ready, pods))

    async def _servers_agree(self) -> bool:
        try:
            layout = await (await asyncio.to_thread(self.target)).layout()
        except (Unsettled, NotSent, Unanswered, ErrorReply):
            return False
        if len(layout) != self.shards or any(len(shard.replicas) != 1 for shard in layout):
            return False
        links = await asyncio.gather(*(_link(shard.replicas[0]) for shard in layout))
        return all(links)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    is_stopping = "deletionTimestamp" in pod["metadata"]
    return not is_stopping and any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def _link(replica: Address) -> bool:
    try:
        async with await Wire.open(replica) as wire:
            return "master_link_status:up" in as_text(await wire.call("INFO", "replication"))
    except (NotSent, Unanswered, ErrorReply):
        return False


def fill(layout: list[Shard]) -> None:
    """All keys, each at its own primary."""
    keys: dict[Address, list[str]] = defaultdict(list)
    for number in range(KEYS):
        key = f"key:{number}"
        slot = slot_of(key)
        keys[next(shard.primary for shard in layout if covers(shard.slots, slot))].append(key)
    for address, names in keys.items():
        with valkey.Valkey(address.host, address.port) as client:
            for first in range(0, len(names), 5000):
                pipeline = client.pipeline(transaction=False)
                for name in names[first : first + 5000]:
                    pipeline.set(name, "x" * 100)
                pipeline.execute()


Operation = Callable[[Grid, list[Shard]], Awaitable[Ready]]


async def more_shards(grid: Grid, _layout: list[Shard]) -> Ready:
    grid.shards = 6
    grid.patch({"shards": 6})
    return nothing_more


async def fewer_shards(grid: Grid, _layout: list[Shard]) -> Ready:
    grid.shards = 3
    grid.patch({"shards": 3})
    return nothing_more


async def roll(grid: Grid, _layout: list[Shard]) -> Ready:
    return _change(grid, grid.side.change)


async def wide_roll(grid: Grid, _layout: list[Shard]) -> Ready:
    return _change(grid, grid.side.wide_change)


def _change(grid: Grid, spec: dict[str, Any]) -> Ready:
    before = set(grid.uids().values())
    grid.patch(spec)
    return _replaced(grid, before)


def _replaced(grid: Grid, pods: set[str]) -> Ready:
    async def claim() -> bool:
        return not pods & set((await asyncio.to_thread(grid.uids)).values())

    return claim


async def delete_primary(grid: Grid, layout: list[Shard]) -> Ready:
    pod = grid.pod_at(layout[0].primary)
    before = grid.uids()[pod]
    await asyncio.to_thread(
        grid.side.cluster.kubectl, "delete", "pod", "--wait=false", "--namespace", grid.namespace, pod
    )
    return _replaced(grid, {before})


async def kill_primary(grid: Grid, layout: list[Shard]) -> Ready:
    pod = grid.pod_at(layout[0].primary)
    before = await _run_id(layout[0].primary)
    container = {} if grid.side.name == "ours" else {"container": "server"}
    await asyncio.to_thread(grid.side.cluster.faults.kill, f"{grid.namespace}/{pod}", **container)

    async def claim() -> bool:
        return await _run_id(layout[0].primary) not in ("", before)

    return claim


async def _run_id(address: Address) -> str:
    try:
        async with await Wire.open(address) as wire:
            info = as_text(await wire.call("INFO", "server"))
    except (NotSent, Unanswered, ErrorReply):
        return ""
    return next(line for line in info.splitlines() if line.startswith("run_id:"))


async def delete_all(grid: Grid, _layout: list[Shard]) -> Ready:
    before = set(grid.uids().values())
    words = ("delete", "pods", "--all", "--wait=false", "--namespace", grid.namespace)
    await asyncio.to_thread(grid.side.cluster.kubectl, *words)
    return _replaced(grid, before)


# In this order: each finds what the one before has left.
OPERATIONS: dict[str, Operation] = {
    "out": more_shards,
    "in": fewer_shards,
    "roll": roll,
    "wide_roll": wide_roll,
    "delete": delete_primary,
    "kill": kill_primary,
    "all": delete_all,
}


class Figures:
    """Shows every run, and the medians of all at the end."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)

    def note(self, side: str, operation: str, **figures: float) -> None:
        print(json.dumps({"side": side, "operation": operation, **figures}), flush=True)
        self._found[side, operation].append(figures)

    def sum_up(self) -> None:
        for (side, operation), runs in self._found.items():
            medians = {name: round(statistics.median(each[name] for each in runs), 3) for name in runs[0]}
            line = {"median": operation, "side": side, "runs": len(runs), **medians}
            print(json.dumps(line), flush=True)


async def run(side: Side, wanted: list[str], figures: Figures) -> None:
    """Everything once, in a namespace of its own."""
    if "create" in wanted:
        await bare_servers(side, 6, figures)
    async with namespace(side) as place:
        grid, begun = Grid(side, place), time.monotonic()
        side.apply(place, side.manifest(NAME, 3))
        await grid.well(nothing_more)
        figures.note(side.name, "create", seconds=round(time.monotonic() - begun, 2))
        await asyncio.to_thread(fill, await grid.target().layout())
        for name, operation in OPERATIONS.items():
            if name in wanted and (name != "wide_roll" or side.wide_change):
                await measure(grid, name, operation, figures)


async def measure(grid: Grid, name: str, operation: Operation, figures: Figures) -> None:
    target = grid.target()
    recorder = Recorder()
    async with Workload(target, recorder, tags=TAGS, pace=PACE) as load:
        await load.acknowledged(each=20)
        layout = await target.layout()
        begun, at = time.monotonic(), recorder.now()
        with load.during(name):
            await grid.well(await operation(grid, layout))
            seconds = time.monotonic() - begun
        await load.acknowledged(each=20, within=60)
    verdict = await load.judge()
    longest = max(verdict.pauses.values(), key=lambda each: each.seconds)
    figures.note(
        grid.side.name,
        name,
        seconds=round(seconds, 2),
        acknowledged=verdict.outcomes[Outcome.OK],
        lost=len(verdict.lost),
        phantoms=len(verdict.phantoms),
        pause=round(longest.seconds, 3),
        pause_after=round(longest.began - at, 2),
    )


async def bare_servers(side: Side, count: int, figures: Figures, *, of_two: bool = False) -> None:
    """As many servers that know of nobody, each a StatefulSet with a volume: what the ground itself takes."""
    made = bare_of_two if of_two else bare
    async with namespace(side) as place:
        grid, begun = Grid(side, place), time.monotonic()
        side.apply(place, *(made(f"v{number}") for number in range(count)))

        async def are_ready() -> bool:
            pods = (await asyncio.to_thread(grid.pods)).values()
            return len(pods) == count and all(map(_is_ready, pods))

        await until(are_ready, pace=count / 100)
        what = f"{count} bare servers{' of two containers' if of_two else ''}"
        figures.note(side.name, what, seconds=round(time.monotonic() - begun, 2))


async def twenty(side: Side, figures: Figures) -> None:
    await bare_servers(side, 2 * TWENTY, figures)
    await bare_servers(side, 2 * TWENTY, figures, of_two=True)
    async with namespace(side) as place:
        grid, begun = Grid(side, place), time.monotonic()
        grid.shards = TWENTY
        side.apply(place, side.manifest(NAME, TWENTY))
        await grid.well(nothing_more)
        figures.note(side.name, "20 x 2", seconds=round(time.monotonic() - begun, 2), **memory_of(side))


def memory_of(side: Side) -> dict[str, float]:
    """What the leading operator holds; the other one is no pod."""
    if side.name != "ours":
        return {}
    bench = Bench()
    return {"operator_mib": resident_mib(bench.pid(OPERATORS, bench.leader(), "operator"))}


@contextlib.asynccontextmanager
async def namespace(side: Side) -> AsyncIterator[str]:
    name = f"bench-{time.time_ns() % 10**9}"
    side.cluster.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        await asyncio.to_thread(side.cluster.kubectl, "delete", "namespace", name, timeout=600)


async def main() -> None:
    words = argparse.ArgumentParser(prog="python -m bench.clusters")
    words.add_argument("--runs", type=int, default=3)
    words.add_argument(
        "--peer", type=Path, metavar="DIR", help="the folder of the official operator's source"
    )
    names = ["create", *OPERATIONS, "twenty"]
    words.add_argument("operations", nargs="*", metavar="OPERATION", help=", ".join(names))
    given = words.parse_args()
    if unknown := set(given.operations) - set(names):
        words.error(f"{', '.join(sorted(unknown))}: no such operation; there are {', '.join(names)}")
    wanted, figures = given.operations or names, Figures()
    with contextlib.ExitStack() as stack:
        sides = [ours()]
        if given.peer is not None:
            sides.append(stack.enter_context(peer(given.peer)))
        for _ in range(given.runs):
            for side in sides:
                if set(wanted) - {"twenty"}:
                    await run(side, wanted, figures)
                if "twenty" in wanted:
                    await twenty(side, figures)
    figures.sum_up()


if __name__ == "__main__":
    asyncio.run(main())

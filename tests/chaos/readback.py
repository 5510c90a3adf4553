"""The final read: everything that every primary and every replica holds of a run, found by scanning."""

import asyncio
import time

from tests.chaos.history import NodeRead, Role
from tests.chaos.targets import Shard, Target, Unsettled
from tests.chaos.wire import Address, ErrorReply, NotSent, Unanswered, Wire, as_list, as_text

BETWEEN_TRIES = 0.1
MOST_SCANS = 1_000_000
PER_SCAN = 1000

TROUBLE = (Unsettled, NotSent, Unanswered, ErrorReply)


class NoFinalRead(Exception):
    """The servers did not heal in time to be read."""


async def read_back(target: Target, run: str, within: float) -> list[NodeRead]:
    """Tries until all servers answer and every replica holds what its primary holds, or time is up.

    A replica that still differs then is returned as it is: the judge calls it diverged.
    """
    deadline = time.monotonic() + within
    while True:
        trouble = ""
        try:
            reads = [
                read for shard in await target.layout() for read in await _read_shard(target, shard, run)
            ]
        except TROUBLE as error:
            trouble = str(error)
        if not trouble and have_converged(reads):
            return reads
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(BETWEEN_TRIES)
    if trouble:
        raise NoFinalRead(f"the servers could not be read within {within:g} s: {trouble}")
    return reads


def have_converged(reads: list[NodeRead]) -> bool:
    primaries = {read.shard: read for read in reads if read.role is Role.PRIMARY}
    return all(same_content(read, primaries[read.shard]) for read in reads) and all(
        read.state == ("master" if read.role is Role.PRIMARY else "connected") for read in reads
    )


def same_content(one: NodeRead, other: NodeRead) -> bool:
    return one.elements == other.elements and one.counters == other.counters


async def _read_all(target: Target, run: str) -> list[NodeRead]:
    return [read for shard in await target.layout() for read in await _read_shard(target, shard, run)]


async def _read_shard(target: Target, shard: Shard, run: str) -> list[NodeRead]:
    nodes = [(shard.primary, Role.PRIMARY), *((node, Role.REPLICA) for node in shard.replicas)]
    return [await _read_node(target, shard, node, role, run) for node, role in nodes]


async def _read_node(target: Target, shard: Shard, node: Address, role: Role, run: str) -> NodeRead:
    async with await Wire.open(node, target.access) as wire:
        if target.is_cluster:
            await wire.call("READONLY")
        keys = await _scan(wire, run)
        counters = {key for key in keys if key.startswith("counter:")}
        return NodeRead(
            node=str(node),
            role=role,
            shard=shard.name,
            slots=shard.slots,
            state=await _state(wire),
            elements=frozenset(keys - counters),
            counters={key: await _value(wire, f"{run}:{key}") for key in sorted(counters)},
        )


async def _state(wire: Wire) -> str:
    role = as_list(await wire.call("ROLE"))
    return as_text(role[0]) if role[0] == "master" else as_text(role[3])


async def _scan(wire: Wire, run: str) -> set[str]:
    keys: set[str] = set()
    cursor = "0"
    for _ in range(MOST_SCANS):
        reply = as_list(await wire.call("SCAN", cursor, "MATCH", f"{run}:*", "COUNT", PER_SCAN))
        cursor = as_text(reply[0])
        keys.update(as_text(key).removeprefix(f"{run}:") for key in as_list(reply[1]))
        if cursor == "0":
            return keys
    raise NotSent(f"{wire.address} did not finish its scan")


async def _value(wire: Wire, key: str) -> int:
    reply = await wire.call("GET", key)
    return int(as_text(reply)) if reply is not None else 0

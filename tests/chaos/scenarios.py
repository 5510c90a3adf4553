"""The checker shown at work on bare servers: two clean changes, and three that must be caught.

Each takes servers that are empty and new, and gives the verdict of one short run. The unsafe ones are
the controls: they lose acknowledged writes on purpose, and a checker that does not see it is worthless.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from tests.chaos.bare import (
    ACCESS,
    CLUSTER_OPTIONS,
    OPTIONS,
    Servers,
    allow_link,
    cut_link,
    follow,
    form_cluster,
    has_caught_up,
    is_linked,
    order,
    promote,
    until,
)
from tests.chaos.cluster_target import ClusterTarget
from tests.chaos.history import Demands, Recorder
from tests.chaos.targets import PlainTarget
from tests.chaos.verdict import Verdict
from tests.chaos.wire import Address, as_list
from tests.chaos.workload import Workload

PACE = 0.02
SHARDS = 3
WITH_REPLICA = Demands(replicas=1)


@dataclass(frozen=True)
class Scenario:
    run: Callable[[Servers, Recorder, int], Awaitable[Verdict]]  # the number is the seed
    servers: int
    options: tuple[str, ...]

    def __str__(self) -> str:
        return getattr(self.run, "__name__", "scenario").replace("_", " ")


class Pair:
    """A primary and its replica, and which of the two takes writes now."""

    def __init__(self, servers: Servers) -> None:
        self.primary, self.replica = servers.addresses

    def swap(self) -> None:
        self.primary, self.replica = self.replica, self.primary

    def load(self, recorder: Recorder, seed: int) -> Workload:
        target = PlainTarget(lambda: self.primary, ACCESS, replicas=lambda: [self.replica])
        return Workload(target, recorder, demands=WITH_REPLICA, pace=PACE, seed=seed)


async def clean_switchover(servers: Servers, recorder: Recorder, seed: int) -> Verdict:
    pair = Pair(servers)
    await follow(pair.replica, pair.primary)
    async with pair.load(recorder, seed) as load:
        await load.acknowledged(each=10)
        with load.during("switchover"):
            await _switch_over(pair)
        await load.acknowledged(each=10)
    return await load.judge()


async def _switch_over(pair: Pair) -> None:
    """Writes wait while the replica catches up and the roles change; a refused client then moves on."""
    old, new = pair.primary, pair.replica
    await order(old, "CLIENT", "PAUSE", 3000, "WRITE")
    await until(f"{new} has caught up", partial(has_caught_up, new, old))
    await promote(new)
    pair.swap()
    await order(old, "REPLICAOF", new.host, new.port)
    await order(old, "CLIENT", "UNPAUSE")
    await until(f"{old} follows {new}", partial(is_linked, old))


async def promotion_of_a_lagging_replica(servers: Servers, recorder: Recorder, seed: int) -> Verdict:
    """Unsafe: what the primary acknowledged while the link was cut is thrown away."""
    pair = Pair(servers)
    await follow(pair.replica, pair.primary)
    async with pair.load(recorder, seed) as load:
        await load.acknowledged(each=5)
        with load.during("promotion of a lagging replica"):
            await cut_link(pair.replica)
            await load.acknowledged(each=5)
            await promote(pair.replica)
            pair.swap()
            await follow(pair.replica, pair.primary)
        await load.acknowledged(each=5)
    return await load.judge()


async def restart_of_an_in_memory_primary(servers: Servers, recorder: Recorder, seed: int) -> Verdict:
    """Unsafe: the primary comes back empty, still as primary, and its replica copies the emptiness."""
    pair = Pair(servers)
    await follow(pair.replica, pair.primary)
    async with pair.load(recorder, seed) as load:
        await load.acknowledged(each=5)
        with load.during("restart of an in-memory primary"):
            await servers.restart(pair.primary)
        await load.acknowledged(each=5)
    return await load.judge()


async def clean_cluster_failover(servers: Servers, recorder: Recorder, seed: int) -> Verdict:
    primaries, replicas = await _cluster(servers)
    target = ClusterTarget(primaries, ACCESS)
    async with Workload(target, recorder, demands=WITH_REPLICA, pace=PACE, seed=seed) as load:
        await load.acknowledged(each=10)
        for replica in replicas:
            with load.during(f"failover to {replica}"):
                await order(replica, "CLUSTER", "FAILOVER")
                await until(f"{replica} is primary", partial(_is_primary, replica))
            await load.acknowledged(each=5)
    return await load.judge()


async def takeover_by_a_lagging_replica(servers: Servers, recorder: Recorder, seed: int) -> Verdict:
    """Unsafe: one shard is taken over, without a vote, by a replica whose link is cut."""
    primaries, replicas = await _cluster(servers)
    target = ClusterTarget(primaries, ACCESS)
    async with Workload(target, recorder, demands=WITH_REPLICA, pace=PACE, seed=seed) as load:
        await load.acknowledged(each=5)
        with load.during("takeover by a lagging replica"):
            await cut_link(replicas[0])
            await load.acknowledged(each=5)
            await order(replicas[0], "CLUSTER", "FAILOVER", "TAKEOVER")
            await until("the old primary follows", partial(is_linked, primaries[0]))
        await allow_link(replicas[0])
        await load.acknowledged(each=5)
    return await load.judge()


async def _cluster(servers: Servers) -> tuple[list[Address], list[Address]]:
    primaries, replicas = list(servers.addresses[:SHARDS]), list(servers.addresses[SHARDS:])
    await form_cluster(primaries, replicas)
    return primaries, replicas


async def _is_primary(node: Address) -> bool:
    return as_list(await order(node, "ROLE"))[0] == "master"


CLEAN = [
    Scenario(clean_switchover, 2, OPTIONS),
    Scenario(clean_cluster_failover, 2 * SHARDS, CLUSTER_OPTIONS),
]
CONTROLS = [
    Scenario(promotion_of_a_lagging_replica, 2, OPTIONS),
    Scenario(restart_of_an_in_memory_primary, 2, OPTIONS),
    Scenario(takeover_by_a_lagging_replica, 2 * SHARDS, CLUSTER_OPTIONS),
]

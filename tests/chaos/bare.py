"""Orders to bare Valkey servers that no operator looks after: what a scenario does to them by hand."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from tests.chaos.slots import SLOTS
from tests.chaos.targets import shards_from_slots
from tests.chaos.wire import (
    Access,
    Address,
    ErrorReply,
    NotSent,
    Reply,
    Unanswered,
    Wire,
    Word,
    as_list,
    as_text,
)

PASSWORD = "checker"  # noqa: S105 (servers that live for seconds)
ACCESS = Access(password=PASSWORD)

# A short node timeout forms a cluster quickly; with this one a busy machine is not taken for a dead one.
PATIENT_MILLISECONDS = 15_000

# In memory only, as the controls need it, and quick to sync. The ping gives an idle primary an offset
# other than 0, without which CLUSTER SLOTS leaves its replica out.
OPTIONS: tuple[str, ...] = (
    *("--save", "", "--appendonly", "no", "--protected-mode", "no"),
    *("--requirepass", PASSWORD, "--primaryauth", PASSWORD),
    *("--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb"),
    *("--repl-ping-replica-period", "1"),
)
CLUSTER_OPTIONS: tuple[str, ...] = (
    *OPTIONS,
    *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-ping-interval", "100"),
)


class Servers(Protocol):
    """Some bare servers: processes on this machine, or pods."""

    @property
    def addresses(self) -> Sequence[Address]: ...

    async def restart(self, address: Address) -> None:
        """Ends the server without saving; it comes back empty, at the same address."""


async def order(address: Address, *words: Word) -> Reply:
    async with await Wire.open(address, ACCESS) as wire:
        return await wire.call(*words)


async def until(what: str, is_so: Callable[[], Awaitable[bool]], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not await _holds(is_so):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {within:g} s")
        await asyncio.sleep(0.01)


async def _holds(is_so: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await is_so()
    except (NotSent, Unanswered, ErrorReply):
        return False


async def answers(address: Address) -> bool:
    return await order(address, "PING") == "PONG"


async def is_linked(replica: Address) -> bool:
    role = as_list(await order(replica, "ROLE"))
    return role[0] == "slave" and role[3] == "connected"


async def offset(address: Address) -> int:
    role = as_list(await order(address, "ROLE"))
    position = role[1] if role[0] == "master" else role[4]
    return position if isinstance(position, int) else -1


async def follow(replica: Address, primary: Address) -> None:
    await order(replica, "REPLICAOF", primary.host, primary.port)
    await until(f"{replica} follows {primary}", partial(is_linked, replica))
    await until(f"{primary} serves {replica}", partial(serves_replica, primary))


async def serves_replica(primary: Address) -> bool:
    """A primary sends nothing to a new replica before its first acknowledgement, a second after the link."""
    async with await Wire.open(primary, ACCESS) as wire:
        await wire.call("SET", "is-replicated", "?")
        return await wire.call("WAIT", 1, 100) != 0


async def promote(replica: Address) -> None:
    await order(replica, "REPLICAOF", "NO", "ONE")


async def has_caught_up(replica: Address, primary: Address) -> bool:
    goal = await offset(primary)
    return await offset(replica) >= goal


async def cut_link(replica: Address) -> None:
    """The replica loses its primary and cannot log in again: from now on it lags."""
    await order(replica, "CONFIG", "SET", "primaryauth", "wrong")
    await order(replica, "CLIENT", "KILL", "TYPE", "master")

    async def is_cut() -> bool:
        return not await is_linked(replica)

    await until(f"{replica} loses its link", is_cut)


async def allow_link(replica: Address) -> None:
    await order(replica, "CONFIG", "SET", "primaryauth", PASSWORD)


async def form_cluster(primaries: Sequence[Address], replicas: Sequence[Address]) -> None:
    """One replica for each primary, slots in equal parts; afterwards no failover comes by itself."""
    for number, primary in enumerate(primaries):
        first, last = (SLOTS * part // len(primaries) for part in (number, number + 1))
        await order(primary, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        await order(primary, "CLUSTER", "ADDSLOTSRANGE", first, last - 1)
    everyone = [*primaries, *replicas]
    for node in everyone[1:]:
        await order(everyone[0], "CLUSTER", "MEET", node.host, node.port)
    for node in everyone:
        await until(f"{node} knows all others", partial(_knows, node, len(everyone)))
    for replica, primary in zip(replicas, primaries, strict=True):
        identity = as_text(await order(primary, "CLUSTER", "MYID"))
        await order(replica, "CLUSTER", "REPLICATE", identity)
        await until(f"{replica} follows {primary}", partial(is_linked, replica))
    for node in everyone:
        await until(f"{node} sees the cluster whole", partial(_sees_whole, node, len(primaries)))
        await order(node, "CONFIG", "SET", "cluster-node-timeout", PATIENT_MILLISECONDS)


async def _knows(node: Address, number: int) -> bool:
    lines = as_text(await order(node, "CLUSTER", "NODES")).splitlines()
    return len(lines) == number and not any("handshake" in line for line in lines)


async def _sees_whole(node: Address, shards: int) -> bool:
    """Every node must see every replica: a failover that voters do not expect gets no votes."""
    state = as_text(await order(node, "CLUSTER", "INFO"))
    view = shards_from_slots(await order(node, "CLUSTER", "SLOTS"), node)
    return "cluster_state:ok" in state and len(view) == shards and all(shard.replicas for shard in view)

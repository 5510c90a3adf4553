"""A cluster as a target: the slot map is learned, and learned again after MOVED or a cut."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from tests.chaos.slots import SLOTS, covers
from tests.chaos.targets import Shard, Unsettled, shards_from_slots
from tests.chaos.wire import OPEN, Access, Address, ErrorReply, NotSent, Unanswered, Wire

# A stale node may answer at once, and wrongly; asking more often than this would only load it.
BETWEEN_LOOKS = 0.02


class ClusterTarget:
    is_cluster = True

    def __init__(self, seeds: Sequence[Address], access: Access = OPEN) -> None:
        self.access = access
        self._seeds = tuple(seeds)
        self._ask_access = replace(access, connect_limit=0.3, command_limit=0.5)
        self._shards: list[Shard] = []
        self._is_stale = True
        self._first: Address | None = None
        self._suspects: dict[Address, float] = {}
        self._looked = 0.0
        self._looking = asyncio.Lock()

    def __str__(self) -> str:
        return "cluster " + ", ".join(map(str, self._seeds))

    async def connect(self, slot: int) -> Wire:
        await self._look_if_stale()
        for shard in self._shards:
            if covers(shard.slots, slot):
                try:
                    return await Wire.open(shard.primary, self.access)
                except NotSent as error:
                    # The map may be older than the failover: look again, or we knock at a dead door for ever.
                    self.suspect(shard.primary, str(error))
                    raise
        self._is_stale = True  # a map with a hole in it is looked at again, or it would stay so
        raise NotSent(f"no primary is known for slot {slot}")

    def suspect(self, node: Address, reason: str) -> None:
        self._is_stale = True
        if reason.startswith("MOVED "):
            self._first = moved_to(reason, node)
        else:
            self._suspects[node] = time.monotonic()

    async def layout(self) -> list[Shard]:
        """The map on which every node of it agrees, and which leaves no slot out."""
        self._is_stale = True
        await self._look_if_stale()
        views = await asyncio.gather(*(self._view(node) for node in self._nodes()))
        if not views or any(view != views[0] for view in views):
            raise Unsettled("the nodes disagree about who serves which slots")
        missing = SLOTS - sum(last - first + 1 for shard in views[0] for first, last in shard.slots)
        if missing:
            raise Unsettled(f"{missing} slots have no primary")
        return views[0]

    def _nodes(self) -> list[Address]:
        return [node for shard in self._shards for node in (shard.primary, *shard.replicas)]

    def _order(self) -> list[Address]:
        """Who is asked first: the node that MOVED named, then those least recently found wanting."""
        known = dict.fromkeys((*self._nodes(), *self._seeds))
        calm = sorted(known, key=lambda node: self._suspects.get(node, 0.0))
        return calm if self._first is None else [self._first, *calm]

    async def _look_if_stale(self) -> None:
        async with self._looking:
            if not self._is_stale or time.monotonic() - self._looked < BETWEEN_LOOKS:
                return
            for node in self._order():
                try:
                    self._shards = await self._view(node)
                except (NotSent, Unanswered, ErrorReply):
                    self._suspects[node] = time.monotonic()
                    continue
                self._is_stale = False
                break
            self._first = None
            self._looked = time.monotonic()

    async def _view(self, node: Address) -> list[Shard]:
        async with await Wire.open(node, self._ask_access) as wire:
            return shards_from_slots(await wire.call("CLUSTER", "SLOTS"), node)


def moved_to(reason: str, node: Address) -> Address:
    """`MOVED <slot> <host>:<port>`; the host is empty when it is the one that answered."""
    host, _, port = reason.split(" ")[2].rpartition(":")
    return Address(host or node.host, int(port))

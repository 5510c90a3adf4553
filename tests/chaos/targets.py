"""Where the writes go: a plain server with replicas, or a cluster. Neither ever resends anything."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tests.chaos.slots import EVERY_SLOT, SlotRange
from tests.chaos.wire import OPEN, Access, Address, Reply, Wire, as_list, as_number, as_text

PrimarySource: TypeAlias = Address | Callable[[], Address | Awaitable[Address]]
ReplicaSource: TypeAlias = Callable[[], Sequence[Address]]


class Unsettled(Exception):
    """The servers do not agree, or do not say, who holds the data."""


@dataclass(frozen=True)
class Shard:
    name: str
    slots: tuple[SlotRange, ...]
    primary: Address
    replicas: tuple[Address, ...]


class Target(Protocol):
    @property
    def access(self) -> Access: ...

    @property
    def is_cluster(self) -> bool: ...

    async def connect(self, slot: int) -> Wire:
        """A new connection to the primary of the slot; raises NotSent."""

    def suspect(self, node: Address, reason: str) -> None:
        """A write to the node was not acknowledged, and this is what was said instead."""

    async def layout(self) -> list[Shard]:
        """Who holds the data now; raises Unsettled, NotSent, Unanswered or ErrorReply."""


class PlainTarget:
    """A primary with replicas. An address may be a Service, which always leads to the primary.

    Replicas are learned from the primary unless the caller says where they are, which is needed
    where they announce themselves by names that cannot be resolved from here.
    """

    is_cluster = False

    def __init__(
        self, primary: PrimarySource, access: Access = OPEN, replicas: ReplicaSource | None = None
    ) -> None:
        self.access = access
        self._primary = primary
        self._replicas = replicas

    def __str__(self) -> str:
        return f"plain {self._primary}" if isinstance(self._primary, Address) else "plain"

    async def connect(self, slot: int) -> Wire:  # noqa: ARG002 (every slot is in the same place)
        return await Wire.open(await self._where(), self.access)

    def suspect(self, node: Address, reason: str) -> None:
        """Nothing is remembered here: the next connection asks again where the primary is."""

    async def layout(self) -> list[Shard]:
        primary = await self._where()
        replicas = tuple(self._replicas()) if self._replicas else await self._announced(primary)
        return [Shard("all", EVERY_SLOT, primary, replicas)]

    async def _where(self) -> Address:
        if isinstance(self._primary, Address):
            return self._primary
        place = self._primary()
        return await place if inspect.isawaitable(place) else place

    async def _announced(self, primary: Address) -> tuple[Address, ...]:
        async with await Wire.open(primary, self.access) as wire:
            role = as_list(await wire.call("ROLE"))
        if role[0] != "master":
            raise Unsettled(f"{primary} should be the primary, but says that it is a {role[0]}")
        return tuple(_announced_address(entry) for entry in as_list(role[2]))


def _announced_address(entry: Reply) -> Address:
    host, port, _ = as_list(entry)
    return Address(as_text(host), int(as_text(port)))


def shards_from_slots(reply: Reply, asked: Address) -> list[Shard]:
    """The answer to CLUSTER SLOTS, which is right sooner after a change than CLUSTER SHARDS."""
    slots: dict[Address, list[SlotRange]] = {}
    replicas: dict[Address, tuple[Address, ...]] = {}
    for entry in as_list(reply):
        first, last, *nodes = as_list(entry)
        primary, *others = (_node_address(node, asked) for node in nodes)
        slots.setdefault(primary, []).append((as_number(first), as_number(last)))
        replicas[primary] = tuple(sorted(others))
    return [
        Shard(_shard_name(ranges), tuple(sorted(ranges)), primary, replicas[primary])
        for primary, ranges in sorted(slots.items(), key=lambda item: min(item[1]))
    ]


def _shard_name(ranges: list[SlotRange]) -> str:
    (first, last), *others = sorted(ranges)
    return f"{first}-{last}" + (f" and {len(others)} more ranges" if others else "")


def _node_address(node: Reply, asked: Address) -> Address:
    """Prefers the IP: a hostname may mean nothing here, and a node may not know its own address."""
    endpoint, port, _, *rest = as_list(node)
    metadata = as_list(rest[0]) if rest else []
    named = dict(zip(metadata[::2], metadata[1::2], strict=True))
    host = named.get("ip") or endpoint or asked.host
    return Address(as_text(host), as_number(port))

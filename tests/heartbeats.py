"""Operators that hear heartbeats, and sidecars that send them, over real TLS on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.mtls import ISSUING, material, node
from tests.pki import NODE, OPERATOR
from valkey_operator.contract.heartbeat import Address
from valkey_operator.contract.identity import NodeIdentity
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator import heartbeats
from valkey_operator.operator.observations import Events, Observations
from valkey_operator.sidecar.heartbeat import Sender
from valkey_operator.sidecar.metrics import Counts
from valkey_operator.sidecar.outbox import Outbox

KEY = Key(NODE.namespace, NODE.node)
UID = "uid-1"


@dataclass
class Lead:
    """Who leads, in the eyes of one operator."""

    identity: str
    leader: str = ""

    @property
    def leads(self) -> bool:
        return self.leader == self.identity


@dataclass
class Operator:
    """One replica, on an address of its own; all of them have the same port, as in a cluster."""

    lead: Lead
    credentials: Credentials = field(
        default_factory=lambda: Credentials.from_bytes(material(ISSUING.operator()))
    )
    pods: dict[Key, heartbeats.CurrentPod] = field(
        default_factory=lambda: {KEY: heartbeats.CurrentPod(NODE, UID)}
    )
    missing: heartbeats.Missing = heartbeats.Missing.POD
    observations: Observations = field(default_factory=Observations)
    grants: dict[str, contract.LeaseGrant] = field(default_factory=dict)
    heard: list[contract.Observation] = field(default_factory=list)
    events: list[contract.Event] = field(default_factory=list)
    port: int = 0
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __post_init__(self) -> None:
        self.observations.on_change(self._hear)

    @property
    def address(self) -> Address:
        return Address(heartbeats.pod_address(self.lead.identity), self.port)

    def _hear(
        self, _key: Key, _before: contract.Observation | None, after: contract.Observation, events: Events
    ) -> None:
        self.heard.append(after)
        self.events.extend(events)

    def grant(self, identity: NodeIdentity, _request: contract.LeaseRequest) -> contract.LeaseGrant | str:
        return self.grants.get(identity.node, f"{identity.node} is not the primary")

    async def start(self) -> None:
        self._open = AsyncExitStack()
        serving = heartbeats.opened(
            self.credentials,
            self.lead,
            lambda key: self.pods.get(key, self.missing),
            self.observations,
            self.grant,
            self.port,
            self.address.host,
        )
        self.port = await self._open.enter_async_context(serving)

    async def stop(self) -> None:
        await self._open.aclose()


def operator(number: int, leader: int = 0, port: int = 0) -> Operator:
    """`number` is its own, `leader` that of the one it takes for the leader; 0 is nobody."""
    return Operator(Lead(_identity(number), _identity(leader) if leader else ""), port=port)


def _identity(number: int) -> str:
    return f"valkey-operator-{number}_127.0.0.{number}_5eed"


def lead(leader: int, *operators: Operator) -> None:
    """From now on, in the eyes of all."""
    for each in operators:
        each.lead.leader = _identity(leader) if leader else ""


@asynccontextmanager
async def started(*operators: Operator) -> AsyncIterator[None]:
    port = 0
    try:
        for each in operators:
            each.port = each.port or port
            await each.start()
            port = each.port
        yield
    finally:
        for each in operators:
            await each.stop()


class Sidecar:
    """The sender of one node, with its own events."""

    def __init__(self, service: Address, credentials: Credentials | None = None) -> None:
        self.outbox = Outbox()
        self.credentials = credentials or node()
        self.sequence = 0
        self.counts = Counts()
        self.sender = Sender(self.outbox, self.observe, self.credentials, OPERATOR, service, self.counts)

    def observe(self) -> contract.Observation:
        self.sequence += 1
        return contract.Observation(node=NODE.node, pod_uid=UID, run=1, sequence=self.sequence)

    def tell(self, message: str) -> None:
        self.outbox.tell(contract.Event.KIND_ROLE_CHANGED, message)


@asynccontextmanager
async def sending(sidecar: Sidecar) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(sidecar.sender.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def eventually(claim: Callable[[], bool], patience: float = 10.0) -> float:
    """The seconds until it is true."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not claim():
        assert loop.time() < begun + patience, f"not true within {patience} s"
        await asyncio.sleep(0.01)
    return loop.time() - begun

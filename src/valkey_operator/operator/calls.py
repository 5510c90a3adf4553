"""The operator's calls to sidecars, to exactly the pod and the node that are meant.

Every way to fail ends in `Unanswered` with one sentence; a node that cannot be asked is not a node that is gone.
Whoever has lost the lead sends nothing more: a sidecar cannot tell a former leader's order from its successor's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from valkey_operator.contract.channel import PORT, Unanswered, answered
from valkey_operator.contract.identity import KINDS, NodeIdentity, Scope
from valkey_operator.contract.kept import Kept
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.kube.errors import NotLeader
from valkey_operator.kube.transport import Fence
from valkey_operator.operator.seen import Custom, Pod

OBSERVE_LIMIT = 3.0
# Beside what the order itself may take: for the connection and the way back.
WAY = 3.0
ORDER_LIMIT = 10.0
AT_ONCE = 64


class Caller(Protocol):
    """Who can ask sidecars and order them."""

    async def observe(
        self, node: Custom, pod: Pod, limit: float = OBSERVE_LIMIT, *, slot_keys: bool = False
    ) -> contract.Observation: ...

    async def act(self, node: Custom, pod: Pod, order: contract.Order) -> contract.Outcome: ...


class Sidecars:
    """All of them. Without credentials, as before the first certificate is there, nobody is asked."""

    def __init__(
        self, credentials_of: Callable[[], Credentials | None], trust_domain: str, fence: Fence,
        port: int = PORT,
    ) -> None:  # fmt: skip
        self._credentials_of = credentials_of
        self._trust_domain = trust_domain
        self._fence = fence
        self._port = port
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._kept = Kept()

    async def run(self) -> None:
        """Until cancelled: then no connection is left open."""
        try:
            await asyncio.Event().wait()
        finally:
            self._kept.close()

    async def observe(
        self, node: Custom, pod: Pod, limit: float = OBSERVE_LIMIT, *, slot_keys: bool = False
    ) -> contract.Observation:
        """What the sidecar of this very pod sees; with `slot_keys` also how many keys are in each slot."""
        request = contract.ObserveRequest(pod_uid=pod.metadata.uid, fresh=True, slot_keys=slot_keys)
        async with self._calling(node, pod) as stub:
            seen: contract.Observation = await answered(stub.Observe(request), limit)
        return seen

    async def act(self, node: Custom, pod: Pod, order: contract.Order) -> contract.Outcome:
        """One order, for this very pod."""
        addressed = contract.Order()
        addressed.CopyFrom(order)
        addressed.pod_uid = pod.metadata.uid
        limit = (order.limit_milliseconds / 1000 or ORDER_LIMIT) + WAY
        async with self._calling(node, pod) as stub:
            outcome: contract.Outcome = await answered(stub.Act(addressed), limit)
        return outcome

    @asynccontextmanager
    async def _calling(self, node: Custom, pod: Pod) -> AsyncIterator[NodeStub]:
        credentials = self._credentials_of()
        if credentials is None:
            raise Unanswered("the operator has no certificate yet to show to sidecars")
        if not pod.status.pod_ip:
            raise Unanswered(f"pod {pod.metadata.name} has no address yet")
        peer = identity_of(node, self._trust_domain)
        async with (
            self._slots,
            self._kept.opened(pod.status.pod_ip, credentials, peer, self._port) as channel,
        ):
            self._check_lead()
            yield NodeStub(channel)

    def _check_lead(self) -> None:
        """The last look before anything leaves: a process that was frozen wakes with its connections still open."""
        try:
            self._fence.time_left()
        except NotLeader as why:
            raise Unanswered(f"nothing was sent: {why}") from None


def identity_of(node: Custom, trust_domain: str) -> NodeIdentity:
    """The only one that may answer for this node: a part of the deployment that owns it."""
    for owner in node.metadata.owner_references:
        if owner.controller and owner.kind in KINDS:
            scope = Scope(node.metadata.namespace, owner.kind, owner.name, trust_domain)
            return scope.node(node.metadata.name)
    raise Unanswered(f"node {node.metadata.name} belongs to no deployment")

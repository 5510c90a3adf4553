"""What the operator hears from sidecars, and whom it wakes: only news do, a heartbeat that says the same does not."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from valkey_operator.api.events import EventReason
from valkey_operator.contract.identity import NodeIdentity
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key, Object
from valkey_operator.operator import heartbeats, lag
from valkey_operator.operator.calls import identity_of
from valkey_operator.operator.heartbeats import CurrentPod, Grant, Leadership, Missing
from valkey_operator.operator.node import is_managed
from valkey_operator.operator.observations import Events
from valkey_operator.operator.seen import VALKEY_NODES
from valkey_operator.operator.world import BY_NODE, World

WORTH_AN_EVENT = {
    contract.Event.KIND_SERVER_HUNG: EventReason.SERVER_HUNG,
    contract.Event.KIND_DISK_FULL: EventReason.DISK_FULL,
    contract.Event.KIND_FENCED: EventReason.FENCED,
    contract.Event.KIND_STARTED_EMPTY: EventReason.STARTED_EMPTY,
}
log = logging.getLogger(__name__)


Wake = Callable[[Key], None]


class Hearing:
    """Listens as soon as the operator has a certificate, and wakes those whom news concern, by node."""

    def __init__(self, world: World, leadership: Leadership) -> None:
        self._world, self._leadership = world, leadership
        self._wake: list[Wake] = []
        self._wake_for_others: list[Wake] = []
        self.grant: Grant = lambda identity, _request: f"nobody grants {identity} anything"
        world.observations.on_change(self._heard)
        world.caches.nodes.store.on_change(self._node_changed)

    def wakes(self, wake: Wake, *, for_others: bool = False) -> None:
        """For what a node says of itself; or also `for_others`, for what it says of those it is in company with.

        While many get to know each other, each of them has something new to say of the others all the time.
        """
        self._wake.append(wake)
        if for_others:
            self._wake_for_others.append(wake)

    async def run(self) -> None:
        credentials = await self._world.identity.wait()
        settings, observations = self._world.settings, self._world.observations
        async with heartbeats.opened(
            credentials,
            self._leadership,
            self.current_pod,
            observations,
            self._answer,
            trust_domain=settings.trust_domain,
        ) as port:
            log.info("listens to sidecars on port %d", port)
            await asyncio.get_running_loop().create_future()  # until cancelled

    def _answer(self, identity: NodeIdentity, request: contract.LeaseRequest) -> contract.LeaseGrant | str:
        return self.grant(identity, request)

    def current_pod(self, key: Key) -> CurrentPod | Missing:
        nodes = self._world.caches.nodes
        node = nodes.store.get(key)
        found = self._world.caches.pods.store.by(BY_NODE, key.name)
        pods = [pod for pod in found if pod.metadata.namespace == key.namespace]
        if node is None and nodes.trouble() is None:
            return Missing.NODE
        if node is None or not is_managed(node) or len(pods) != 1:
            return Missing.POD
        return CurrentPod(identity_of(node, self._world.settings.trust_domain), pods[0].metadata.uid)

    def _heard(
        self, key: Key, before: contract.Observation | None, after: contract.Observation, events: Events
    ) -> None:
        for event in events:
            log.info("%s: %s %s", key, _name_of(event), event.message)
            self._pass_on(key, event)
        if events or before is None or _news(before) != _news(after):
            woken = self._wake
        elif _news_of_others(before) != _news_of_others(after):
            woken = self._wake_for_others
        else:
            return
        for wake in woken:
            wake(key)

    def _pass_on(self, key: Key, event: contract.Event) -> None:
        """What a person must know is an Event of the node."""
        node, reason = self._world.caches.nodes.store.get(key), WORTH_AN_EVENT.get(event.kind)
        if node is not None and reason is EventReason.STARTED_EMPTY and "valkeyVersion" not in node.status:
            return  # its first start: there was never anything
        if node is not None and reason is not None and event.message:
            self._world.tell((VALKEY_NODES, node.metadata), reason, event.message)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            self._world.observations.forget(before.key)


def _name_of(event: contract.Event) -> str:
    """A newer sidecar may tell what this operator has no name for."""
    kinds = contract.Event.Kind
    return kinds.Name(event.kind) if event.kind in kinds.values() else f"event {event.kind}"


def _news(seen: contract.Observation) -> tuple[object, ...]:
    """All of itself that somebody decides by; not what moves all the time."""
    server = seen.server
    return (
        seen.pod_uid,
        seen.not_ready,
        seen.is_fenced,
        seen.gate.waits_for,
        seen.fingerprints.SerializeToString(deterministic=True),
        (seen.record.epoch, seen.record.primary),
        seen.taken_over.SerializeToString(deterministic=True),
        (server.answers, server.role, server.version, server.is_loading, server.memory.max_bytes),
        # As exactly as a status tells it: see `cluster_status.steady`.
        round(math.log(server.memory.used_bytes + 1, 1.125)),
        (server.replication.primary_address, server.replication.link_is_up),
        (server.cluster.node_id, server.cluster.state),
        (seen.disk.is_full, server.persistence.last_write_failed, server.persistence.last_save_failed),
    )


def _news_of_others(seen: contract.Observation) -> tuple[object, ...]:
    """Who is a member and owns what, and how far replicas are; links come and go."""
    members = tuple(
        (each.id, each.role, each.primary_id, each.is_failed, tuple((s.first, s.last) for s in each.slots))
        for each in sorted(seen.server.cluster.nodes, key=lambda each: each.id)
    )
    return lag.behind(seen), members

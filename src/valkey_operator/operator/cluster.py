"""A ValkeyCluster: shards of one primary and its replicas. Sees, lets `decide` plan, carries it out, reports."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Any

from valkey_operator.contract.channel import Unanswered
from valkey_operator.decide.formation import awaited
from valkey_operator.decide.shard_succession import elections, in_office
from valkey_operator.decide.sharded import SCALING, Plan, plan
from valkey_operator.decide.support import Refusal
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again
from valkey_operator.kube.objects import Key, Object
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import SeenSharded
from valkey_operator.operator.calls import OBSERVE_LIMIT, Caller
from valkey_operator.operator.care import RESYNC, Care
from valkey_operator.operator.cluster_seen import ClusterSight
from valkey_operator.operator.cluster_status import status
from valkey_operator.operator.cluster_steps import ClusterSteps
from valkey_operator.operator.instance_seen import Sight
from valkey_operator.operator.making import noting
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.node_steps import Failed
from valkey_operator.operator.pace import Pace
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import World
from valkey_operator.render import service

SOON = 0.5
# For an answer of a node that was just asked in vain.
ASK_AGAIN = 0.5
NEEDS_NO_REST, LONGEST_REST = 0.2, 2.0
log = logging.getLogger(__name__)


class ClusterController(Care):
    """Keyed by ValkeyCluster."""

    def __init__(self, world: World, sidecars: Caller, memory: Memory, sight: Sight) -> None:
        self._sidecars, self._memory = sidecars, memory
        self._sight = ClusterSight(world, memory, sight)
        super().__init__(world, "cluster", "ValkeyCluster", world.caches.clusters, self._sight)
        self._steps = ClusterSteps(world, sidecars, self._sight)
        self._pace = Pace()
        # Until when a cluster that starts is left in peace.
        self._rests: dict[Key, float] = {}
        self.controller.watches(world.caches.machines, self._on)

    def _forget(self, key: Key) -> None:
        super()._forget(key)
        self._pace.forget(key)
        self._sight.forget(key)
        self._steps.forget(key)
        self._rests.pop(key, None)

    async def reconcile(self, key: Key) -> Again:
        left = self._rests.get(key, 0.0) - time.monotonic()
        return left if left > 0 and not self._sight.are_all_heard(key) else await super().reconcile(key)

    def _rest(self, key: Key, begun: float) -> None:
        """While many servers start, they need the processors more than who looks at them all: a look that took long is
        followed by a rest as long, unless the last of them is heard. Only before there is a cluster: nothing is at
        stake then."""
        now = time.monotonic()
        self._rests[key] = now + min(now - begun - NEEDS_NO_REST, LONGEST_REST)

    async def _make(self, item: Custom, deployment: Deployment, denied: list[str]) -> None:
        """Addresses, and the specs of nodes."""
        for wanted in service.services(deployment, "", self._last_good(item, deployment)):
            with noting(denied):
                await self._world.writer.apply(self._world.caches.services, wanted)
        await self._making.rest(deployment, self._sight.nodes(item.key), denied)
        for node in self._sight.nodes(item.key):
            if not node.metadata.deletion_timestamp:
                wanted = self._steps.rendered(deployment, node.metadata.name)
                with noting(denied):
                    await self._world.writer.apply(self._world.caches.nodes, wanted)

    async def _look(
        self, item: Custom, deployment: Deployment, denied: list[str], refused: Refusal | None
    ) -> float:
        begun = time.monotonic()
        seen, found = await self._planned(item, deployment, denied)
        for each in elections(seen):
            item = await self._steps.note_election(item, each)
        self._sight.note_seen(item.key, in_office(seen))
        said, again = [*denied, *self._notes(item.key, found.report.state)], found.again
        try:
            item = await self._steps.carry_out(found.stages, item, deployment, seen)
        except (Failed, *errors.DENIED) as why:
            said, again = [str(why), *said], found.again if found.is_in_vain else SOON
            # Steps before the one that failed may have recorded something.
            item = self._world.caches.clusters.store.get(item.key) or item
            log.warning("%s", why)
        after = self._status(item, deployment, found, said)
        pause = await self._tell(item, after, refused, deployment, denied)
        if awaited(seen.cluster):
            self._rest(item.key, begun)
        if found.stages and not found.is_in_vain:
            again = min(again or SOON, SOON)
        return min(each for each in (again, pause, RESYNC) if each is not None)

    async def _planned(
        self, item: Custom, deployment: Deployment, denied: list[str]
    ) -> tuple[SeenSharded, Plan]:
        """Those who must be asked first are asked, all at once; nobody twice."""
        answers: dict[str, bool] = {}
        seen = self._sight.see(item, deployment, answers)
        found = plan(seen)
        while found.ask:
            with noting(denied):
                await self._steps.carry_out(found.stages, item, deployment, seen)
            counts = seen.is_to_be_counted
            said = await asyncio.gather(*(self._ask(item.key, name, counts=counts) for name in found.ask))
            answers |= zip(found.ask, said, strict=True)
            seen = self._sight.see(item, deployment, answers)
            found = plan(seen)
        if found.report.operation is None or found.report.operation.kind != SCALING:
            self._sight.forget_keys(item.key)
        return seen, found

    async def _ask(self, deployment: Key, name: str, *, counts: bool) -> bool:
        node = self._world.caches.nodes.store.get(Key(deployment.namespace, name))
        pod = self._sight.pod(node) if node is not None else None
        if node is None or pod is None or not pod.status.pod_ip:
            return False
        known = self._memory.of(node.key)
        try:
            limit = ASK_AGAIN if known.has_not_answered else OBSERVE_LIMIT
            observation = await self._sidecars.observe(node, pod, limit, slot_keys=counts)
        except Unanswered as why:
            log.info("%s does not answer: %s", name, why)
            known.has_not_answered = True
            return False
        if counts:
            self._sight.note_keys(deployment, observation.server)
        self._world.observations.take(node.key, observation)
        return True

    def _status(self, item: Custom, deployment: Deployment, found: Plan, said: list[str]) -> dict[str, Any]:
        return status(
            item, deployment, found, said, datetime.now(UTC), self._seconds_left(item, found),
            self._sight.zones(item.key), self._steps.pause(item),
        )  # fmt: skip

    def _seconds_left(self, item: Custom, found: Plan) -> float | None:
        doing = found.report.operation
        if doing is None or doing.done is None or doing.total is None:
            self._pace.forget(item.key)
            return None
        return self._pace.seconds_left(item.key, doing.done, doing.total)

    def _on(self, machine: Object) -> list[Key]:
        """Those with a server there, or that had one there when it was last heard."""
        return self._sight.on(machine.metadata.name)

"""A ValkeyCluster: shards of one primary and its replicas. Sees, lets `decide` plan, carries it out, reports."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

from valkey_operator.contract.channel import Unanswered
from valkey_operator.decide.shard_succession import elections
from valkey_operator.decide.sharded import Plan, plan
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.objects import Key, Object
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import SeenSharded
from valkey_operator.operator.accepted import REFUSED_AGAIN, Accepted
from valkey_operator.operator.calls import OBSERVE_LIMIT, Caller
from valkey_operator.operator.calm import Calm
from valkey_operator.operator.cluster_seen import ClusterSight
from valkey_operator.operator.cluster_status import status
from valkey_operator.operator.cluster_steps import ClusterSteps
from valkey_operator.operator.instance_report import refused_status
from valkey_operator.operator.instance_seen import Sight
from valkey_operator.operator.instance_steps import label_roles
from valkey_operator.operator.making import Making, noting
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.node_steps import Failed
from valkey_operator.operator.pace import Pace
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import World
from valkey_operator.render import marks, service

RESYNC = 600.0
SOON = 0.5
# For an answer of a node that was just asked in vain.
ASK_AGAIN = 0.5
log = logging.getLogger(__name__)


class ClusterController:
    """Keyed by ValkeyCluster."""

    def __init__(self, world: World, sidecars: Caller, memory: Memory, sight: Sight) -> None:
        self._world, self._sidecars, self._memory = world, sidecars, memory
        self._making = Making(world)
        self._sight = ClusterSight(world, memory, sight)
        self._steps = ClusterSteps(world, sidecars, self._sight)
        self._calm, self._pace, self._accepted = Calm(), Pace(), Accepted(world.caches)
        self.controller = Controller("cluster", self.reconcile, settle=world.writer.settle)
        caches = world.caches
        self.controller.watches(caches.clusters, itself)
        self.controller.watches(caches.defaults, self._concerned)
        self.controller.watches(caches.nodes, label(marks.CLUSTER))
        self.controller.watches(caches.pods, label(marks.CLUSTER))
        self.controller.watches(caches.machines, self._on)
        for made in (caches.services, caches.secrets, caches.budgets):
            self.controller.watches(made, label(marks.CLUSTER))

    def wake(self, node: Key) -> None:
        """A sidecar has said something new."""
        found = self._world.caches.nodes.store.get(node)
        for key in label(marks.CLUSTER)(found) if found else ():
            self.controller.wake(key)

    async def reconcile(self, key: Key) -> Again:
        item = self._world.caches.clusters.store.get(key)
        if item is None or item.metadata.deletion_timestamp:
            self._calm.forget(key)
            self._accepted.forget(key)
            self._pace.forget(key)
            self._sight.forget(key)
            return None
        deployment, refused = self._accepted.judged(self._world.deployments.of("ValkeyCluster", item))
        if refused is not None:
            item = await self._write(item, refused_status(item, refused, datetime.now(UTC)))
        if deployment is None:
            return REFUSED_AGAIN
        denied: list[str] = []
        if refused is None and not deployment.value("paused"):
            await self._make(item, deployment, denied)
        return await self._look(item, deployment, denied, is_told=refused is None)

    async def _make(self, item: Custom, deployment: Deployment, denied: list[str]) -> None:
        """What the API server denies is told, and keeps no shard from being healed."""
        with noting(denied):
            await self._making.users(deployment)
        for wanted in service.services(deployment, ""):
            with noting(denied):
                await self._world.writer.apply(self._world.caches.services, wanted)
        await self._making.rest(deployment, denied)
        for node in self._sight.nodes(item.key):
            if not node.metadata.deletion_timestamp:
                wanted = self._steps.rendered(deployment, node.metadata.name)
                with noting(denied):
                    await self._world.writer.apply(self._world.caches.nodes, wanted)

    async def _look(self, item: Custom, deployment: Deployment, denied: list[str], *, is_told: bool) -> Again:
        seen, found = await self._planned(item, deployment)
        for each in elections(seen):
            item = await self._steps.note_election(item, each)
        said, again = denied, found.again
        try:
            item = await self._steps.carry_out(found.stages, item, deployment, seen)
        except (Failed, *errors.DENIED) as why:
            said, again = [str(why), *denied], SOON
            # Steps before the one that failed may have recorded something.
            item = self._world.caches.clusters.store.get(item.key) or item
            log.warning("%s", why)
        pause = await self._report(item, deployment, found, said) if is_told else None
        await self._label(item.key)
        if found.stages:
            again = min(again or SOON, SOON)
        resync = RESYNC if is_told and not denied else REFUSED_AGAIN
        return min(each for each in (again, pause, resync) if each is not None)

    async def _planned(self, item: Custom, deployment: Deployment) -> tuple[SeenSharded, Plan]:
        """Those who must be asked first are asked, all at once."""
        seen = self._sight.see(item, deployment, {})
        found = plan(seen)
        if found.ask:
            if found.stages:
                await self._steps.carry_out(found.stages, item, deployment, seen)
            answers = await asyncio.gather(*(self._ask(item.key, name) for name in found.ask))
            seen = self._sight.see(item, deployment, dict(zip(found.ask, answers, strict=True)))
            found = plan(seen)
        return seen, found

    async def _ask(self, deployment: Key, name: str) -> bool:
        node = self._world.caches.nodes.store.get(Key(deployment.namespace, name))
        pod = self._sight.pod(node) if node is not None else None
        if node is None or pod is None:
            return False
        known = self._memory.of(node.key)
        try:
            observation = await self._sidecars.observe(
                node, pod, ASK_AGAIN if known.has_not_answered else OBSERVE_LIMIT
            )
        except Unanswered as why:
            log.info("%s does not answer: %s", name, why)
            known.has_not_answered = True
            return False
        self._world.observations.take(node.key, observation)
        return True

    async def _report(
        self, item: Custom, deployment: Deployment, found: Plan, said: list[str]
    ) -> float | None:
        after = status(
            item, deployment, found, said, datetime.now(UTC), self._seconds_left(item, found),
            self._sight.zones(item.key),
        )  # fmt: skip
        pause = self._calm.pause(item.key, item.status, after)
        if not pause:
            await self._write(item, after)
        return pause or None

    async def _label(self, key: Key) -> None:
        await label_roles(self._world, [(node, self._sight.pod(node)) for node in self._sight.nodes(key)])

    def _seconds_left(self, item: Custom, found: Plan) -> float | None:
        doing = found.report.operation
        if doing is None or doing.done is None or doing.total is None:
            self._pace.forget(item.key)
            return None
        return self._pace.seconds_left(item.key, doing.done, doing.total)

    async def _write(self, item: Custom, after: dict[str, Any]) -> Custom:
        return await self._world.writer.status(
            self._world.caches.clusters, item, item.status, after, compare=True
        )

    def _on(self, machine: Object) -> list[Key]:
        """Those with a server there, or that had one there when it was last heard."""
        return self._sight.on(machine.metadata.name)

    def _concerned(self, item: Object) -> list[Key]:
        return self._world.deployments.concerned("ValkeyCluster", item.metadata.namespace)

"""What is done to one node of a deployment, of whatever kind: its sidecar is told, its pod restarted, it is removed."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from valkey_operator.api.events import EventReason
from valkey_operator.contract.channel import Unanswered
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.kube.resources import Resource
from valkey_operator.operator.calls import Caller
from valkey_operator.operator.node_status import is_deployment
from valkey_operator.operator.seen import Custom, Pod, sidecar_image
from valkey_operator.operator.world import World
from valkey_operator.render import marks
from valkey_operator.render.pod import SIDECAR

log = logging.getLogger(__name__)


class Failed(Exception):
    """A step did not come about. Its sentence says why."""


class NotDone(Failed):
    """The sidecar has answered that it was not done."""


class Sight(Protocol):
    def pod(self, node: Custom) -> Pod | None: ...


class NodeSteps:
    """For deployments of one kind."""

    def __init__(self, world: World, sidecars: Caller, sight: Sight, kind: Resource) -> None:
        self._world, self._sidecars, self._sight, self._kind = world, sidecars, sight, kind

    async def order(self, item: Custom, name: str, order: contract.Order) -> contract.Outcome:
        """What came of it; what was not done is a failed step."""
        node = self._node(item, name)
        pod = self._pod(node)
        if node is None or pod is None:
            raise Failed(f"{name} has no pod to be told")
        try:
            outcome = await self._sidecars.act(node, pod, order)
        except Unanswered as why:
            raise Failed(f"{name} did not answer: {why}") from None
        if outcome.HasField("observation"):
            self._world.observations.take(node.key, outcome.observation)
        if outcome.result != contract.RESULT_DONE:
            raise NotDone(f"{name} did not do it: {outcome.message} ({outcome.guard or 'no guard'})")
        return outcome

    async def restart(self, item: Custom, name: str, reason: str) -> None:
        node = self._node(item, name)
        pod = self._pod(node)
        if node is None or pod is None or pod.metadata.deletion_timestamp:
            return
        # One that has failed has a successor already, and nothing but us takes it away.
        if is_deployment(node) and pod.status.phase not in ("Failed", "Succeeded"):
            await self._let_go(item, pod, reason)
            return
        note = f"pod {pod.metadata.name} is deleted for a restart: {reason}"
        self._world.tell((self._kind, item.metadata), EventReason.RESTARTING, note)
        await self._world.writer.delete(self._world.caches.pods, pod)

    async def _let_go(self, item: Custom, pod: Pod, reason: str) -> None:
        """Of a Deployment: deleted, it would come back from the template that it had. It is replaced by its Deployment,
        which holds still until then."""
        if marks.MAY_GO in pod.metadata.annotations:
            return
        note = f"pod {pod.metadata.name} is replaced for a restart: {reason}"
        self._world.tell((self._kind, item.metadata), EventReason.RESTARTING, note)
        body = {"metadata": {"uid": pod.metadata.uid, "annotations": {marks.MAY_GO: "yes"}}}
        await self._world.writer.patch(self._world.caches.pods, pod, body, form="merge")

    async def replace_sidecar(self, item: Custom, name: str) -> None:
        """Its kubelet starts that one container anew. What it replaces is noted, so that its end can be seen."""
        node = self._node(item, name)
        pod = self._pod(node)
        if node is None or pod is None or pod.sidecar is None:
            raise Failed(f"{name} has no sidecar to be replaced")
        index = [each.name for each in pod.spec.containers].index(SIDECAR)
        path, image = f"/spec/containers/{index}", sidecar_image(node)
        mark = f"/metadata/annotations/{marks.SIDECAR_BEFORE.replace('/', '~1')}"
        steps: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
            {"op": "test", "path": f"{path}/name", "value": SIDECAR},
            {"op": "add", "path": mark, "value": pod.sidecar.container_id},
            {"op": "replace", "path": f"{path}/image", "value": image},
        ]
        note = f"the sidecar of pod {pod.metadata.name} gets the image {image}; its server goes on"
        self._world.tell((self._kind, item.metadata), EventReason.SIDECAR_REPLACED, note)
        await self._say_it_is_replaced(item, name)
        await self._world.writer.patch(self._world.caches.pods, pod, steps, form="json")

    async def _say_it_is_replaced(self, item: Custom, name: str) -> None:
        """One that cannot be told, because it does not work, is replaced all the same: only later, at the end of the
        pod's grace period."""
        told = contract.Order(epoch=item.status.get("primaryEpoch", 0), step_aside=contract.StepAside())
        try:
            await self.order(item, name, told)
        except Failed as why:
            log.warning("the sidecar of %s does not know that it is replaced: %s", name, why)

    async def remove(self, item: Custom, name: str) -> None:
        node = self._node(item, name)
        if node is not None:
            # So that its pod is seen to go, and the next one goes only then.
            await self._world.writer.delete(self._world.caches.nodes, node, after_its_own=True)

    def _node(self, item: Custom, name: str) -> Custom | None:
        return self._world.caches.nodes.store.get(Key(item.metadata.namespace, name))

    def _pod(self, node: Custom | None) -> Pod | None:
        return self._sight.pod(node) if node is not None else None

"""One ValkeyNode: its workload, Service, claim and configuration, and in its status how its pod is."""

from __future__ import annotations

from typing import Any

from valkey_operator.api.reasons import Reason
from valkey_operator.api.status import State
from valkey_operator.contract.identity import KINDS
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, ManagedObject
from valkey_operator.kube.ownership import Difference
from valkey_operator.operator.seen import VALKEY_NODES, Custom, Pod, as_stored
from valkey_operator.operator.world import BY_NODE, World
from valkey_operator.render import marks
from valkey_operator.render.node import NodeObjects, identity_secret

RESYNC = 600.0


class NodeController:
    """Makes what a ValkeyNode asks for; has no opinion on topology."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.controller = Controller("valkeynode", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.nodes, itself)
        caches = world.caches
        for made in (
            caches.stateful_sets,
            caches.deployments,
            caches.services,
            caches.config_maps,
            caches.claims,
            caches.secrets,
        ):
            self.controller.watches(made, label(marks.NODE))
        self.controller.watches(caches.pods, label(marks.NODE))

    async def reconcile(self, key: Key) -> Again:
        node = self._world.caches.nodes.store.get(key)
        if node is None or node.metadata.deletion_timestamp:
            return None
        if not _is_managed(node):
            await self._leave_alone(node)
            return None
        await self._make(node)
        await self._report(node)
        return RESYNC

    async def _leave_alone(self, node: Custom) -> None:
        reason = Reason.NOT_MANAGED
        after = {"state": State.FAILED, "reason": reason, "message": reason.sentence}
        await self._world.writer.status(self._world.caches.nodes, node, node.status, after)

    async def _make(self, node: Custom) -> None:
        caches, objects = self._world.caches, NodeObjects(as_stored(node))
        await self._apply(node, caches.config_maps, objects.config_map())
        await self._apply(node, caches.services, objects.service())
        claim = objects.claim()
        if claim is not None:
            await self._apply(node, caches.claims, claim)
        if Key(node.metadata.namespace, identity_secret(node.metadata.name)) not in caches.secrets.store:
            return  # a pod without certificate would be out of reach for a minute; woken when it is there
        if _is_deployment(node):
            await self._apply(node, caches.deployments, objects.deployment())
        else:
            await self._apply(node, caches.stateful_sets, objects.stateful_set())

    async def _apply(self, node: Custom, cache: Informer[ManagedObject], wanted: dict[str, Any]) -> None:
        applied = await self._world.writer.apply(cache, wanted)
        if applied.undone:
            self._tell_undone(node, f"{cache.resource.kind} {wanted['metadata']['name']}", applied.undone)

    def _tell_undone(self, node: Custom, what: str, undone: tuple[Difference, ...]) -> None:
        note = f"{what} was changed by somebody else and put back: {'; '.join(map(str, undone))}"
        self._world.recorder.event(
            (VALKEY_NODES, node.metadata), "DriftUndone", note, type="Warning", action="Undo"
        )

    async def _report(self, node: Custom) -> None:
        pods = self._pods(node)
        pod = pods[0] if len(pods) == 1 else None
        is_ready = pod is not None and pod.is_ready
        after: dict[str, Any] = {
            "state": State.READY if is_ready else State.INITIALIZING,
            "message": "the server serves" if is_ready else _why_not(pods),
            "observedGeneration": node.metadata.generation,
            "serviceName": node.metadata.name,
            "managedResourceName": node.metadata.name,
            "managedResourceKind": "Deployment"
            if node.spec.get("podManagementType") == "deployment"
            else "StatefulSet",
            "ready": is_ready,
        }
        if node.spec.get("persistence", {}).get("enabled"):
            after["pvcName"] = f"{node.metadata.name}-data"
        if pod is not None:
            after |= {"podName": pod.metadata.name, "podIP": pod.status.pod_ip}
        await self._world.writer.status(self._world.caches.nodes, node, node.status, after)

    def _pods(self, node: Custom) -> list[Pod]:
        found = self._world.caches.pods.store.by(BY_NODE, node.metadata.name)
        here = (pod for pod in found if pod.metadata.namespace == node.metadata.namespace)
        return [pod for pod in here if not pod.metadata.deletion_timestamp]


def _why_not(pods: list[Pod]) -> str:
    if len(pods) != 1:
        return (
            "the pod is not there yet"
            if not pods
            else f"there are {len(pods)} pods of this node: one must go"
        )
    for condition in pods[0].status.conditions:
        if condition.type in ("PodScheduled", "Ready") and condition.status != "True" and condition.message:
            return condition.message
    return f"the pod is {pods[0].status.phase or 'Pending'}"


def _is_managed(node: Custom) -> bool:
    """Made for a deployment. One that somebody made by hand is nobody's, and is left alone."""
    return any(owner.controller and owner.kind in KINDS for owner in node.metadata.owner_references)


def _is_deployment(node: Custom) -> bool:
    return bool(node.spec.get("podManagementType") == "deployment")

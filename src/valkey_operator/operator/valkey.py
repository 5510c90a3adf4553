"""A Valkey: for now of one pod. Its users' Secret, its node, the Service that clients use, and its status."""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.decide import restart
from valkey_operator.decide.conditions import Condition, conditions
from valkey_operator.decide.support import Refusal, refusal
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.objects import Key, ManagedObject, Object
from valkey_operator.kube.resources import SECRETS
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.calm import Calm
from valkey_operator.operator.seen import VALKEY_NODES, Custom
from valkey_operator.operator.world import BY_DEPLOYMENT, World
from valkey_operator.render import marks, users
from valkey_operator.render.node import valkey_node
from valkey_operator.render.pod import OperatorPlace
from valkey_operator.render.service import primary_service

RESYNC = 600.0
FIRST_EPOCH = 1


class ValkeyController:
    """Observes one Valkey, decides whether it may act, makes what is missing, reports."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._calm = Calm()
        self.controller = Controller("valkey", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.valkeys, itself)
        self.controller.watches(world.caches.defaults, self._concerned)
        self.controller.watches(world.caches.nodes, label(marks.CLUSTER))
        self.controller.watches(world.caches.services, label(marks.CLUSTER))
        self.controller.watches(world.caches.secrets, label(marks.CLUSTER))

    async def reconcile(self, key: Key) -> Again:
        seen = self._world.caches.valkeys.store.get(key)
        if seen is None or seen.metadata.deletion_timestamp:
            self._calm.forget(key)
            return None
        deployment = self._world.deployments.of("Valkey", seen)
        refused = refusal(deployment)
        waits = ""
        if refused is None and not deployment.value("paused"):
            await self._make(deployment)
            waits = await self._restart(deployment)
        return await self._report(seen, deployment, refused, waits)

    async def _make(self, deployment: Deployment) -> None:
        writer, caches, primary = self._world.writer, self._world.caches, _primary(deployment)
        await self._make_users(deployment)
        settings = self._world.settings
        operator = OperatorPlace(settings.image, settings.namespace, settings.trust_domain)
        node = valkey_node(deployment, primary, primary, FIRST_EPOCH, operator, [primary])
        await writer.apply(caches.nodes, node)
        await writer.apply(caches.services, primary_service(deployment, primary))

    async def _restart(self, deployment: Deployment) -> str:
        """Delete the pod whose node needs it, where that loses nothing; else the sentence why not.

        There is nobody to hand over to: the server saves, stops, and comes back with what it saved.
        """
        caches = self._world.caches
        node = caches.nodes.store.get(Key(deployment.namespace, _primary(deployment)))
        is_told = node is not None and node.status.get("observedGeneration") == node.metadata.generation
        if node is None or not is_told or not node.status.get("needsRestart"):
            return ""
        pod = caches.pods.store.get(Key(deployment.namespace, node.status.get("podName", "")))
        if pod is None or pod.metadata.uid != node.status.get("podUID") or pod.metadata.deletion_timestamp:
            return ""
        reason = node.status.get("needsRestartReason", "")
        held = restart.held_back(deployment, pod.metadata.name, has_run=pod.status.phase != "Pending")
        if held:
            return f"needs a restart ({reason}), {held}"
        note = f"pod {pod.metadata.name} is deleted for a restart: {reason}"
        self._world.recorder.event((VALKEY_NODES, node.metadata), "Restarting", note, action="Restart")
        await self._world.writer.delete(caches.pods, pod)
        return ""

    def _concerned(self, item: Object) -> list[Key]:
        return self._world.deployments.concerned("Valkey", item.metadata.namespace)

    async def _make_users(self, deployment: Deployment) -> None:
        """Passwords are made once and never seen again: they go from here into the Secret."""
        name = f"{deployment.name}-system-users"
        if Key(deployment.namespace, name) in self._world.caches.secrets.store:
            return
        passwords = {user: secrets.token_urlsafe(32) for user in users.RULES}
        content = {
            "users.acl": users.users_acl(passwords),
            "sidecar-password": passwords[users.SIDECAR],
            "replication-password": passwords[users.REPLICATION],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": marks.metadata(deployment, name, "users"),
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in content.items()},
        }
        try:
            made = await self._world.client.create(SECRETS, deployment.namespace, body, ManagedObject)
        except errors.AlreadyExists:
            return  # the cache was behind; what is there stays
        self._world.caches.secrets.store.put(made)

    async def _report(
        self, seen: Custom, deployment: Deployment, refused: Refusal | None, waits: str
    ) -> float:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, deployment.name)
        nodes = [node for node in found if node.metadata.namespace == deployment.namespace]
        ready = sum(bool(node.status.get("ready")) for node in nodes)
        summary, generation = _summary(deployment, nodes, refused, waits), seen.metadata.generation
        said = _conditions(summary, bool(deployment.value("paused")))
        after = {
            **summary,
            "observedGeneration": generation,
            "conditions": conditions(seen.status, said, generation, datetime.now(UTC)),
            "selector": f"{marks.CLUSTER}={deployment.name}",
            "totalReplicas": len(nodes),
            "readyReplicas": ready,
        }
        if nodes:
            after |= {"primary": _primary(deployment), "primaryEpoch": FIRST_EPOCH}
        if pause := self._calm.pause(seen.key, seen.status, after):
            return pause
        await self._world.writer.status(self._world.caches.valkeys, seen, seen.status, after)
        return RESYNC


def _primary(deployment: Deployment) -> str:
    """Of one pod there is no choice."""
    return f"{deployment.name}-0"


def _summary(
    deployment: Deployment, nodes: list[Custom], refused: Refusal | None, waits: str
) -> dict[str, str]:
    """State, reason and message, in this order of weight: refused, paused, ready, on its way."""
    if refused is not None:
        return {"state": State.FAILED, "reason": refused.reason, "message": refused.message[:1024]}
    waiting = [node for node in nodes if not node.status.get("ready")]
    is_ready = bool(nodes) and not waiting
    if deployment.value("paused"):
        state = State.READY if is_ready else State.DEGRADED
        return {"state": state, "reason": Reason.PAUSED, "message": Reason.PAUSED.sentence}
    if is_ready:
        healthy = Reason.ALL_NODES_HEALTHY
        notes = [healthy.sentence, waits, *_notes(nodes)]
        return {"state": State.READY, "reason": healthy, "message": "; ".join(filter(None, notes))[:1024]}
    if waits:
        return {"state": State.INITIALIZING, "message": waits[:1024]}
    said = (node.status.get("message", "") for node in waiting)
    coming = Reason.INITIALIZING
    return {
        "state": State.INITIALIZING,
        "reason": coming,
        "message": next(filter(None, said), coming.sentence),
    }


def _conditions(summary: dict[str, str], is_paused: bool) -> list[Condition]:
    state, reason, message = summary["state"], summary["reason"], summary["message"]
    paused = Reason.PAUSED if is_paused else Reason.NOT_PAUSED
    return [
        Condition(ConditionType.READY, state == State.READY, reason, message),
        Condition(ConditionType.PROGRESSING, state == State.INITIALIZING, reason, message),
        Condition(ConditionType.DEGRADED, state in (State.DEGRADED, State.FAILED), reason, message),
        Condition(ConditionType.PAUSED, is_paused, paused, paused.sentence),
    ]


def _notes(nodes: list[Custom]) -> list[str]:
    """What nodes that serve have to say beside that."""
    said = (node.status.get("message", "").partition("; ")[2] for node in nodes)
    return list(filter(None, said))

"""A Valkey: for now of one pod. Its users' Secret, its node, the Service that clients use, and its status."""

from __future__ import annotations

import base64
import secrets

from valkey_operator.api import layers
from valkey_operator.api.reasons import Reason
from valkey_operator.api.status import State
from valkey_operator.decide.support import Refusal, refusal
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.objects import Key, ManagedObject, Object
from valkey_operator.kube.resources import SECRETS
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import BY_DEPLOYMENT, World
from valkey_operator.render import marks, users
from valkey_operator.render.node import valkey_node
from valkey_operator.render.service import primary_service

RESYNC = 600.0
DEFAULTS_NAME = "defaults"
FIRST_EPOCH = 1


class ValkeyController:
    """Observes one Valkey, decides whether it may act, makes what is missing, reports."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.controller = Controller("valkey", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.valkeys, itself)
        self.controller.watches(world.caches.defaults, self._all_of)
        self.controller.watches(world.caches.nodes, label(marks.CLUSTER))
        self.controller.watches(world.caches.services, label(marks.CLUSTER))
        self.controller.watches(world.caches.secrets, label(marks.CLUSTER))

    async def reconcile(self, key: Key) -> Again:
        seen = self._world.caches.valkeys.store.get(key)
        if seen is None or seen.metadata.deletion_timestamp:
            return None
        values = layers.effective("Valkey", seen.spec, self._defaults(key.namespace)).values
        deployment = Deployment("Valkey", key.name, key.namespace, seen.metadata.uid, values)
        refused = refusal(deployment)
        if refused is None and not deployment.value("paused"):
            await self._make(deployment)
        await self._report(seen, deployment, refused)
        return RESYNC

    async def _make(self, deployment: Deployment) -> None:
        writer, caches, primary = self._world.writer, self._world.caches, _primary(deployment)
        await self._make_users(deployment)
        image = self._world.settings.image
        node = valkey_node(deployment, primary, primary, FIRST_EPOCH, image, [primary])
        await writer.apply(caches.nodes, node)
        await writer.apply(caches.services, primary_service(deployment, primary))

    def _defaults(self, namespace: str) -> list[layers.Layer]:
        """From the weakest to the strongest: those of the operator's namespace, then those of its own."""
        store = self._world.caches.defaults.store
        places = dict.fromkeys((self._world.settings.namespace, namespace))
        found = [(place, store.get(Key(place, DEFAULTS_NAME))) for place in places]
        return [layers.Layer(f"defaults of namespace {place}", item.spec) for place, item in found if item]

    def _all_of(self, item: Object) -> list[Key]:
        """Defaults of the operator's namespace concern every Valkey, others those of their own."""
        place = item.metadata.namespace
        everywhere = place == self._world.settings.namespace
        return [
            each.key for each in self._world.caches.valkeys.store if everywhere or each.key.namespace == place
        ]

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

    async def _report(self, seen: Custom, deployment: Deployment, refused: Refusal | None) -> None:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, deployment.name)
        nodes = [node for node in found if node.metadata.namespace == deployment.namespace]
        ready = sum(bool(node.status.get("ready")) for node in nodes)
        after = {
            **_summary(deployment, nodes, refused),
            "observedGeneration": seen.metadata.generation,
            "selector": f"{marks.CLUSTER}={deployment.name}",
            "totalReplicas": len(nodes),
            "readyReplicas": ready,
        }
        if nodes:
            after |= {"primary": _primary(deployment), "primaryEpoch": FIRST_EPOCH}
        await self._world.writer.status(self._world.caches.valkeys, seen, seen.status, after)


def _primary(deployment: Deployment) -> str:
    """Of one pod there is no choice."""
    return f"{deployment.name}-0"


def _summary(deployment: Deployment, nodes: list[Custom], refused: Refusal | None) -> dict[str, str]:
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
        return {"state": State.READY, "reason": healthy, "message": healthy.sentence}
    said = (node.status.get("message", "") for node in waiting)
    return {"state": State.INITIALIZING, "message": next(filter(None, said), "the server is being made")}

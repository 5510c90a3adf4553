"""One ValkeyNode: its workload, Service, claim and configuration, and in its status how its pod is.

What can change in a running pod is changed there: configuration, resources, the size of the volume. What cannot is
named in `needsRestart`; when to restart is the topology's to decide.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from valkey_operator.api.events import EventReason
from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.contract.channel import Unanswered
from valkey_operator.contract.identity import KINDS
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import volume
from valkey_operator.decide.conditions import Condition
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key
from valkey_operator.kube.ownership import Difference
from valkey_operator.kube.writer import ManagedT
from valkey_operator.operator.accepted import REFUSED_AGAIN
from valkey_operator.operator.calls import Caller
from valkey_operator.operator.calm import Calm
from valkey_operator.operator.making import noting
from valkey_operator.operator.node_status import IN_FORCE, Findings, full_volume, is_deployment, status
from valkey_operator.operator.pod_changes import PodChanges
from valkey_operator.operator.seen import VALKEY_NODES, Custom, Pod, as_stored
from valkey_operator.operator.world import BY_NODE, World
from valkey_operator.render import marks
from valkey_operator.render.node import NodeObjects, authority_secret, fingerprint, identity_secret
from valkey_operator.valkey import config_file

RESYNC = 600.0
# While a change is on its way into a running pod.
SOON = 2.0
# Of a node that starts, between two words on how far it is: there are many of them, and people look at the deployment.
CALM = 5.0
log = logging.getLogger(__name__)


class NodeController:
    """Makes what a ValkeyNode asks for; has no opinion on topology."""

    def __init__(self, world: World, sidecars: Caller) -> None:
        self._world = world
        self._sidecars = sidecars
        self._changes = PodChanges(world)
        self._calm = Calm(CALM, is_calm_from_the_first=True)
        self.controller = Controller("valkeynode", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.nodes, itself)
        caches = world.caches
        for made in (caches.stateful_sets, caches.deployments, caches.services, caches.config_maps):
            self.controller.watches(made, label(marks.NODE))
        self.controller.watches(caches.claims, label(marks.NODE))
        self.controller.watches(caches.secrets, label(marks.NODE))
        self.controller.watches(caches.pods, label(marks.NODE))

    async def reconcile(self, key: Key) -> Again:
        node = self._world.caches.nodes.store.get(key)
        if node is None or node.metadata.deletion_timestamp:
            self._changes.forget(key)
            self._calm.forget(key)
            return None
        if not is_managed(node):
            await self._leave_alone(node)
            return None
        pods = self._pods(node)
        pod = current_pod(node, pods)
        denied: list[str] = []
        grown = await self._make_claim(node, pod, denied)
        mounted = await self._make_config(node, pod, denied)
        await self._make_rest(node, pod, pods, denied)
        seen = await self._hear(node, pod, mounted)
        found = await self._change(node, pod, seen, mounted, grown)
        others = len([each for each in pods if each is not pod and not each.metadata.deletion_timestamp])
        findings = replace(found, others=others, notes=[*found.notes, *denied])
        after = status(node, findings, datetime.now(UTC))
        late = self._changes.start_is_looked_at(key) if pod is not None else None
        if pause := self._calm.pause(key, node.status, after):
            return min(pause, late or pause)
        await self._world.writer.status(self._world.caches.nodes, node, node.status, after)
        again = min(_again(found, mounted, grown), late or RESYNC)
        if denied:
            return min(again or REFUSED_AGAIN, REFUSED_AGAIN)
        # Nobody tells when it turns out that there can be none.
        return again if self._has_certificate(node) else min(again or SOON, SOON)

    async def _leave_alone(self, node: Custom) -> None:
        reason = Reason.NOT_MANAGED
        after = {"state": State.FAILED, "reason": reason, "message": reason.sentence}
        await self._world.writer.status(self._world.caches.nodes, node, node.status, after)

    async def _make_config(self, node: Custom, pod: Pod | None, denied: list[str]) -> str:
        """The fingerprint of what is to be in force."""
        config_map = NodeObjects(as_stored(node)).config_map(self._changes.most_memory(node, pod))
        with noting(denied):
            await self._apply(node, self._world.caches.config_maps, config_map)
        return config_file.fingerprint(config_file.parse(config_map["data"].get("valkey.conf", "")))

    async def _make_rest(self, node: Custom, pod: Pod | None, pods: Sequence[Pod], denied: list[str]) -> None:
        """The pod, when all is there that it mounts; its address while it starts."""
        objects = NodeObjects(as_stored(node))
        # A pod without certificate would be out of reach for a minute. When it comes, it wakes this key.
        if not self._has_certificate(node):
            denied += self._taken(node)
            return
        with noting(denied):
            await self._make_workload(node, pod, pods, objects)
        with noting(denied):
            await self._apply(node, self._world.caches.services, objects.service())

    def _has_certificate(self, node: Custom) -> bool:
        return self._world.vault.is_ours(Key(node.metadata.namespace, identity_secret(node.metadata.name)))

    def _taken(self, node: Custom) -> list[str]:
        """Why its certificate cannot be written, if somebody else has made a Secret of that name."""
        names = (
            identity_secret(node.metadata.name),
            authority_secret(node.metadata.labels.get(marks.CLUSTER, "")),
        )
        said = (self._world.vault.taken(Key(node.metadata.namespace, name)) for name in names)
        return list(filter(None, said))

    async def _make_workload(
        self, node: Custom, pod: Pod | None, pods: Sequence[Pod], objects: NodeObjects
    ) -> None:
        caches = self._world.caches
        if not is_deployment(node):
            await self._apply(node, caches.stateful_sets, objects.stateful_set())
            return
        made = caches.deployments.store.get(node.key)
        replaces = made.metadata.annotations.get(marks.REPLACES, "") if made is not None else ""
        # What has not begun is not worth a hold, which would cut in between the old template and the new one.
        has_begun = pod is not None and not pod.metadata.deletion_timestamp and pod.status.phase != "Pending"
        may_go = not pods if pod is None else not has_begun
        if pod is not None and marks.MAY_GO in pod.metadata.annotations:
            may_go, replaces = True, pod.metadata.uid
        wanted = objects.deployment(is_held=not may_go, replaces=replaces)
        await self._apply(node, caches.deployments, wanted)

    async def _make_claim(self, node: Custom, pod: Pod | None, denied: list[str]) -> volume.Plan | None:
        objects = NodeObjects(as_stored(node))
        wanted = objects.claim()
        if wanted is None:
            return None
        plan = self._changes.plan_volume(node, pod)
        try:
            await self._apply(node, self._world.caches.claims, objects.claim(plan.size) or wanted)
        except (errors.Forbidden, errors.Invalid) as refusal:
            with noting(denied):
                if not self._changes.note_refused_growth(node, plan.size, refusal):
                    raise
                plan = self._changes.plan_volume(node, pod)
                await self._apply(node, self._world.caches.claims, objects.claim(plan.size) or wanted)
        return plan

    async def _apply(self, node: Custom, cache: Informer[ManagedT], wanted: dict[str, Any]) -> None:
        applied = await self._world.writer.apply(cache, wanted)
        if applied.undone:
            self._tell_undone(node, f"{cache.resource.kind} {wanted['metadata']['name']}", applied.undone)

    def _tell_undone(self, node: Custom, what: str, undone: tuple[Difference, ...]) -> None:
        note = f"{what} was changed by somebody else and put back: {'; '.join(map(str, undone))}"
        self._world.tell((VALKEY_NODES, node.metadata), EventReason.DRIFT_UNDONE, note)

    async def _hear(self, node: Custom, pod: Pod | None, mounted: str) -> contract.Observation | None:
        """What the sidecar of this very pod said last; it is asked when that is nothing, or too old to tell."""
        if pod is None or not pod.status.pod_ip or pod.metadata.deletion_timestamp:
            return None
        heard = self._world.observations.get(node.key)
        known = heard.observation if heard is not None else None
        if known is not None and known.pod_uid != pod.metadata.uid:
            known = None
        if known is not None and not is_behind(known, mounted):
            return known
        try:
            observation = await self._sidecars.observe(node, pod)
        except Unanswered as error:
            log.info("the sidecar of %s was not heard: %s", pod.metadata.name, error)
            return known
        self._world.observations.take(node.key, observation)
        return observation

    async def _change(
        self, node: Custom, pod: Pod | None, seen: contract.Observation | None, mounted: str,
        grown: volume.Plan | None,
    ) -> Findings:  # fmt: skip
        """Bring into the running pod what can be brought there; what came of it."""
        restarts, notes = ([], []) if grown is None else ([grown.needs_restart], [grown.message])
        is_replaced = False
        if pod is not None and not pod.metadata.deletion_timestamp:
            await self._changes.mark(node, pod, seen, mounted)
            resized = await self._changes.fit(node, pod, seen)
            restarts += [*_config_restarts(seen, mounted), resized.needs_restart, _template(node, pod)]
            is_replaced = marks.MAY_GO in pod.metadata.annotations
            notes += [full_volume(node, seen), _refused(seen), resized.waits_for]
        restarts = list(filter(None, restarts))
        config = config_in_force(seen, mounted, restarts, is_replaced=is_replaced)
        return Findings(pod, 0, seen, restarts, list(filter(None, notes)), config)

    def _pods(self, node: Custom) -> list[Pod]:
        found = self._world.caches.pods.store.by(BY_NODE, node.metadata.name)
        return [pod for pod in found if pod.metadata.namespace == node.metadata.namespace]


def current_pod(node: Custom, pods: Sequence[Pod]) -> Pod | None:
    """The one the operator deals with: always the first, until it is gone; none where that cannot be told.

    The only one there is, also when it is being stopped: of a node that was deleted by hand and made again, it may hold
    an office that it has to hand over.
    """
    known = node.status.get("podUID")
    for pod in pods:
        if pod.metadata.uid == known:
            return pod
    living = [pod for pod in pods if not pod.metadata.deletion_timestamp] or pods
    return living[0] if len(living) == 1 else None


def is_behind(seen: contract.Observation, mounted: str) -> bool:
    """The sidecar has not seen the newest configuration; one that does not speak of it is not asked for it."""
    return seen.HasField("configuration") and seen.configuration.mounted != mounted


def _again(found: Findings, mounted: str, grown: volume.Plan | None) -> float:
    if found.observation is not None and is_behind(found.observation, mounted):
        return SOON
    if grown is not None and grown.again is not None:
        return grown.again.total_seconds()
    return RESYNC


def _config_restarts(seen: contract.Observation | None, mounted: str) -> list[str]:
    if seen is None or is_behind(seen, mounted) or not seen.configuration.needs_restart:
        return []
    return [f"{', '.join(seen.configuration.needs_restart)} can be set at the server's start only"]


def config_in_force(
    seen: contract.Observation | None,
    mounted: str,
    restarts: Sequence[str] = (),
    *,
    is_replaced: bool = False,
) -> Condition | None:
    """`is_replaced`: Kubernetes is about to put another pod in the place of this one. None where nobody can say."""
    if seen is None and not restarts and not is_replaced:
        return None
    if is_replaced or (seen is not None and is_behind(seen, mounted)):
        reason, said = Reason.CONFIG_ON_ITS_WAY, Reason.CONFIG_ON_ITS_WAY.sentence
    elif refused := _refused(seen):
        reason, said = Reason.CONFIG_REFUSED, refused
    elif restarts:
        reason, said = Reason.RESTART_NEEDED, "; ".join(restarts)
    else:
        return IN_FORCE
    return Condition(ConditionType.CONFIG_APPLIED, False, reason, said)


def _refused(seen: contract.Observation | None) -> str:
    refused = seen.configuration.refused if seen is not None else ""
    return f"the server does not take a directive: {refused}" if refused else ""


def _template(node: Custom, pod: Pod) -> str:
    made_from = pod.metadata.annotations.get(marks.TEMPLATE)
    is_outdated = made_from != fingerprint(node.spec["podTemplate"]["spec"])
    return "the pod was made from another template than it would be now" if is_outdated else ""


def is_managed(node: Custom) -> bool:
    """Made for a deployment. One that somebody made by hand is nobody's, and is left alone."""
    return any(owner.controller and owner.kind in KINDS for owner in node.metadata.owner_references)

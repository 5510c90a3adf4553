"""The certificates between operator and sidecars: one authority per deployment, one leaf per node, renewed in time.

A leaf lies in the Secret that its node mounts. Everything is decided anew from the Secrets and from what sidecars
report; see `pki.rotation`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from valkey_operator.api.events import EventReason
from valkey_operator.api.validation import validity_span
from valkey_operator.contract.identity import KINDS, Scope
from valkey_operator.kube import errors
from valkey_operator.kube.controller import Again, Controller, label
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import PODS
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.nudges import Nudges
from valkey_operator.operator.roots import RootController, dates, health
from valkey_operator.operator.seen import VALKEY_NODES, Custom, Pod, as_stored
from valkey_operator.operator.world import BY_DEPLOYMENT, BY_NODE, World
from valkey_operator.pki.authority import CannotIssue, Pair, issue_intermediate, issue_mtls_leaf
from valkey_operator.pki.bound import bind, entry
from valkey_operator.pki.rotation import Action, IssueIntermediate, IssueLeaf, Plan, Wish, plan_circle
from valkey_operator.pki.store import CERTIFICATE, KEY, ROOT_NAME, leaf_rewritten
from valkey_operator.pki.trust import Circle, Held, Party, Report
from valkey_operator.render import marks
from valkey_operator.render.node import NodeObjects, authority_secret, identity_secret

LOOKED_AFTER = ("Valkey", "ValkeyCluster")
RESYNC = 600.0
SOON = 1.0
# For the first pods: six deployments that are made at once have started by then, on two cores.
QUIET = 10.0
# A plan leads to the next: an authority first, then what it signs. More than this is a loop.
ROUNDS = 4
# Tells the kubelet to look at the pod's Secrets now and not within a minute.
TOUCHED = "valkey.io/identity"
# Why Secrets may not be written, by node.
Denied = dict[str, errors.KubeError]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Deployed:
    """A deployment and its nodes."""

    deployment: Deployment
    nodes: tuple[Custom, ...]
    wish: Wish
    scope: Scope

    @property
    def authority(self) -> Key:
        return Key(self.deployment.namespace, authority_secret(self.deployment.name))

    @property
    def bundle(self) -> str:
        return f"{self.deployment.name}-cert-bundle"

    @property
    def binding(self) -> str:
        return f"{self.deployment.name}-cert-binding"


class CertificateController:
    """Keyed by deployment."""

    def __init__(self, world: World, roots: RootController) -> None:
        self._world, self._roots = world, roots
        self._parties: dict[Key, tuple[Party, ...]] = {}
        self._nudges = Nudges()
        # When a deployment was seen first that has no records yet.
        self._begun: dict[Key, float] = {}
        roots.parties, roots.on_change = self._all_parties, self._wake_all
        world.identity.on_change = roots.wake
        self.controller = Controller("certificates", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.nodes, label(marks.CLUSTER))
        self.controller.watches(world.caches.secrets, label(marks.CLUSTER))
        self.controller.watches(world.caches.pods, label(marks.CLUSTER))
        self.controller.watches(world.caches.valkeys)
        self.controller.watches(world.caches.clusters)
        self.controller.watches(world.caches.defaults, self._concerned)

    def wake(self, node: Key) -> None:
        """A sidecar has said something new."""
        found = self._world.caches.nodes.store.get(node)
        for key in label(marks.CLUSTER)(found) if found else ():
            self.controller.wake(key)

    async def reconcile(self, key: Key) -> Again:
        deployed = self._find(key)
        if deployed is None:
            self._remember(key, None)
            self._begun.pop(key, None)
            return None
        if not self._roots.roots:
            return None  # woken when there is one
        now = datetime.now(UTC)
        denied: Denied = {}
        try:
            circle, plan = await self._issue(key, deployed, now, denied)
        except CannotIssue as problem:
            log.warning("%s is looked at again: %s", key, problem)  # the authority was changed meanwhile
            return SOON
        again = await self._touch(deployed, circle)
        if left := self._too_early(deployed):
            again = min(again, left)
        else:
            await self._record(deployed, circle, now)
            if plan.look_again:
                again = min(again, (plan.look_again - now).total_seconds())
        for why in denied.values():
            raise why  # it is tried again, later each time
        return again

    async def _issue(
        self, key: Key, deployed: _Deployed, now: datetime, denied: Denied
    ) -> tuple[Circle, Plan]:
        """Until nothing is left to do but what is `denied`; what was seen and planned last."""
        issued = None
        for _ in range(ROUNDS):
            circle = await self._look(deployed, now)
            self._remember(key, circle.own)  # before anything can fail: roots wait until everybody was seen
            plan = plan_circle(circle, deployed.wish, now)
            if all(getattr(action, "party", "") in denied for action in plan.actions):
                break
            issued = await self._carry_out(deployed, circle, plan, now, issued, denied)
        return circle, plan

    def _too_early(self, deployed: _Deployed) -> float:
        """What is written down for people waits until the first pods have started; the seconds until then."""
        key = Key(deployed.deployment.namespace, deployed.deployment.name)
        if Key(key.namespace, deployed.binding) in self._world.caches.bindings.store:
            return 0.0
        return max(0.0, self._begun.setdefault(key, time.monotonic()) + QUIET - time.monotonic())

    def _find(self, key: Key) -> _Deployed | None:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, key.name)
        nodes = [
            each
            for each in found
            if each.metadata.namespace == key.namespace and not each.metadata.deletion_timestamp
        ]
        kinds = {owner.kind for each in nodes for owner in each.metadata.owner_references if owner.controller}
        deployments = (self._world.deployments.find(kind, key) for kind in kinds & KINDS)
        deployment = next(filter(None, deployments), None)
        if deployment is None:
            return None
        scope = Scope(key.namespace, deployment.kind, key.name, self._world.settings.trust_domain)
        nodes.sort(key=lambda node: node.metadata.name)
        return _Deployed(deployment, tuple(nodes), _wish(deployment), scope)

    async def _look(self, deployed: _Deployed, now: datetime) -> Circle:
        roots, vault = self._roots.roots, self._world.vault
        own = []
        for node in deployed.nodes:
            name, key = node.metadata.name, _secret(node)
            found = await vault.leaf(key, deployed.scope.node(name), roots, now)
            pods = self._pods(node)
            own.append(Party(name, found.held, found.trust, bool(pods), self._reported(pods, node)))
        authority = await vault.authority(deployed.authority, roots, now)
        held = tuple(root.held for root in roots)
        return Circle(held, tuple(own), (self._roots.operator,), authority.held)

    def _pods(self, node: Custom) -> list[Pod]:
        found = self._world.caches.pods.store.by(BY_NODE, node.metadata.name)
        return [pod for pod in found if pod.metadata.namespace == node.metadata.namespace]

    def _reported(self, pods: list[Pod], node: Custom) -> Report | None:
        """Of the pod that runs now; two pods of one node are unknown."""
        heard = self._world.observations.get(node.key)
        if heard is None or [pod.metadata.uid for pod in pods] != [heard.observation.pod_uid]:
            return None
        shown = heard.observation.fingerprints
        return Report(shown.sidecar_certificate, frozenset(filter(None, shown.trust.split(","))))

    async def _carry_out(
        self, deployed: _Deployed, circle: Circle, plan: Plan, now: datetime, issued: Pair | None,
        denied: Denied,
    ) -> Pair | None:  # fmt: skip
        """An authority alone: with it, the rest of the plan may be another. It is returned, and signs what follows.

        A node whose Secret may not be written is `denied`, and keeps no other from its certificate.
        """
        for action in plan.actions:
            if isinstance(action, IssueIntermediate):
                return await self._issue_authority(deployed, action, now)
        by_party: dict[str, list[Action]] = {}
        for action in plan.actions:
            by_party.setdefault(getattr(action, "party", ""), []).append(action)
        signer = issued or await self._authority(deployed)
        for node in deployed.nodes:
            name = node.metadata.name
            if name in denied or not (actions := by_party.get(name)):
                continue
            try:
                await self._rewrite(deployed, node, actions, signer, now)
            except errors.NamespaceEnds:
                raise
            except errors.DENIED as why:
                denied[name] = why
            else:
                self._tell(node, circle, actions)
        return issued

    async def _authority(self, deployed: _Deployed) -> Pair:
        content = await self._world.vault.read(deployed.authority) or {}
        return Pair(content.get(CERTIFICATE, b""), content.get(KEY, b""))

    async def _issue_authority(self, deployed: _Deployed, action: IssueIntermediate, now: datetime) -> Pair:
        root, life = await self._roots.signer(action.root), deployed.wish.authority_life
        pair = issue_intermediate(root, deployed.scope, "mtls", now, life)
        metadata = marks.metadata(deployed.deployment, deployed.authority.name, "authority")
        content = {CERTIFICATE: pair.certificate, KEY: pair.key}
        await self._world.vault.write(
            metadata, content, is_repaired=self._was_ours(deployed, deployed.authority)
        )
        log.info("the authority of %s: %s", deployed.deployment.name, action.reason)
        return pair

    async def _rewrite(
        self, deployed: _Deployed, node: Custom, actions: Collection[Action], signer: Pair, now: datetime
    ) -> None:
        leaf, vault = None, self._world.vault
        if any(isinstance(action, IssueLeaf) for action in actions):
            identity = deployed.scope.node(node.metadata.name)
            leaf = issue_mtls_leaf(signer, identity, now, deployed.wish.leaf_life)
        content = await vault.read(_secret(node)) if vault.is_ours(_secret(node)) else None
        after = leaf_rewritten(content or {}, actions, self._roots.roots, leaf)
        metadata = NodeObjects(as_stored(node)).identity_metadata()
        await vault.write(metadata, after, is_repaired=self._was_ours(deployed, _secret(node)))

    def _was_ours(self, deployed: _Deployed, secret: Key) -> bool:
        """Whatever lies there now: our records name this Secret."""
        caches, status = self._world.caches, {}
        if binding := caches.bindings.store.get(Key(secret.namespace, deployed.binding)):
            status = binding.status
        entries = [*(status.get("active") or ()), *(status.get("deprecated") or ())]
        named = {each["secretName"] for each in entries}
        if bundle := caches.bundles.store.get(Key(secret.namespace, deployed.bundle)):
            named.add(bundle.spec["certSecretRef"]["name"])
        return secret.name in named

    def _tell(self, node: Custom, circle: Circle, actions: Collection[Action]) -> None:
        reasons = "; ".join(action.reason for action in actions)
        log.info("the certificate of %s: %s", node.metadata.name, reasons)
        before = next(party for party in circle.own if party.name == node.metadata.name)
        if before.leaf and before.leaf.fault:
            note = f"The certificate of the sidecar was replaced: {before.leaf.fault}"
            self._world.tell((VALKEY_NODES, node.metadata), EventReason.CERTIFICATE_REPLACED, note)

    async def _touch(self, deployed: _Deployed, circle: Circle) -> float:
        """Where a pod says that it shows something older, its kubelet is told to look; the time until the next."""
        pauses = [RESYNC]
        for node, party in zip(deployed.nodes, circle.own, strict=True):
            if party.report is None or party.leaf is None:
                continue
            (pod,) = self._pods(node)
            if party.report == Report(party.leaf.thumbprint, party.trust):
                self._nudges.arrived(pod, TOUCHED)
                continue
            mark = self._world.vault.mark(_secret(node)).rpartition("/")[2]
            if value := self._nudges.value(pod, TOUCHED, mark):
                body = {"metadata": {"uid": pod.metadata.uid, "annotations": {TOUCHED: value}}}
                changed = await self._world.client.patch(PODS, pod.key, body, Pod)
                self._world.caches.pods.store.put(changed)
            pauses.append(self._nudges.pause(pod, TOUCHED) or RESYNC)
        return min(pauses)

    async def _record(self, deployed: _Deployed, circle: Circle, now: datetime) -> None:
        """For people, and for the years after: which authority and leaves there are."""
        await self._record_authority(deployed, circle.authority)
        caches, writer = self._world.caches, self._world.writer
        reference = {"kind": deployed.deployment.kind, "name": deployed.deployment.name}
        wanted = {
            "metadata": marks.metadata(deployed.deployment, deployed.binding, "certificates"),
            "spec": {"clusterRef": reference},
        }
        item = (await writer.apply(caches.bindings, wanted)).item
        leaves = [
            entry("mtls", deployed.bundle, identity_secret(party.name), party.leaf)
            for party in circle.own
            if party.leaf
        ]
        shown = frozenset(party.report.leaf for party in circle.own if party.report)
        bound = bind(item.status, leaves, shown, now)
        count = f"{len(leaves)} of {len(circle.own)} nodes have a certificate"
        wrong = "" if len(leaves) == len(circle.own) else count
        after = health(item, wrong, count) | {"active": bound.active, "deprecated": bound.deprecated}
        await writer.status(caches.bindings, item, item.status, after)

    async def _record_authority(self, deployed: _Deployed, held: Held | None) -> None:
        caches, writer = self._world.caches, self._world.writer
        reference = {"name": deployed.authority.name}
        spec = {
            "caRef": ROOT_NAME,
            "purpose": "mtls",
            "certSecretRef": reference,
            "keySecretRef": reference,
        }
        metadata = marks.metadata(deployed.deployment, deployed.bundle, "certificates")
        item = (await writer.apply(caches.bundles, {"metadata": metadata, "spec": spec})).item
        wrong = held.fault if held else "there is no authority yet"
        after = health(item, wrong, "signs the certificates of sidecars") | dates(held)
        await writer.status(caches.bundles, item, item.status, after)

    def _remember(self, key: Key, parties: tuple[Party, ...] | None) -> None:
        before = self._parties.pop(key, None)
        if parties is not None:
            self._parties[key] = parties
        # Of a single root it does not matter who trusts it.
        if before != parties and len(self._roots.roots) > 1:
            self._roots.wake()

    def _all_parties(self) -> tuple[Party, ...] | None:
        if any(key not in self._parties for key in self._keys()):
            return None
        return tuple(party for parties in self._parties.values() for party in parties)

    def _keys(self) -> set[Key]:
        """All deployments with nodes that we look after."""
        nodes = self._world.caches.nodes.store
        named = {
            Key(node.metadata.namespace, node.metadata.labels[marks.CLUSTER])
            for node in nodes
            if marks.CLUSTER in node.metadata.labels
        }
        return {key for key in named if self._find(key)}

    def _wake_all(self) -> None:
        for key in self._keys():
            self.controller.wake(key)

    def _concerned(self, item: Object) -> list[Key]:
        deployments = self._world.deployments
        return [key for kind in LOOKED_AFTER for key in deployments.concerned(kind, item.metadata.namespace)]


def _secret(node: Custom) -> Key:
    return Key(node.metadata.namespace, identity_secret(node.metadata.name))


def _wish(deployment: Deployment) -> Wish:
    return Wish(
        leaf_life=_leaf_life(deployment),
        rotate_percent=deployment.value("sidecar.mtls.rotateBeforePercent", 66),
        authority_life=timedelta(days=365),
    )


def _leaf_life(deployment: Deployment) -> timedelta:
    """A wish that is refused keeps no certificate from being renewed."""
    try:
        return validity_span(deployment.value("sidecar.mtls.validity", "90d"))
    except ValueError:
        return Wish().leaf_life

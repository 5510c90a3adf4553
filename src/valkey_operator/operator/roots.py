"""The root of all our certificates, its successor in time, and what the operator itself shows to sidecars.

A root that somebody put there before the operator came is used as it is, and never replaced by us.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.contract.identity import OperatorIdentity
from valkey_operator.decide.conditions import Condition, conditions
from valkey_operator.kube.controller import Again, Controller, itself
from valkey_operator.kube.objects import Key, Object
from valkey_operator.model.times import written
from valkey_operator.operator.identity import SECRET
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import World
from valkey_operator.pki.authority import Pair, issue_mtls_leaf
from valkey_operator.pki.rotation import IssueLeaf, Plan, Wish, plan_circle, plan_root
from valkey_operator.pki.store import (
    ROOT_NAME,
    Content,
    Root,
    leaf_rewritten,
    lost_roots,
    roots_in,
    roots_rewritten,
    signer,
)
from valkey_operator.pki.trust import Circle, Held, Party
from valkey_operator.render import marks

VALID_FOR_DAYS = 3650
RESYNC = 600.0
SOON = 1.0
NOT_OURS = "this root is not ours to replace: put a new certificate and key into its Secret"
log = logging.getLogger(__name__)


class RootController:
    """Keeps the roots and the operator's own leaf. Whoever signs for deployments asks it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own = OperatorIdentity(world.settings.namespace, world.settings.trust_domain)
        self._key = Key(world.settings.namespace, ROOT_NAME)
        self._own_secret = Key(world.settings.namespace, SECRET)
        self.roots: tuple[Root, ...] = ()
        self.operator = Party("operator")
        # Those of all deployments who talk to the operator; None while some have not been looked at.
        self.parties: Callable[[], tuple[Party, ...] | None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        self.controller = Controller("valkeyca", self.reconcile, settle=world.writer.settle)
        self.controller.watches(world.caches.authorities, itself)
        self.controller.watches(world.caches.secrets, self._of_ours)
        self.wake()

    def wake(self) -> None:
        self.controller.wake(self._key)

    async def signer(self, thumbprint: str) -> Pair:
        """A root with its key, read for this one use."""
        ca = self._world.caches.authorities.store.get(self._key)
        content = await self._world.vault.read(self._secret(ca)) if ca else None
        return signer(content or {}, thumbprint)

    async def reconcile(self, key: Key) -> Again:
        if key != self._key:
            return None
        ca = self._world.caches.authorities.store.get(key)
        if ca is None:
            await self._world.writer.apply(self._world.caches.authorities, _first(key))
            return SOON
        now = datetime.now(UTC)
        times = [await self._keep_roots(ca, now)]
        if self.roots:
            times.append(await self._keep_own(now))
        return min([RESYNC, *((time - now).total_seconds() for time in times if time)])

    async def _keep_roots(self, ca: Custom, now: datetime) -> datetime | None:
        secret, problem = self._secret(ca), ""
        content = await self._world.vault.read(secret)
        known = roots_in(content or {}, now)
        lost = await self._lost(ca, known)
        roots = (*lost, *known)
        plan = plan_root(tuple(root.held for root in roots), self._in_use(roots), now)
        if plan.actions and content is not None and not self._world.vault.is_ours(secret):
            problem, plan = NOT_OURS, Plan(look_again=plan.look_again)
        if plan.actions:
            roots = await self._rewrite_roots(ca, content or {}, lost, plan, now)
        await self._report(ca, roots, problem)
        if roots != self.roots:
            self.roots = roots
            self.on_change()
        return plan.look_again

    async def _rewrite_roots(
        self, ca: Custom, content: Content, lost: tuple[Root, ...], plan: Plan, now: datetime
    ) -> tuple[Root, ...]:
        life = timedelta(days=ca.spec.get("validForDays", VALID_FOR_DAYS))
        after = roots_rewritten(content, lost, plan.actions, now, life)
        await self._world.vault.write(_metadata(self._secret(ca), "root"), after)
        log.info("the root: %s", "; ".join(action.reason for action in plan.actions))
        return roots_in(after, now)

    async def _lost(self, ca: Custom, known: tuple[Root, ...]) -> tuple[Root, ...]:
        """Roots that we have used and their Secret does not know any more: others still show what they signed."""
        used = {*ca.status.get("previous", ()), ca.status.get("thumbprint", "")}
        missing = used - {"", *(root.thumbprint for root in known)}
        return lost_roots(await self._world.vault.read(self._own_secret) or {}, missing) if missing else ()

    def _in_use(self, roots: tuple[Root, ...]) -> frozenset[str]:
        others = self.parties()
        if others is None:  # nobody knows yet who trusts what
            return frozenset(root.thumbprint for root in roots)
        trusted = [party.trust for party in (self.operator, *others)]
        return frozenset().union(
            *trusted, *(each.report.trust for each in (self.operator, *others) if each.report)
        )

    async def _keep_own(self, now: datetime) -> datetime | None:
        """The operator's leaf, signed by the root itself."""
        await self._look_at_own(now)
        leaf, others = self.operator.leaf, self.parties()
        if others is None and leaf and not leaf.fault and leaf.not_after > now:
            return now + timedelta(seconds=SOON)
        roots = tuple(root.held for root in self.roots)
        circle = Circle(roots, (self.operator,), others or (), has_authority=False)
        plan = plan_circle(circle, Wish(), now)
        if plan.actions:
            await self._rewrite_own(plan, now)
            await self._look_at_own(now)
            self.on_change()
        return plan.look_again

    async def _look_at_own(self, now: datetime) -> None:
        found = await self._world.vault.leaf(self._own_secret, self._own, self.roots, now)
        report = self._world.identity.report
        self.operator = Party("operator", found.held, found.trust, report is not None, report)

    async def _rewrite_own(self, plan: Plan, now: datetime) -> None:
        content = await self._world.vault.read(self._own_secret) or {}
        issuers = [action.issuer for action in plan.actions if isinstance(action, IssueLeaf)]
        leaf = None
        for issuer in issuers:
            leaf = issue_mtls_leaf(await self.signer(issuer), self._own, now, Wish().leaf_life)
        after = leaf_rewritten(content, plan.actions, self.roots, leaf)
        await self._world.vault.write(_metadata(self._own_secret, "identity"), after)
        log.info("the operator's certificate: %s", "; ".join(action.reason for action in plan.actions))

    async def _report(self, ca: Custom, roots: tuple[Root, ...], problem: str) -> None:
        newest = roots[-1].held if roots else None
        wrong = problem or (newest.fault if newest else "there is no root")
        previous = {"previous": [root.thumbprint for root in roots[:-1]]} if roots[:-1] else {}
        after = health(ca, wrong, "signs the authorities of all deployments") | dates(newest) | previous
        await self._world.writer.status(self._world.caches.authorities, ca, ca.status, after)

    def _secret(self, ca: Custom) -> Key:
        return Key(self._key.namespace, ca.spec["caCertSecretRef"]["name"])

    def _of_ours(self, item: Object) -> list[Key]:
        """Secrets of deployments in this namespace are none of them."""
        is_ours = item.metadata.namespace == self._key.namespace and marks.CLUSTER not in item.metadata.labels
        return [self._key] if is_ours else []


def health(item: Custom, wrong: str | None, well: str) -> dict[str, Any]:
    """The part of a status that says whether all is well."""
    reason = Reason.CERTIFICATES_FAULTY if wrong else Reason.CERTIFICATES_VALID
    ready = Condition(ConditionType.READY, not wrong, reason, wrong or well)
    return {
        "state": State.DEGRADED if wrong else State.READY,
        "reason": str(reason),
        "message": wrong or well,
        "observedGeneration": item.metadata.generation,
        "conditions": conditions(item.status, [ready], item.metadata.generation, datetime.now(UTC)),
    }


def dates(held: Held | None) -> dict[str, str]:
    """The part of a status that says which certificate is in use."""
    if held is None:
        return {}
    times = {"issuedAt": written(held.issued_at), "expiresAt": written(held.not_after)}
    return {"thumbprint": held.thumbprint, **times}


def _first(key: Key) -> dict[str, Any]:
    spec = {"caCertSecretRef": {"name": ROOT_NAME}, "validForDays": VALID_FOR_DAYS}
    description = "The root CA of the Valkey operator, made at its first start."
    return {"metadata": _metadata(key, "root"), "spec": {"description": description, **spec}}


def _metadata(key: Key, component: str) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": marks.MANAGED_BY,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": marks.MANAGED_BY,
    }
    return {"name": key.name, "namespace": key.namespace, "labels": labels}

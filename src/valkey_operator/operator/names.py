"""Names that two deployments would share: whoever comes second is refused, and takes nothing over.

A `Valkey` and a `ValkeyCluster` of one name would have the same Services and Secrets; so have a `Valkey` called `a-0`
and the first node of `a`. Volumes stay when a `ValkeyCluster` called `a` is deleted, and have the names of those of a
`Valkey` called `a-0`.
"""

from __future__ import annotations

from collections.abc import Iterator

from valkey_operator.api.reasons import Reason
from valkey_operator.decide.support import Refusal
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, ManagedObject, Object, OwnerReference
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import Caches
from valkey_operator.render import connection, marks, service, users
from valkey_operator.render.pod import claim_name

Wanted = tuple[Informer[ManagedObject] | Informer[Custom], str, tuple[str, str]]


def conflict(caches: Caches, deployment: Deployment) -> Refusal | None:
    """Why its names cannot be had, or None."""
    for informer, name, owner in _wanted(caches, deployment):
        there = informer.store.get(Key(deployment.namespace, name))
        other = _controller(there) if there is not None else None
        if other is not None and (other.kind, other.name) != owner:
            return Refusal(
                Reason.NAME_CONFLICT,
                f"{informer.resource.kind} {name} belongs to {other.kind} {other.name}, and two deployments cannot "
                f"share it; delete this {deployment.kind} and make it under another name",
            )
    for node in _nodes(deployment) if deployment.value("persistence.enabled") else ():
        claim = caches.claims.store.get(Key(deployment.namespace, claim_name(node)))
        of = claim.metadata.labels.get(marks.CLUSTER, "") if claim is not None else ""
        if of not in ("", deployment.name):
            return Refusal(
                Reason.NAME_CONFLICT,
                f"PersistentVolumeClaim {claim_name(node)} keeps the data of {of}; delete this {deployment.kind} and "
                "make it under another name, or delete the claim if nobody needs that data",
            )
    return None


def _wanted(caches: Caches, deployment: Deployment) -> Iterator[Wanted]:
    """What it needs, by what name, and whose that has to be."""
    own = (deployment.kind, deployment.name)
    for name in (users.secret_name(deployment.name), connection.connection_name(deployment)):
        yield caches.secrets, name, own
    for wanted in service.services(deployment, ""):
        yield caches.services, wanted["metadata"]["name"], own
    yield caches.budgets, deployment.name, own
    for node in _nodes(deployment):
        yield caches.nodes, node, own
        yield caches.services, node, ("ValkeyNode", node)


def _nodes(deployment: Deployment) -> Iterator[str]:
    replicas = range(deployment.value("replicas", 1))
    if deployment.kind == "Valkey":
        yield from (f"{deployment.name}-{index}" for index in replicas)
        return
    for shard in range(deployment.value("shards", 1)):
        yield from (f"{deployment.name}-{shard}-{index}" for index in replicas)


def _controller(item: Object) -> OwnerReference | None:
    return next((owner for owner in item.metadata.owner_references if owner.controller), None)

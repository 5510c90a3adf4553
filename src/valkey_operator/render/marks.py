"""Labels, annotations and owners: how everything that is made for a deployment is recognised."""

from __future__ import annotations

from typing import Any

from valkey_operator.api.kinds import GROUP, VERSION
from valkey_operator.model.deployment import Deployment, Owner

MANAGED_BY = "valkey-operator"
CLUSTER = "valkey.io/cluster"
NODE = "valkey.io/node"
ROLE = "valkey.io/role"
# Taken off one pod to let that pod go; its successor carries it again.
GUARDED = "valkey.io/guarded"
CUSTOM_RESOURCE = "valkey.io/cr"
# Of a pod: what it was made from, and the configuration that its kubelet was told to look for at once.
TEMPLATE = "valkey.io/template"
INPUTS = "valkey.io/inputs"


def labels(deployment: Deployment, component: str, node: str = "") -> dict[str, str]:
    own = {
        "app.kubernetes.io/name": "valkey",
        "app.kubernetes.io/instance": deployment.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/part-of": deployment.name,
        CLUSTER: deployment.name,
    }
    if node:
        own[NODE] = node
    return {**deployment.value("labels", {}), **own}


def metadata(deployment: Deployment, name: str, component: str, node: str = "") -> dict[str, Any]:
    annotations = {**deployment.value("annotations", {}), CUSTOM_RESOURCE: deployment.name}
    return {
        "name": name,
        "namespace": deployment.namespace,
        "labels": labels(deployment, component, node),
        "annotations": annotations,
        "ownerReferences": [owned_by(owner_of(deployment))],
    }


def owner_of(deployment: Deployment) -> Owner:
    return Owner(f"{GROUP}/{VERSION}", deployment.kind, deployment.name, deployment.uid)


def owned_by(owner: Owner) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }

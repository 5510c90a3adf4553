"""Labels, annotations and owners: how everything that is made for a deployment is recognised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from valkey_operator.api.group import GROUP, VERSION, is_own_key
from valkey_operator.model.deployment import Deployment, Owner

MANAGED_BY = "valkey-operator"
CLUSTER = "valkey.io/cluster"
NODE = "valkey.io/node"
# Of a cluster's pod: the number of its shard, and its own number there; 0 begins as the primary.
SHARD = "valkey.io/shard"
NUMBER = "valkey.io/number"
ROLE = "valkey.io/role"
# On the Service of a deployment: the node its selector names.
LEADS_TO = "valkey.io/leads-to"
# On the headless Service of a deployment: the values by which it is looked after, while later wishes are refused.
ACCEPTED = "valkey.io/accepted"
# There, too: the spec with which everything was well last, to which a person may go back.
LAST_GOOD = "valkey.io/last-good"
PRIMARY, REPLICA = "primary", "replica"
COMPONENT = "app.kubernetes.io/component"
SERVER = "server"
# Taken off one pod to let that pod go; its successor carries it again.
GUARDED = "valkey.io/guarded"
CUSTOM_RESOURCE = "valkey.io/cr"
# Of a pod: what it was made from, the configuration that its kubelet was told to look for at once, and how often it was
# told to begin with it.
TEMPLATE = "valkey.io/template"
INPUTS = "valkey.io/inputs"
LATE = "valkey.io/late"
# Of a pod of a Deployment: it may be replaced now. Of its Deployment, and of the pod that comes: which one that was.
MAY_GO, REPLACES = "valkey.io/may-go", "valkey.io/replaces"
# Of a pod whose sidecar got another image: the container that is to go.
SIDECAR_BEFORE = "valkey.io/sidecar-before"


def labels(deployment: Deployment, component: str, node: str = "") -> dict[str, str]:
    own = {
        "app.kubernetes.io/name": "valkey",
        "app.kubernetes.io/instance": deployment.name,
        COMPONENT: component,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "app.kubernetes.io/part-of": deployment.name,
        CLUSTER: deployment.name,
    }
    if node:
        own[NODE] = node
    return {**theirs(deployment, "labels"), **own}


def theirs(deployment: Deployment, kind: str) -> dict[str, str]:
    """What people wish on every object, `labels` or `annotations`. Certificates are made also while a wish is refused,
    and must not get keys of ours by it."""
    return {key: value for key, value in deployment.value(kind, {}).items() if not is_own_key(key)}


def pods(deployment: Deployment) -> dict[str, str]:
    """Selects the servers of a deployment, whatever their role."""
    return {CLUSTER: deployment.name, COMPONENT: SERVER}


def role_change(labels: Mapping[str, str], observed: str) -> dict[str, str]:
    """What is to be patched into the labels of a pod whose server says that it is `observed`; nothing when they say so.

    They tell what a server is, not what it should be. What nobody can see stays as it was last seen.
    """
    if observed not in (PRIMARY, REPLICA) or labels.get(ROLE) == observed:
        return {}
    return {ROLE: observed}


def metadata(deployment: Deployment, name: str, component: str, node: str = "") -> dict[str, Any]:
    annotations = {**theirs(deployment, "annotations"), CUSTOM_RESOURCE: deployment.name}
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


def last_good(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Of a headless Service."""
    return _written(annotations, LAST_GOOD)


def accepted(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """The values that a headless Service was made from."""
    return _written(annotations, ACCEPTED)


def _written(annotations: Mapping[str, str], name: str) -> dict[str, Any] | None:
    try:
        found = json.loads(annotations.get(name, "null"))
    except ValueError:  # somebody has changed it
        return None
    return found if isinstance(found, dict) else None

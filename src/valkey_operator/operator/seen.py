"""The objects that controllers look at, as small as they need them."""

from __future__ import annotations

from typing import Any

import msgspec

from valkey_operator.api.kinds import GROUP, VERSION
from valkey_operator.kube.objects import Fields, ManagedObject, Object, Vocabulary
from valkey_operator.kube.resources import Resource


class Custom(ManagedObject, frozen=True, gc=False):
    """A custom resource, whole: there are few, and every field may matter."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class PodCondition(Vocabulary, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodStatus(Fields, frozen=True, gc=False):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[PodCondition, ...] = ()


class Pod(Object, frozen=True, gc=False):
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


VALKEYS = Resource("Valkey", "valkeys", GROUP, VERSION)
DEFAULTS = Resource("ValkeyClusterDefaults", "valkeyclusterdefaults", GROUP, VERSION)
VALKEY_NODES = Resource("ValkeyNode", "valkeynodes", GROUP, VERSION)
VALKEY_CAS = Resource("ValkeyCA", "valkeycas", GROUP, VERSION)
BUNDLES = Resource("ValkeyCertificateBundle", "valkeycertificatebundles", GROUP, VERSION)
BINDINGS = Resource("ValkeyCertificateBinding", "valkeycertificatebindings", GROUP, VERSION)


def as_stored(node: Custom) -> dict[str, Any]:
    """A ValkeyNode as the API would show it, for those who render from it."""
    metadata = {
        "name": node.metadata.name,
        "namespace": node.metadata.namespace,
        "uid": node.metadata.uid,
        "labels": dict(node.metadata.labels),
        "annotations": dict(node.metadata.annotations),
    }
    head = {"apiVersion": VALKEY_NODES.api_version, "kind": VALKEY_NODES.kind}
    return {**head, "metadata": metadata, "spec": node.spec}

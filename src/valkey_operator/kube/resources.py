"""Kinds of objects by where the API serves them, and the paths to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from valkey_operator.kube.objects import Key


@dataclass(frozen=True)
class Resource:
    """A kind as the API serves it."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str = "") -> str:
        """Where all of them are, or those of one namespace."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        return f"{root}{place}/{self.plural}"

    def path(self, key: Key, subresource: str = "") -> str:
        if self.namespaced and not key.namespace:
            raise ValueError(f"{self.kind} {key.name!r} needs a namespace")
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(key.namespace)}/{quote(key.name, safe='')}{tail}"


@dataclass(frozen=True)
class Selection:
    """Which objects of a resource: by label, by field, and how much of them."""

    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def query(self) -> dict[str, str]:
        return {"labelSelector": self.labels, "fieldSelector": self.fields}

    def accept(self, suffix: str = "") -> Mapping[str, str]:
        """The header that asks for this much of one object, or with the suffix List of a list."""
        partial = f";as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1" if self.metadata_only else ""
        return {"Accept": f"application/json{partial}"}


EVERYTHING = Selection()

CONFIG_MAPS = Resource("ConfigMap", "configmaps")
SECRETS = Resource("Secret", "secrets")
PODS = Resource("Pod", "pods")
SERVICES = Resource("Service", "services")
NODES = Resource("Node", "nodes", namespaced=False)
NAMESPACES = Resource("Namespace", "namespaces", namespaced=False)
VOLUME_CLAIMS = Resource("PersistentVolumeClaim", "persistentvolumeclaims")
STATEFUL_SETS = Resource("StatefulSet", "statefulsets", "apps")
DEPLOYMENTS = Resource("Deployment", "deployments", "apps")
DISRUPTION_BUDGETS = Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy")
LEASES = Resource("Lease", "leases", "coordination.k8s.io")
EVENTS = Resource("Event", "events", "events.k8s.io")
VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS = (
    Resource(kind, f"{kind.lower()}s", "admissionregistration.k8s.io", namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)

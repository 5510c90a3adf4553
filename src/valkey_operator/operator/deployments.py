"""Deployments with the values in force: what people wrote, over defaults of two namespaces, over the built-in ones."""

from __future__ import annotations

from valkey_operator.api import layers
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.seen import Custom

DEFAULTS_NAME = "defaults"


class Deployments:
    """Computed anew each time: defaults may have changed."""

    def __init__(
        self, kinds: dict[str, Informer[Custom]], defaults: Informer[Custom], operator_namespace: str
    ) -> None:
        self._kinds, self._defaults, self._operator_namespace = kinds, defaults, operator_namespace

    def find(self, kind: str, key: Key) -> Deployment | None:
        informer = self._kinds.get(kind)
        seen = informer.store.get(key) if informer else None
        return self.of(kind, seen) if seen else None

    def of(self, kind: str, seen: Custom) -> Deployment:
        namespace = seen.metadata.namespace
        defaults = self._layers(namespace)
        pinned = seen.status.get("pinned") or {}
        given = layers.effective(kind, seen.spec, defaults, pinned)
        lenders = {layer.name for layer in defaults}
        lent = {".".join(path): origin for path, origin in given.origins.items() if origin in lenders}
        required = layers.required(defaults)
        head = (kind, seen.metadata.name, namespace, seen.metadata.uid)
        return Deployment(*head, given.values, required, pinned, lent)

    def concerned(self, kind: str, defaults_namespace: str) -> list[Key]:
        """Those that defaults of this namespace may change: of the operator's namespace every one."""
        everywhere = defaults_namespace == self._operator_namespace
        store = self._kinds[kind].store
        return [each.key for each in store if everywhere or each.key.namespace == defaults_namespace]

    def _layers(self, namespace: str) -> list[layers.Layer]:
        """From the weakest to the strongest."""
        places = dict.fromkeys((self._operator_namespace, namespace))
        found = [(place, self._defaults.store.get(Key(place, DEFAULTS_NAME))) for place in places]
        return [layers.Layer(f"defaults of namespace {place}", item.spec) for place, item in found if item]

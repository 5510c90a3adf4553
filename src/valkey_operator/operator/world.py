"""What all controllers share: the caches, the writer, and who is told what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from valkey_operator.api.events import EventReason
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Item, Recorder
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import ManagedObject
from valkey_operator.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Selection,
)
from valkey_operator.kube.runtime import Runtime
from valkey_operator.kube.writer import Writer
from valkey_operator.operator.deployments import Deployments
from valkey_operator.operator.identity import SECRET, OwnIdentity, OwnSecret
from valkey_operator.operator.observations import Observations
from valkey_operator.operator.seen import (
    BINDINGS,
    BUNDLES,
    DEFAULTS,
    VALKEY_CAS,
    VALKEY_CLUSTERS,
    VALKEY_NODES,
    VALKEYS,
    Claim,
    Custom,
    Machine,
    Pod,
)
from valkey_operator.operator.vault import Vault
from valkey_operator.render import marks
from valkey_operator.settings.operator import OperatorSettings

OURS = Selection(labels=f"app.kubernetes.io/managed-by={marks.MANAGED_BY}")
OURS_BY_METADATA = Selection(labels=OURS.labels, metadata_only=True)
MANAGER = "valkey-operator"
BY_NODE = "node"
BY_DEPLOYMENT = "deployment"


@dataclass(frozen=True)
class Caches:
    """Everything we look at; of what we make ourselves only the metadata, which tells whether it is as made."""

    valkeys: Informer[Custom]
    clusters: Informer[Custom]
    defaults: Informer[Custom]
    nodes: Informer[Custom]
    pods: Informer[Pod]
    machines: Informer[Machine]
    stateful_sets: Informer[ManagedObject]
    deployments: Informer[ManagedObject]
    services: Informer[ManagedObject]
    config_maps: Informer[ManagedObject]
    secrets: Informer[ManagedObject]
    claims: Informer[Claim]
    budgets: Informer[ManagedObject]
    authorities: Informer[Custom]
    bundles: Informer[Custom]
    bindings: Informer[Custom]
    own_secret: Informer[OwnSecret]


@dataclass(frozen=True)
class World:
    settings: OperatorSettings
    client: Client
    caches: Caches
    writer: Writer
    recorder: Recorder
    observations: Observations
    identity: OwnIdentity
    vault: Vault
    deployments: Deployments
    # For how many seconds this process has led.
    leads_for: Callable[[], float]

    @classmethod
    def of(
        cls, settings: OperatorSettings, client: Client, runtime: Runtime, recorder: Recorder,
        leads_for: Callable[[], float],
    ) -> World:  # fmt: skip
        found, writer = caches(runtime, settings), Writer(client, MANAGER)
        return cls(
            settings, client, found, writer, recorder, Observations(),
            OwnIdentity(found.own_secret), Vault(client, writer, found.secrets),
            Deployments(
                {"Valkey": found.valkeys, "ValkeyCluster": found.clusters}, found.defaults, settings.namespace
            ),
            leads_for,
        )  # fmt: skip

    def tell(self, about: Item, reason: EventReason, note: str) -> None:
        """People, by an Event; it waits for nothing and never fails."""
        self.recorder.event(about, reason, note, reason.type, reason.action)


def caches(runtime: Runtime, settings: OperatorSettings) -> Caches:
    # Only the root, our own certificate and defaults are in the operator's namespace.
    with_own = _with(settings.namespaces, settings.namespace)

    def made(resource: Any, namespaces: tuple[str, ...] = settings.namespaces) -> Informer[ManagedObject]:
        return runtime.informer(resource, ManagedObject, namespaces, OURS_BY_METADATA)

    found = Caches(
        valkeys=runtime.informer(VALKEYS, Custom, settings.namespaces),
        clusters=runtime.informer(VALKEY_CLUSTERS, Custom, settings.namespaces),
        defaults=runtime.informer(DEFAULTS, Custom, with_own),
        nodes=runtime.informer(VALKEY_NODES, Custom, settings.namespaces),
        pods=runtime.informer(PODS, Pod, settings.namespaces, OURS),
        machines=runtime.informer(NODES, Machine),
        stateful_sets=made(STATEFUL_SETS),
        deployments=made(DEPLOYMENTS),
        services=made(SERVICES),
        config_maps=made(CONFIG_MAPS),
        secrets=made(SECRETS, with_own),
        budgets=made(DISRUPTION_BUDGETS),
        claims=runtime.informer(VOLUME_CLAIMS, Claim, settings.namespaces, OURS),
        authorities=runtime.informer(VALKEY_CAS, Custom, (settings.namespace,)),
        bundles=runtime.informer(BUNDLES, Custom, settings.namespaces),
        bindings=runtime.informer(BINDINGS, Custom, settings.namespaces),
        own_secret=runtime.informer(
            SECRETS, OwnSecret, (settings.namespace,), Selection(fields=f"metadata.name={SECRET}")
        ),
    )
    found.pods.store.add_index(BY_NODE, lambda pod: _labelled(pod.metadata.labels.get(marks.NODE)))
    found.nodes.store.add_index(
        BY_DEPLOYMENT, lambda node: _labelled(node.metadata.labels.get(marks.CLUSTER))
    )
    return found


def _with(namespaces: tuple[str, ...], own: str) -> tuple[str, ...]:
    """All namespaces stay all; of some, the operator's own is one more."""
    return tuple(dict.fromkeys((*namespaces, own))) if namespaces else ()


def _labelled(value: str | None) -> list[str]:
    return [value] if value else []

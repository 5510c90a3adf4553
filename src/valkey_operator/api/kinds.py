"""Every kind of the API: its names, its types, and the columns that answer "is it well?"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from valkey_operator.api import (
    auth,
    certificates,
    cluster_defaults,
    deployments,
    multi_cluster,
    node,
    operations,
    tls,
)
from valkey_operator.api.drafts import DRAFTS, Draft
from valkey_operator.api.group import CATEGORY, GROUP, VERSION
from valkey_operator.api.model import Model, Rule
from valkey_operator.api.status import Status


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; `wide` ones only with -o wide."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class Scale:
    """Where `kubectl scale` and autoscalers find the counts."""

    spec: str
    status: str


@dataclass(frozen=True)
class Kind:
    """A custom resource."""

    name: str
    short: str
    spec: type[Model]
    status: type[Status]
    columns: tuple[Column, ...]
    text: str
    plural: str = ""
    scale: Scale | None = None
    rules: tuple[Rule, ...] = ()
    drafts: Mapping[str, Draft] = field(default_factory=dict)
    # Whether there is anybody yet who does something for it.
    is_built: bool = True

    @property
    def plural_name(self) -> str:
        return self.plural or f"{self.name.lower()}s"


STATE = Column("State", ".status.state")
READY = Column("Ready", ".status.readyReplicas", "integer")
PODS = Column("Pods", ".status.totalReplicas", "integer")
MESSAGE = Column("Message", ".status.message", wide=True)
AGE = Column("Age", ".metadata.creationTimestamp", "date")
PHASE = Column("Phase", ".status.phase")
OPERATION = Column("Doing", ".status.operation.kind")
IMAGE = Column("Image", ".spec.image", wide=True)
# As text: kubectl shows the age of a date, and one that is to come as <invalid>.
EXPIRES = Column("Expires", ".status.expiresAt")
READY_CONDITION = Column("Ready", ".status.conditions[?(@.type=='Ready')].status")


def _name_fits(longest: int, made: str) -> Rule:
    """Names are made from the deployment's own; the longest of them must fit a DNS label of 63 letters."""
    return Rule(
        f"size(self.metadata.name) <= {longest}",
        f"the name %s is too long: {made} must fit 63 letters, so use at most {longest}",
        ("self.metadata.name",),
    )


def _pinned(field: str) -> Rule:
    """What the layering gave at creation cannot be overridden later, although the spec did not say it."""
    parts = field.split(".")
    paths = [".".join(parts[: end + 1]) for end in range(len(parts))]
    given = " && ".join(f"has(self.spec.{path})" for path in paths)
    known = " && ".join(f"has(self.status.pinned.{path})" for path in paths)
    return Rule(
        f"!({given} && has(self.status) && has(self.status.pinned) && {known}) || "
        f"self.spec.{field} == self.status.pinned.{field}",
        f"{field} is %s; it was %s at creation and cannot be changed",
        (f"self.spec.{field}", f"self.status.pinned.{field}"),
        field_path=f".spec.{field}",
    )


# So that what is named after a deployment still fits a DNS label.
LONGEST_NAMES = {"ValkeyCluster": 48, "Valkey": 52, "ValkeyPool": 48, "Sentinel": 52}

PINNED_WORKLOAD = (_pinned("podManagementType"),)
# Where none was asked for at creation, the volumes have the cluster's default one.
NO_CLASS = Rule(
    "!(has(self.spec.persistence) && has(self.spec.persistence.storageClassName) && has(self.status) && "
    "has(self.status.pinned) && has(self.status.pinned.persistence)) || "
    "has(self.status.pinned.persistence.storageClassName)",
    "persistence.storageClassName is %s; none was asked for at creation, and that cannot be changed",
    ("self.spec.persistence.storageClassName",),
    field_path=".spec.persistence.storageClassName",
)
PINNED = (
    *PINNED_WORKLOAD,
    _pinned("persistence.enabled"),
    _pinned("persistence.storageClassName"),
    NO_CLASS,
)

KINDS = (
    Kind(
        "ValkeyCluster",
        "vkc",
        deployments.ValkeyClusterSpec,
        deployments.ValkeyClusterStatus,
        (
            STATE,
            Column("Shards", ".status.readyShards", "integer"),
            Column("Of", ".status.totalShards", "integer"),
            READY,
            PODS,
            Column("Slots", ".status.slotsAssigned", "integer"),
            OPERATION,
            IMAGE,
            MESSAGE,
            AGE,
        ),
        "A sharded Valkey cluster: shards times replicas pods, 16384 slots.",
        scale=Scale(".spec.shards", ".status.totalShards"),
        rules=(
            _name_fits(LONGEST_NAMES["ValkeyCluster"], "<name>-<shard>-<index> and what hangs on it"),
            *PINNED,
        ),
        drafts=DRAFTS,
    ),
    Kind(
        "Valkey",
        "vk",
        deployments.ValkeySpec,
        deployments.ValkeyStatus,
        (STATE, READY, PODS, Column("Primary", ".status.primary"), OPERATION, IMAGE, MESSAGE, AGE),
        "One Valkey primary and its replicas; standalone with one pod.",
        scale=Scale(".spec.replicas", ".status.totalReplicas"),
        rules=(_name_fits(LONGEST_NAMES["Valkey"], "<name>-<index> and what hangs on it"), *PINNED),
    ),
    Kind(
        "ValkeyPool",
        "vkp",
        deployments.ValkeyPoolSpec,
        deployments.ValkeyPoolStatus,
        (
            STATE,
            Column("Shards", ".status.readyShards", "integer"),
            Column("Of", ".status.totalShards", "integer"),
            MESSAGE,
            AGE,
        ),
        "Independent Valkeys from one template, for clients that shard by themselves.",
        scale=Scale(".spec.shards", ".status.totalShards"),
        rules=(_name_fits(LONGEST_NAMES["ValkeyPool"], "<name>-<shard>-<index> and what hangs on it"),),
        is_built=False,
    ),
    Kind(
        "Sentinel",
        "vks",
        deployments.SentinelSpec,
        deployments.SentinelStatus,
        (STATE, READY, PODS, Column("Quorum", ".spec.quorum", "integer", wide=True), MESSAGE, AGE),
        "A group of Sentinels that watches the Valkeys which refer to it.",
        scale=Scale(".spec.replicas", ".status.totalReplicas"),
        rules=(
            _name_fits(LONGEST_NAMES["Sentinel"], "<name>-<index> and what hangs on it"),
            *PINNED_WORKLOAD,
        ),
        is_built=False,
    ),
    Kind(
        "ValkeyMultiCluster",
        "vkmc",
        multi_cluster.ValkeyMultiClusterSpec,
        multi_cluster.ValkeyMultiClusterStatus,
        (STATE, Column("Primary", ".status.primarySite"), OPERATION, MESSAGE, AGE),
        "One deployment across several Kubernetes clusters.",
        is_built=False,
    ),
    Kind(
        "ValkeyUpgrade",
        "vku",
        operations.ValkeyUpgradeSpec,
        operations.ValkeyUpgradeStatus,
        (PHASE, Column("Deployment", ".spec.clusterRef.name"), Column("To", ".status.toImage"), MESSAGE, AGE),
        "A supervised change of version of one deployment, with its history.",
        is_built=False,
    ),
    Kind(
        "ValkeyBackup",
        "vkb",
        operations.ValkeyBackupSpec,
        operations.ValkeyBackupStatus,
        (
            PHASE,
            Column("Source", ".spec.source.name"),
            Column("Size", ".status.size"),
            Column("Keys", ".status.keys", "integer"),
            MESSAGE,
            AGE,
        ),
        "One backup of one deployment.",
        is_built=False,
    ),
    Kind(
        "ValkeyBackupSchedule",
        "vkbs",
        operations.ValkeyBackupScheduleSpec,
        operations.ValkeyBackupScheduleStatus,
        (
            Column("Schedule", ".spec.schedule"),
            Column("Suspended", ".spec.suspend", "boolean"),
            Column("Last", ".status.lastSuccessAt", "date"),
            Column("Kept", ".status.kept", "integer"),
            MESSAGE,
            AGE,
        ),
        "Backups at regular times.",
        is_built=False,
    ),
    Kind(
        "ValkeyRestore",
        "vkr",
        operations.ValkeyRestoreSpec,
        operations.ValkeyRestoreStatus,
        (
            PHASE,
            Column("Target", ".spec.target.name"),
            Column("Keys", ".status.keysRestored", "integer"),
            MESSAGE,
            AGE,
        ),
        "A backup put into a new deployment.",
        is_built=False,
    ),
    Kind(
        "ValkeyClusterTls",
        "vktls",
        tls.TlsPolicySpec,
        Status,
        (STATE, MESSAGE, AGE),
        "A TLS policy that deployments refer to by name.",
        plural="valkeyclustertls",
        is_built=False,
    ),
    Kind(
        "ValkeyClusterAcl",
        "vkacl",
        auth.AclPolicySpec,
        auth.AclPolicyStatus,
        (PHASE, Column("Secret", ".spec.secretName"), MESSAGE, AGE),
        "Users and passwords that deployments refer to by name.",
        is_built=False,
    ),
    Kind(
        "ValkeyClusterDefaults",
        "vkd",
        cluster_defaults.ValkeyClusterDefaultsSpec,
        cluster_defaults.ValkeyClusterDefaultsStatus,
        (Column("AppliesTo", ".status.appliesTo", "integer"), MESSAGE, AGE),
        "Default values for deployments in a namespace.",
        plural="valkeyclusterdefaults",
        rules=(
            Rule(
                "self.metadata.name == 'defaults'",
                "the name is %s; defaults count only under the name defaults",
                ("self.metadata.name",),
            ),
        ),
    ),
    Kind(
        "ValkeyNode",
        "vkn",
        node.ValkeyNodeSpec,
        node.ValkeyNodeStatus,
        (
            Column("Role", ".status.observedRole"),
            Column("Ready", ".status.ready", "boolean"),
            Column("Pod", ".status.podName"),
            Column("Version", ".status.valkeyVersion", wide=True),
            MESSAGE,
            AGE,
        ),
        "One pod with its Service and volume. Made by the operator, not by people.",
    ),
    Kind(
        "ValkeyCA",
        "vkca",
        certificates.ValkeyCASpec,
        certificates.ValkeyCAStatus,
        (READY_CONDITION, EXPIRES, MESSAGE, AGE),
        "The root CA of the operator.",
    ),
    Kind(
        "ValkeyCertificateBundle",
        "vkcb",
        certificates.ValkeyCertificateBundleSpec,
        certificates.ValkeyCertificateBundleStatus,
        (
            Column("Purpose", ".spec.purpose"),
            READY_CONDITION,
            EXPIRES,
            MESSAGE,
            AGE,
        ),
        "The intermediate CA of one deployment, for one purpose.",
    ),
    Kind(
        "ValkeyCertificateBinding",
        "vkbind",
        certificates.ValkeyCertificateBindingSpec,
        certificates.ValkeyCertificateBindingStatus,
        (Column("Deployment", ".spec.clusterRef.name"), READY_CONDITION, MESSAGE, AGE),
        "Which certificates of a deployment are in use.",
    ),
)

__all__ = ["CATEGORY", "GROUP", "KINDS", "LONGEST_NAMES", "VERSION", "Column", "Kind", "Scale"]

"""Shapes of the core API, as its users know them: scheduling, resources, references, security.

They are typed and not passed through, so that a slip in them is refused by the API server at `kubectl apply`
and not by the pod that never comes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from valkey_operator.api import quantity
from valkey_operator.api.model import (
    INT_OR_STRING,
    LIST_ATOMIC,
    Matches,
    Model,
    Quantity,
    Rule,
    Strings,
    SubdomainName,
    list_map,
)

KeyName = Annotated[
    str,
    Field(max_length=253),
    Matches(r"^[-._a-zA-Z0-9]+$", "a key: use letters, digits, dashes, dots and underscores"),
]


class LocalReference(Model):
    """An object in the same namespace."""

    name: SubdomainName
    """The object's name."""


class KeyReference(Model):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: SubdomainName
    """The object's name."""

    key: KeyName
    """The key in it."""


class Resources(Model):
    """What a container asks for and may use at most."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] | None = None
    """What is set aside for the container, such as `cpu: 500m` and `memory: 1Gi`."""

    limits: Annotated[dict[str, Quantity], Field(max_length=16)] | None = None
    """What the container may use at most. `maxmemory` follows the memory limit unless `config` sets it."""


class Operator(StrEnum):
    """How a value is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Model):
    """A condition on a label."""

    key: Annotated[str, Field(max_length=317)]
    """The label."""

    operator: Operator
    """How the label is compared: In, NotIn, Exists, DoesNotExist; for nodes also Gt and Lt."""

    values: (
        Annotated[list[Annotated[str, Field(max_length=253)]], LIST_ATOMIC, Field(max_length=64)] | None
    ) = None
    """What it is compared with; empty for Exists and DoesNotExist, one number for Gt and Lt."""


Requirements = Annotated[list[Requirement], LIST_ATOMIC, Field(max_length=32)]


class LabelSelector(Model):
    """Chooses objects by their labels; all conditions must hold."""

    match_labels: Strings | None = None
    """Labels with these very values."""

    match_expressions: Requirements | None = None
    """Conditions on labels."""


class NodeSelectorTerm(Model):
    """Chooses Kubernetes nodes; all conditions must hold."""

    match_expressions: Requirements | None = None
    """Conditions on the node's labels."""

    match_fields: Requirements | None = None
    """Conditions on the node's fields, such as `metadata.name`."""


class NodeSelector(Model):
    """Chooses Kubernetes nodes; one of the terms must hold."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], LIST_ATOMIC, Field(min_length=1, max_length=16)]
    """The terms, of which one must hold."""


Weight = Annotated[int, Field(ge=1, le=100)]


class PreferredNodes(Model):
    """Kubernetes nodes that are preferred."""

    weight: Weight
    """How much, from 1 to 100."""

    preference: NodeSelectorTerm
    """Which nodes."""


class NodeAffinity(Model):
    """Which Kubernetes nodes pods may or should run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes that pods must run on."""

    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodes], LIST_ATOMIC, Field(max_length=16)] | None
    ) = None
    """Nodes that pods should run on."""


class PodAffinityTerm(Model):
    """Nearness to other pods."""

    label_selector: LabelSelector | None = None
    """Which pods."""

    topology_key: Annotated[str, Field(min_length=1, max_length=317)]
    """What counts as near: the same value of this node label."""

    namespaces: (
        Annotated[list[Annotated[str, Field(max_length=63)]], LIST_ATOMIC, Field(max_length=32)] | None
    ) = None
    """Namespaces of those pods; by default the deployment's own."""

    namespace_selector: LabelSelector | None = None
    """Namespaces of those pods, chosen by label."""

    match_label_keys: (
        Annotated[list[Annotated[str, Field(max_length=317)]], LIST_ATOMIC, Field(max_length=16)] | None
    ) = None
    """Labels whose value on the new pod is added to the selector."""

    mismatch_label_keys: (
        Annotated[list[Annotated[str, Field(max_length=317)]], LIST_ATOMIC, Field(max_length=16)] | None
    ) = None
    """Labels whose value on the new pod is excluded by the selector."""


class WeightedPodAffinityTerm(Model):
    """Nearness to other pods that is preferred."""

    weight: Weight
    """How much, from 1 to 100."""

    pod_affinity_term: PodAffinityTerm
    """Nearness to which pods."""


PodAffinityTerms = Annotated[list[PodAffinityTerm], LIST_ATOMIC, Field(max_length=16)]
WeightedPodAffinityTerms = Annotated[list[WeightedPodAffinityTerm], LIST_ATOMIC, Field(max_length=16)]


class PodAffinity(Model):
    """Which other pods to be near to, or away from."""

    required_during_scheduling_ignored_during_execution: PodAffinityTerms | None = None
    """What must hold."""

    preferred_during_scheduling_ignored_during_execution: WeightedPodAffinityTerms | None = None
    """What should hold."""


class Affinity(Model):
    """Where pods run, in the core API's own shape."""

    node_affinity: NodeAffinity | None = None
    """Kubernetes nodes to run on."""

    pod_affinity: PodAffinity | None = None
    """Pods to be near to."""

    pod_anti_affinity: PodAffinity | None = None
    """Pods to be away from. Replaces the soft spreading over hosts and zones that is there by default."""


class Toleration(Model):
    """A taint of Kubernetes nodes that pods put up with."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """The taint's key; empty with `operator: Exists` means every taint."""

    operator: Literal["Exists", "Equal"] | None = None
    """Equal (default) compares the value, Exists does not."""

    value: Annotated[str, Field(max_length=63)] | None = None
    """The taint's value."""

    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; empty means every effect."""

    toleration_seconds: Annotated[int, Field(ge=-2147483648, le=2147483647)] | None = None
    """How long a NoExecute taint is put up with; empty means for ever, 0 and less not at all."""


class TopologySpreadConstraint(Model):
    """How evenly pods are spread."""

    max_skew: Annotated[int, Field(ge=1, le=2147483647)]
    """By how many pods two places may differ."""

    topology_key: Annotated[str, Field(min_length=1, max_length=317)]
    """The node label whose values are the places."""

    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """What to do when it cannot be kept."""

    label_selector: LabelSelector | None = None
    """Which pods are counted; by default those of the same shard or instance."""

    min_domains: Annotated[int, Field(ge=1, le=2147483647)] | None = None
    """How many places there must be at least."""

    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    """Whether nodes that affinity excludes are counted."""

    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    """Whether tainted nodes are counted."""

    match_label_keys: (
        Annotated[list[Annotated[str, Field(max_length=317)]], LIST_ATOMIC, Field(max_length=16)] | None
    ) = None
    """Labels whose value on the new pod is added to the selector."""


class SeLinuxOptions(Model):
    """The SELinux context."""

    user: str | None = None
    """SELinux user."""

    role: str | None = None
    """SELinux role."""

    type: str | None = None
    """SELinux type."""

    level: str | None = None
    """SELinux level."""


class SeccompProfile(Model):
    """Which system calls are allowed."""

    type: Literal["RuntimeDefault", "Localhost", "Unconfined"]
    """RuntimeDefault (default), a profile of the Kubernetes node, or none."""

    localhost_profile: str | None = None
    """The file of the profile, with type Localhost."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.type == 'Localhost') == has(self.localhostProfile)",
            "localhostProfile is required with type Localhost and refused with any other",
            holds=lambda profile: (profile.type == "Localhost") == (profile.localhost_profile is not None),
        ),
    )


Id = Annotated[int, Field(ge=0, le=2147483647)]


class Sysctl(Model):
    """A kernel setting of the pod."""

    name: str
    """The setting's name."""

    value: str
    """Its value."""


class PodSecurityContext(Model):
    """Under whom the pod runs. What is not set satisfies the restricted Pod Security Standard."""

    run_as_user: Id | None = None
    """User id; default 10001."""

    run_as_group: Id | None = None
    """Group id; default 10001."""

    run_as_non_root: bool | None = None
    """Refuse to run as root; default true."""

    fs_group: Id | None = None
    """The group that owns the volume; default 10001."""

    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    """When ownership of the volume's files is set; default OnRootMismatch, which is fast on large volumes."""

    supplemental_groups: Annotated[list[Id], LIST_ATOMIC, Field(max_length=32)] | None = None
    """Further groups."""

    se_linux_options: SeLinuxOptions | None = None
    """The SELinux context."""

    seccomp_profile: SeccompProfile | None = None
    """Which system calls are allowed; default RuntimeDefault."""

    sysctls: Annotated[list[Sysctl], list_map("name"), Field(max_length=32)] | None = None
    """Kernel settings of the pod, such as net.core.somaxconn."""


def _require_short(value: int | str) -> int | str:
    too_long = len(value) > 64 if isinstance(value, str) else abs(value) > quantity.MOST
    if too_long:
        raise ValueError(f"{quantity.shown(value)} is too long")
    return value


IntOrString = Annotated[
    int | str,
    AfterValidator(_require_short),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 64, **INT_OR_STRING}),
]

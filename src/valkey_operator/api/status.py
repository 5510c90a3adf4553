"""What deployments report: one block that all share, and the parts they build theirs from."""

from __future__ import annotations

from enum import unique
from typing import Annotated, Literal

from pydantic import Field

from valkey_operator.api.model import LIST_ATOMIC, Model, list_map
from valkey_operator.api.reasons import Word

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
ShortText = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=1024)]


@unique
class State(Word):
    """How a deployment is, in one word."""

    INITIALIZING = "Initializing", "its servers are being made, or do not serve yet"
    RECONCILING = "Reconciling", "it serves, and is being changed"
    READY = "Ready", "it serves reads and writes with all its replicas"
    DEGRADED = "Degraded", "something is missing; the reason says whether it serves"
    SUSPENDED = "Suspended", "it has no pods because replicas is 0; its volumes are kept"
    UNBOUND = "Unbound", "it was taken out of the operator's hands"
    FAILED = (
        "Failed",
        "what it asks for now is not done, and the message says what must be changed; "
        "what it asked for before, if that was accepted, is looked after",
    )


class Condition(Model):
    """One thing that holds or does not, since when, and why."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What it is about."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec it speaks of."""

    last_transition_time: Time
    """Since when."""

    reason: Annotated[
        str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", min_length=1, max_length=1024)
    ]
    """Why, in one word."""

    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence."""


Conditions = Annotated[list[Condition], list_map("type"), Field(max_length=32)]


class PinnedPersistence(Model):
    """What the layering gave for the volume at creation."""

    enabled: bool
    """Whether servers have volumes."""

    storage_class_name: ShortText | None = None
    """The storage class asked for."""


class Pinned(Model):
    """What the layering gave at creation for fields that cannot be changed."""

    pod_management_type: ShortText | None = None
    """What runs each pod."""

    persistence: PinnedPersistence | None = None
    """The volume."""


class Status(Model):
    """What every kind reports."""

    state: State | None = None
    """How it is: Initializing, Reconciling, Ready, Degraded, Suspended, Unbound or Failed."""

    reason: ShortText | None = None
    """Why, in one word."""

    message: LongText | None = None
    """Why, in a sentence."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that this speaks of."""

    conditions: Conditions | None = None
    """What holds and what does not."""

    pinned: Pinned | None = None
    """What the layering gave at creation for fields that cannot be changed."""


class Operation(Model):
    """What is being done."""

    kind: ShortText
    """What it is, such as Scaling or RollingUpdate."""

    step: LongText | None = None
    """The step under way."""

    done: int | None = None
    """How much of it is done."""

    total: int | None = None
    """How much there is to do."""

    started_at: Time | None = None
    """When it began."""

    eta: Time | None = None
    """When it will probably end."""


class Next(Model):
    """A step that would be taken now, or the named reason why it is not."""

    action: ShortText
    """The step."""

    why: LongText | None = None
    """What it is for."""

    refused_by: ShortText | None = None
    """The guard that holds it back."""


class LossBound(Model):
    """How much a failover can have lost at most."""

    bytes: int | None = None
    """Bytes of the replication stream."""

    seconds: int | None = None
    """Seconds of writes, the last ones before it."""

    is_unknown: bool | None = None
    """Nothing could be measured."""


class Failover(Model):
    """The last change of a primary."""

    at: Time
    """When."""

    shard: int | None = None
    """In which shard."""

    from_: Annotated[str, Field(alias="from", max_length=253)]
    """The old primary."""

    to: ShortText
    """The new primary."""

    planned: bool
    """Whether it was part of planned work."""

    reason: ShortText
    """Why, in one word."""

    epoch: int | None = None
    """The epoch of the new primary."""

    write_pause_ms: int | None = None
    """Of a planned change: how long writes were refused, in milliseconds."""

    loss_bound: LossBound | None = None
    """How much can have been lost at most."""


class TlsStatus(Model):
    """Whether TLS works."""

    enabled: bool
    """Whether it is on."""

    certificate_status: Literal["Valid", "Expiring", "Expired", "Invalid", "Missing"] | None = None
    """How the certificate in use is."""

    not_after: Time | None = None
    """When it expires."""

    ca_config_map: ShortText | None = None
    """The ConfigMap with the CA that clients need."""


class AclUserStatus(Model):
    """Whether a user is in force."""

    name: ShortText
    """The user."""

    status: Literal["Active", "Pending", "Error"]
    """Whether all servers know it."""


class AclStatus(Model):
    """Whether users are in force."""

    enabled: bool
    """Whether there are any."""

    synced: bool | None = None
    """Whether all servers have the same."""

    users: Annotated[list[AclUserStatus], list_map("name"), Field(max_length=300)] | None = None
    """The users."""


class ExporterStatus(Model):
    """Where metrics are."""

    enabled: bool
    """Whether exporters run."""

    metrics_endpoint: ShortText | None = None
    """Their address."""


class DisruptionStatus(Model):
    """What holds evictions back."""

    mode: Literal["Budget", "None"]
    """What `disruption.mode` comes to: Guarded acts as Budget until it is built, and a lone pod has no budget."""

    message: LongText | None = None
    """The same as a sentence."""


class DeploymentStatus(Status):
    """What every deployment reports beside its own."""

    selector: LongText | None = None
    """The pods of this deployment, for `kubectl scale` and autoscalers."""

    total_replicas: int | None = None
    """Pods that there are."""

    ready_replicas: int | None = None
    """Pods that are ready."""

    operation: Operation | None = None
    """What is being done."""

    next: Annotated[list[Next], LIST_ATOMIC, Field(max_length=16)] | None = None
    """What would be done now, or the named reason why it is not."""

    last_failover: Failover | None = None
    """The last change of a primary."""

    tls: TlsStatus | None = None
    """Whether TLS works."""

    acl: AclStatus | None = None
    """Whether users are in force."""

    exporter: ExporterStatus | None = None
    """Where metrics are."""

    disruption: DisruptionStatus | None = None
    """What holds evictions back."""

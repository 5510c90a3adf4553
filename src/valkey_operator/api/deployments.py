"""The four kinds that people deploy: ValkeyCluster, Valkey, ValkeyPool, Sentinel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_snake

from valkey_operator.api.core import IntOrString
from valkey_operator.api.model import LIST_ATOMIC, LIST_SET, Duration, Model, Name, Rule, list_map
from valkey_operator.api.shared import Server, Workload
from valkey_operator.api.status import DeploymentStatus, LongText, ShortText, Time

Zone = Annotated[str, Field(min_length=1, max_length=63)]
Zones = Annotated[list[Zone], LIST_SET, Field(min_length=1, max_length=16)]
NodeLabel = Annotated[str, Field(min_length=1, max_length=317)]


class AzDistribution(Model):
    """Which zones shards live in."""

    zones: Zones
    """The zones. The primary of shard i prefers zone i modulo their number, its replicas the others."""

    node_label: NodeLabel | None = None
    """The label of Kubernetes nodes that holds the zone; default topology.kubernetes.io/zone."""

    replica_strategy: Literal["anti-affinity", "spread"] | None = None
    """anti-affinity (default): replicas away from their primary's zone. spread: evenly over all zones."""


class InstanceAzDistribution(Model):
    """Which zones the pods of one instance live in."""

    primary_zone: Zone
    """Where the primary should be."""

    replica_zones: Zones | None = None
    """Where replicas should be."""

    node_label: NodeLabel | None = None
    """The label of Kubernetes nodes that holds the zone; default topology.kubernetes.io/zone."""

    required: bool | None = None
    """Do not run a pod elsewhere; default false."""


class ClusterSettings(Model):
    """Settings of the cluster protocol."""

    node_timeout: Duration | None = None
    """How long a server may be silent before it counts as dead; default 5s. Longer where the network pauses."""

    replica_read_only: bool | None = None
    """Replicas refuse writes; default true."""

    allow_reads_when_down: bool | None = None
    """Serve reads while some slots have no primary; default false."""

    migration_barrier: Annotated[int, Field(ge=0, le=10)] | None = None
    """Rendered without effect: the operator keeps each replica in the shard that its name says. Default 1."""


class ValkeyClusterSpec(Server):
    """A sharded cluster: `shards` times `replicas` pods, 16384 slots."""

    shards: Annotated[int, Field(ge=3, le=500)] = 3
    """How many shards; default 3, at least 3. Scaling moves slots while clients go on."""

    replicas: Annotated[int, Field(ge=0, le=20)] = 3
    """Pods of each shard, its primary included; default 3. 1 has no replica, 0 suspends and keeps the volumes."""

    cluster: ClusterSettings | None = None
    """Settings of the cluster protocol."""

    az_distribution: AzDistribution | None = None
    """Which zones shards live in; without it, pods spread softly over hosts and zones."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *Server.rules,
        Rule(
            "self.shards * (self.replicas < 1 ? 1 : self.replicas) <= 1000",
            "%d shards of %d replicas are too many; a cluster has at most 1000 pods",
            ("self.shards", "self.replicas"),
            field_path=".shards",
            holds=lambda spec: spec.shards * max(spec.replicas, 1) <= 1000,
        ),
    )


class Lag(Model):
    """How far one replica is behind."""

    name: ShortText
    """The ValkeyNode."""

    bytes: int
    """What it has yet to get of its primary's writes, at least: 4 MiB, 16 MiB, 64 MiB and so on."""


Lagging = Annotated[list[Lag], list_map("name"), Field(max_length=1000)]


class ShardStatus(Model):
    """How one shard is."""

    shard_index: int
    """Its number."""

    primary: ShortText | None = None
    """Its primary."""

    replicas: Annotated[list[ShortText], LIST_SET, Field(max_length=20)] | None = None
    """Its replicas."""

    slots: Annotated[str, Field(max_length=4096)] | None = None
    """Its slots, as ranges separated by commas."""

    zone: ShortText | None = None
    """The zone of its primary."""

    replica_zones: Annotated[list[ShortText], LIST_ATOMIC, Field(max_length=20)] | None = None
    """The zones of its replicas, in their order; empty where a machine is in none."""

    ready: bool
    """Whether it serves all its slots with all its replicas."""

    behind: Annotated[list[ShortText], LIST_SET, Field(max_length=20)] | None = None
    """Replicas that do not have all of their primary's data."""

    used_bytes: int | None = None
    """Memory that its primary uses; told again when it is an eighth more or less."""

    max_bytes: int | None = None
    """Its primary's maxmemory; absent without one."""


class SwitchoverStatus(Model):
    """What came of the annotation valkey.io/switchover."""

    id: ShortText
    """Of the request; one that stands here is not carried out again."""

    result: Literal["UnderWay", "Done", "Refused", "Failed"]
    """UnderWay, Done, Refused (nothing was changed) or Failed (what it was before is restored)."""

    message: LongText | None = None
    """What happened, or the guard that was against it and why."""

    epoch: int | None = None
    """The epoch of the new primary; `lastFailover` with the same one tells the rest."""


class AllowancesUsed(Model):
    """Shards whose allowance was made use of, or was not needed. For another time take the annotation away first."""

    takeover: Annotated[list[int], LIST_SET, Field(max_length=500)] | None = None
    """By `valkey.io/allow-takeover`."""

    data_loss: Annotated[list[int], LIST_SET, Field(max_length=500)] | None = None
    """By `valkey.io/allow-data-loss`."""


class ValkeyClusterStatus(DeploymentStatus):
    """How the cluster is."""

    total_shards: int | None = None
    """Shards that there are."""

    ready_shards: int | None = None
    """Shards that are ready."""

    slots_assigned: int | None = None
    """Slots that have a primary, of 16384."""

    slots_unassigned: int | None = None
    """Slots that have none."""

    lagging: Lagging | None = None
    """Replicas that follow and are 4 MiB or more behind."""

    shards: Annotated[list[ShardStatus], list_map("shardIndex"), Field(max_length=500)] | None = None
    """The shards."""

    last_switchover: SwitchoverStatus | None = None
    """What came of the last request for another primary."""

    formed: bool | None = None
    """Every slot has had a primary: from then on a slot without one is a loss, and not a beginning."""

    allowances_used: AllowancesUsed | None = None
    """What annotations allowed, and allow no more."""


def _is_whole_number(field: str) -> Callable[[Any], bool]:
    def holds(settings: Any) -> bool:
        value = getattr(settings, to_snake(field))
        return value is None or re.fullmatch(r"[1-9][0-9]{0,8}", str(value), re.ASCII) is not None

    return holds


class SentinelSettings(Model):
    """When and how Sentinel fails over. What is not set comes from the Sentinel, then from the operator."""

    down_after_milliseconds: IntOrString | None = None
    """How long a server may be silent before it counts as down; default 30000."""

    failover_timeout: IntOrString | None = None
    """How long a failover may take, in milliseconds; default 180000."""

    parallel_syncs: IntOrString | None = None
    """How many replicas follow a new primary at once; default 1."""

    rules: ClassVar[tuple[Rule, ...]] = tuple(
        Rule(
            f"!has(self.{field}) || string(self.{field}).matches('^[1-9][0-9]{{0,8}}$')",
            f"{field} is %s; it must be a whole number from 1 to 999999999",
            (f"self.{field}",),
            field_path=f".{field}",
            holds=_is_whole_number(field),
        )
        for field in ("downAfterMilliseconds", "failoverTimeout", "parallelSyncs")
    )


class SentinelReference(Model):
    """The Sentinel that watches this instance."""

    name: Name
    """The Sentinel's name, in the same namespace."""

    config: SentinelSettings | None = None
    """What differs from the Sentinel's own settings."""


class ValkeySpec(Server):
    """One primary and its replicas; standalone with one replica."""

    replicas: Annotated[int, Field(ge=0, le=20)] = 1
    """How many pods, the primary included; default 1. 3 for production, 0 suspends and keeps the volumes."""

    sentinel: SentinelReference | None = None
    """The Sentinel that fails over; without it the operator does."""

    az_distribution: InstanceAzDistribution | None = None
    """Which zones the pods live in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *Server.rules,
        Rule(
            "!has(self.sentinel) || self.replicas == 0 || self.replicas >= 2",
            "replicas is %d; with sentinel it is 0 (suspended) or at least 2",
            ("self.replicas",),
            field_path=".replicas",
            holds=lambda spec: spec.sentinel is None or spec.replicas != 1,
        ),
    )


class InstanceNodeStatus(Model):
    """How one server is."""

    name: ShortText
    """The ValkeyNode."""

    role: Literal["primary", "replica", "unknown"]
    """What it is."""

    ready: bool
    """Whether it serves."""


class ValkeyStatus(DeploymentStatus):
    """How the instance is."""

    primary: ShortText | None = None
    """The ValkeyNode that is primary."""

    primary_epoch: int | None = None
    """Counts the changes of the primary."""

    promotable: Annotated[list[ShortText], LIST_ATOMIC, Field(max_length=20)] | None = None
    """Replicas that may become primary without proof that the last one is dead, once its time to write is over."""

    last_switchover: SwitchoverStatus | None = None
    """What came of the last switchover that somebody asked for."""

    sentinel_managed: bool | None = None
    """Whether a Sentinel fails over."""

    sentinel_name: ShortText | None = None
    """Which one."""

    lagging: Lagging | None = None
    """Replicas that follow and are 4 MiB or more behind."""

    nodes: Annotated[list[InstanceNodeStatus], list_map("name"), Field(max_length=20)] | None = None
    """The servers."""


class ValkeyPoolSpec(Model):
    """Independent instances from one template, for clients that shard by themselves."""

    shards: Annotated[int, Field(ge=0, le=500)] = 3
    """How many instances; default 3. Fewer deletes data and needs the annotation valkey.io/allow-data-loss."""

    template: ValkeySpec
    """What each instance is."""

    az_distribution: AzDistribution | None = None
    """Which zones the instances live in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.template.azDistribution)",
            "template.azDistribution is filled in per instance; set azDistribution of the pool instead",
            field_path=".template.azDistribution",
            holds=lambda spec: spec.template.az_distribution is None,
        ),
    )


class PoolShardStatus(Model):
    """How one instance of the pool is."""

    name: ShortText
    """The Valkey."""

    zone: ShortText | None = None
    """The zone of its primary."""

    state: ShortText | None = None
    """How it is."""

    ready_replicas: int | None = None
    """Pods that are ready."""


class ValkeyPoolStatus(DeploymentStatus):
    """How the pool is."""

    total_shards: int | None = None
    """Instances that there are."""

    ready_shards: int | None = None
    """Instances that are ready."""

    shards: Annotated[list[PoolShardStatus], list_map("name"), Field(max_length=500)] | None = None
    """The instances."""


class SentinelSpec(Workload):
    """A group of Sentinels that watches the instances which refer to it."""

    replicas: Annotated[int, Field(ge=1, le=15)] = 3
    """How many Sentinels; default 3. An odd number; an even one wins nothing."""

    quorum: Annotated[int, Field(ge=1, le=15)] | None = None
    """How many must agree that a primary is down; default: more than half."""

    default_config: SentinelSettings | None = None
    """When and how to fail over, for instances that do not say otherwise."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *Workload.rules,
        Rule(
            "!has(self.quorum) || self.quorum <= self.replicas",
            "quorum is %d of %d Sentinels; it must be from 1 to replicas",
            ("self.quorum", "self.replicas"),
            field_path=".quorum",
            holds=lambda spec: spec.quorum is None or spec.quorum <= spec.replicas,
        ),
    )


class MonitoredInstance(Model):
    """An instance that is watched."""

    name: ShortText
    """The Valkey, and the name clients ask for."""

    namespace: ShortText | None = None
    """Its namespace."""

    primary: ShortText | None = None
    """Its primary, as Sentinel sees it."""

    replicas: int | None = None
    """Replicas that Sentinel knows, without the primary."""

    monitoring: bool | None = None
    """Whether it is being watched."""

    sentinel_config: dict[str, ShortText] | None = None
    """The settings in force."""

    last_failover: Time | None = None
    """When Sentinel last changed its primary."""


class SentinelMember(Model):
    """One Sentinel."""

    name: ShortText
    """The ValkeyNode."""

    ready: bool
    """Whether it answers."""

    ip: ShortText | None = None
    """Its address."""


class SentinelStatus(DeploymentStatus):
    """How the group is."""

    monitored_instances: (
        Annotated[list[MonitoredInstance], list_map("name"), Field(max_length=500)] | None
    ) = None
    """The instances that are watched."""

    sentinels: Annotated[list[SentinelMember], list_map("name"), Field(max_length=15)] | None = None
    """The Sentinels."""

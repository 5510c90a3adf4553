"""The status of a ValkeyCluster, from what was planned and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from valkey_operator.api.requests import ALLOW_DATA_LOSS, ALLOW_TAKEOVER
from valkey_operator.decide.cluster_report import ShardReport
from valkey_operator.decide.conditions import conditions
from valkey_operator.decide.sharded import Plan
from valkey_operator.model.cluster import SLOTS
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.cluster_seen import allowed, used
from valkey_operator.operator.instance_report import next_shown, operation_shown
from valkey_operator.operator.seen import Custom
from valkey_operator.render import exporter, marks

LONGEST = 1024
# Written by steps of a plan, and not by the report.
RECORDS = ("formed", "lastFailover", "lastSwitchover")


def status(
    item: Custom, deployment: Deployment, found: Plan, said: Sequence[str], now: datetime
) -> dict[str, Any]:
    """`said`: what went wrong with a step."""
    report, generation = found.report, item.metadata.generation
    after: dict[str, Any] = {
        **{name: item.status[name] for name in RECORDS if name in item.status},
        "state": report.state,
        "reason": report.reason,
        "message": "; ".join(dict.fromkeys([report.message, *said]))[:LONGEST],
        "observedGeneration": generation,
        "conditions": conditions(item.status, report.conditions, generation, now),
        "selector": f"{marks.CLUSTER}={deployment.name}",
        "totalShards": len(report.shards),
        "readyShards": sum(shard.ready for shard in report.shards),
        "totalReplicas": report.total_replicas,
        "readyReplicas": report.ready_replicas,
        "slotsAssigned": report.slots_assigned,
        "slotsUnassigned": SLOTS - report.slots_assigned,
        "shards": [_shard(shard) for shard in report.shards],
        "exporter": exporter.status(deployment),
    }
    if spent := _spent(item, found):
        after["allowancesUsed"] = spent
    if report.operation is not None:
        after["operation"] = operation_shown(item, report.operation, now)
    if report.next:
        after["next"] = [next_shown(each) for each in report.next]
    return after


def _spent(item: Custom, found: Plan) -> dict[str, list[int]]:
    """As long as the annotation names the shard: one that is set anew counts anew."""
    report = found.report
    takeover = allowed(item, ALLOW_TAKEOVER) & (used(item, "takeover") | report.used_takeovers)
    data_loss = allowed(item, ALLOW_DATA_LOSS) & (used(item, "dataLoss") | report.used_data_losses)
    return {
        name: sorted(shards) for name, shards in (("takeover", takeover), ("dataLoss", data_loss)) if shards
    }


def _shard(shard: ShardReport) -> dict[str, Any]:
    shown: dict[str, Any] = {"shardIndex": shard.index, "ready": shard.ready}
    named = {"primary": shard.primary, "replicas": list(shard.replicas), "slots": shard.slots}
    return {**shown, **{name: value for name, value in named.items() if value}}

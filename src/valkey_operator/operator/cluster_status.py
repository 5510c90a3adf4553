"""The status of a ValkeyCluster, from what was planned and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from valkey_operator.api.requests import ALLOW_DATA_LOSS, ALLOW_TAKEOVER
from valkey_operator.decide.actions import Doing
from valkey_operator.decide.cluster_report import ShardReport
from valkey_operator.decide.conditions import conditions
from valkey_operator.decide.sharded import Plan
from valkey_operator.model.cluster import SLOTS
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.times import written
from valkey_operator.operator.cluster_seen import allowed, used
from valkey_operator.operator.instance_report import (
    answered_switchover,
    next_shown,
    operation_shown,
    with_all,
)
from valkey_operator.operator.instance_seen import switchover_request
from valkey_operator.operator.seen import Custom
from valkey_operator.render import disruption, exporter, marks

LONGEST = 1024
# Of memory: less than this comes and goes with clients.
SMALL = 4 << 20
NOWHERE: Mapping[str, str] = {}
# Written by steps of a plan, and not by the report.
RECORDS = ("formed", "lastSwitchover")


def status(
    item: Custom,
    deployment: Deployment,
    found: Plan,
    said: Sequence[str],
    now: datetime,
    seconds_left: float | None = None,
    zones: Mapping[str, str] = NOWHERE,
    pause: int | None = None,
) -> dict[str, Any]:
    """`said`: what went wrong with a step; `seconds_left`: until the operation under way is over, if that is known;
    `zones`: by node; `pause`: of the last failover, in milliseconds."""
    report, generation = found.report, item.metadata.generation
    spent = _spent(item, found)
    message = "; ".join(dict.fromkeys([report.message, *said, *map(_used_up, spent.items())]))
    told = {each["shardIndex"]: each.get("usedBytes", 0) for each in item.status.get("shards") or ()}
    after: dict[str, Any] = {
        **{name: item.status[name] for name in RECORDS if name in item.status},
        "state": report.state,
        "reason": report.reason,
        "message": message[:LONGEST],
        "observedGeneration": generation,
        "conditions": conditions(item.status, with_all(report, message), generation, now),
        "selector": f"{marks.CLUSTER}={deployment.name}",
        "totalShards": len(report.shards),
        "readyShards": sum(shard.ready for shard in report.shards),
        "totalReplicas": report.total_replicas,
        "readyReplicas": report.ready_replicas,
        "slotsAssigned": report.slots_assigned,
        "slotsUnassigned": SLOTS - report.slots_assigned,
        "shards": [_shard(shard, told.get(shard.index, 0), zones) for shard in report.shards],
        "exporter": exporter.status(deployment),
        "disruption": disruption.status(deployment),
    }
    if last := _last_failover(item, report.shards, pause):
        after["lastFailover"] = last
    if spent:
        after["allowancesUsed"] = spent
    if report.operation is not None:
        after["operation"] = _operation(item, report.operation, now, seconds_left)
    if report.next:
        after["next"] = [next_shown(each) for each in report.next]
    answer = _switched(item, report.shards) or answered_switchover(item, found.answer)
    return after | ({"lastSwitchover": answer} if answer else {})


def _last_failover(item: Custom, shards: Sequence[ShardReport], pause: int | None) -> dict[str, Any]:
    """What is known of it only when the new primary is in office."""
    last: dict[str, Any] = item.status.get("lastFailover") or {}
    made = {(each.index, each.primary): each.epoch for each in shards}
    epoch = made.get((last.get("shard", -1), last.get("to", "")))
    if not epoch or "epoch" in last:
        return last
    return {**last, "epoch": epoch, **({} if pause is None else {"writePauseMs": pause})}


def _switched(item: Custom, shards: Sequence[ShardReport]) -> dict[str, Any] | None:
    """One that was taken up, and is done: whoever was to say so may have been killed meanwhile."""
    request, last = switchover_request(item), item.status.get("lastSwitchover") or {}
    if request is None or last.get("id") != request.id or request.to not in {each.primary for each in shards}:
        return None
    return {**last, "result": "Done", "message": f"{request.to} is primary"}


def _operation(item: Custom, doing: Doing, now: datetime, seconds_left: float | None) -> dict[str, Any]:
    """What is counted stays while the same operation does something else in between."""
    before, shown = item.status.get("operation") or {}, operation_shown(item, doing, now)
    is_same_wish = item.status.get("observedGeneration") == item.metadata.generation
    if doing.total is None and before.get("kind") == doing.kind and is_same_wish:
        shown |= {name: before[name] for name in ("done", "total") if name in before}
    if seconds_left is not None:
        shown["eta"] = written(now + timedelta(seconds=seconds_left))
    return shown


def _spent(item: Custom, found: Plan) -> dict[str, list[int]]:
    """As long as the annotation names the shard: one that is set anew counts anew."""
    report = found.report
    takeover = allowed(item, ALLOW_TAKEOVER) & (used(item, "takeover") | report.used_takeovers)
    data_loss = allowed(item, ALLOW_DATA_LOSS) & (used(item, "dataLoss") | report.used_data_losses)
    return {
        name: sorted(shards) for name, shards in (("takeover", takeover), ("dataLoss", data_loss)) if shards
    }


def _used_up(allowance: tuple[str, list[int]]) -> str:
    """Whoever needs it once more would find it set, and wait."""
    name, shards = allowance
    annotation = {"takeover": ALLOW_TAKEOVER, "dataLoss": ALLOW_DATA_LOSS}[name]
    return f"{annotation} is used up for shard {', '.join(map(str, shards))}: take it away; set anew, it counts anew"


def _shard(shard: ShardReport, told: int, zones: Mapping[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"shardIndex": shard.index, "ready": shard.ready}
    others = [zones.get(each, "") for each in shard.replicas]
    named = {
        "primary": shard.primary, "zone": zones.get(shard.primary, ""),
        "replicaZones": others if any(others) else [], "replicas": list(shard.replicas), "slots": shard.slots,
        "behind": list(shard.behind), "usedBytes": steady(told, shard.used_bytes), "maxBytes": shard.max_bytes,
    }  # fmt: skip
    return {**shown, **{name: value for name, value in named.items() if value}}


def steady(told: int, now: int) -> int:
    """What was told, as long as it is about right: a status that moves all the time costs a write each time."""
    return told if told and (not now or abs(now - told) <= max(told // 8, SMALL)) else now

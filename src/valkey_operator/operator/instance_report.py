"""The status of a Valkey, from what was planned and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from valkey_operator.api.reasons import ConditionType
from valkey_operator.api.status import State
from valkey_operator.decide.actions import Doing
from valkey_operator.decide.cluster_report import ClusterReport
from valkey_operator.decide.conditions import Condition, conditions
from valkey_operator.decide.instance import Plan
from valkey_operator.decide.report import Report
from valkey_operator.decide.reporting import NextReport
from valkey_operator.decide.requests import Answer
from valkey_operator.decide.support import Refusal
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.times import written
from valkey_operator.operator.instance_seen import switchover_request
from valkey_operator.operator.seen import Custom
from valkey_operator.render import disruption, exporter, marks

LONGEST = 1024
# Written by steps of a plan, and not by the report.
RECORDS = ("primary", "primaryEpoch", "promotable", "lastFailover", "lastSwitchover")


def refused_status(item: Custom, known: Mapping[str, Any], refused: Refusal, now: datetime) -> dict[str, Any]:
    """Nothing was changed, and this is why; what is known beside that stays."""
    generation, message = item.metadata.generation, refused.message[:LONGEST]
    said = [
        Condition(ConditionType.READY, False, refused.reason, message),
        Condition(ConditionType.DEGRADED, True, refused.reason, message),
        Condition(ConditionType.CONFIG_APPLIED, False, refused.reason, message),
    ]
    types = {str(each.type) for each in said}
    others = [each for each in known.get("conditions") or () if each["type"] not in types]
    return {
        **known,
        "state": State.FAILED,
        "reason": refused.reason,
        "message": message,
        "observedGeneration": generation,
        "conditions": conditions(item.status, said, generation, now) + others,
    }


def status(
    item: Custom, deployment: Deployment, found: Plan, said: Sequence[str], now: datetime
) -> dict[str, Any]:
    """`said`: what went wrong with a step, and what nodes have to say beside their state."""
    report, generation = found.report, item.metadata.generation
    message = "; ".join(dict.fromkeys([report.message, *said]))
    after: dict[str, Any] = {
        **{name: item.status[name] for name in RECORDS if name in item.status},
        "state": report.state,
        "reason": report.reason,
        "message": message[:LONGEST],
        "observedGeneration": generation,
        "conditions": conditions(item.status, with_all(report, message), generation, now),
        "selector": f"{marks.CLUSTER}={deployment.name}",
        "totalReplicas": report.total,
        "readyReplicas": report.ready,
        "nodes": [{"name": each.name, "role": each.role, "ready": each.ready} for each in report.nodes],
        "exporter": exporter.status(deployment),
        "disruption": disruption.status(deployment),
    }
    if report.operation is not None:
        after["operation"] = operation_shown(item, report.operation, now)
    if report.next:
        after["next"] = [next_shown(each) for each in report.next]
    answer = answered_switchover(item, found.answer)
    return after | ({"lastSwitchover": answer} if answer else {})


def with_all(report: Report | ClusterReport, message: str) -> list[Condition]:
    """Those that repeat the message say all of it."""
    return [
        replace(each, message=message) if each.message == report.message else each
        for each in report.conditions
    ]


def operation_shown(item: Custom, doing: Doing, now: datetime) -> dict[str, Any]:
    before = item.status.get("operation") or {}
    since = before.get("startedAt") if before.get("kind") == doing.kind else None
    shown = {"kind": doing.kind, "step": doing.step, "startedAt": since or written(now)}
    counts = {"done": doing.done, "total": doing.total}
    return {**shown, **{name: value for name, value in counts.items() if value is not None}}


def next_shown(each: NextReport) -> dict[str, str]:
    shown = {"action": each.action, "why": each.why[:LONGEST], "refusedBy": each.refused_by}
    return {name: value for name, value in shown.items() if value}


def answered_switchover(item: Custom, answer: Answer | None) -> dict[str, Any] | None:
    """If it is still the request that was looked at: another one may have come meanwhile, or a step has taken it up."""
    request = switchover_request(item)
    if request is None or answer is None or answer.request != request.id:
        return None
    return {"id": request.id, "result": answer.result, "message": answer.message[:LONGEST]}

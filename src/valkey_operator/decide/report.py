"""What people read about one primary and its replicas: how it is, what is being done, and what is held back and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.decide import sight
from valkey_operator.decide.actions import Doing, Step
from valkey_operator.decide.conditions import Condition
from valkey_operator.decide.reporting import NextReport, is_ready, message, next_steps, troubles
from valkey_operator.model.instance import SeenInstance, SeenNode


@dataclass(frozen=True)
class NodeReport:
    name: str
    role: Literal["primary", "replica", "unknown"]
    ready: bool


@dataclass(frozen=True)
class Report:
    """The status, but for times."""

    state: State
    reason: Reason
    message: str
    conditions: tuple[Condition, ...]
    operation: Doing | None
    next: tuple[NextReport, ...]
    nodes: tuple[NodeReport, ...]
    total: int
    ready: int


def report(seen: SeenInstance, step: Step) -> Report:
    state, reason = _state(seen, step)
    said = message(
        reason.sentence,
        *troubles((node.name, node.pod) for node in seen.nodes),
        *_cut_off(seen),
        *(each.sentence for each in step.waits),
        *(each.why for each in step.refusals),
    )
    nodes = tuple(NodeReport(node.name, _role(node), is_ready(node.pod)) for node in seen.nodes)
    return Report(
        state,
        reason,
        said,
        _conditions(seen, state, reason, said),
        step.doing,
        next_steps(step.actions, step.refusals),
        nodes,
        len(seen.nodes),
        sum(node.ready for node in nodes),
    )


def _state(seen: SeenInstance, step: Step) -> tuple[State, Reason]:
    """In this order of weight: suspended, without a primary, something missing, being changed, well."""
    if not seen.wish.replicas:
        is_over = not seen.nodes
        return (State.SUSPENDED, Reason.SUSPENDED) if is_over else (State.RECONCILING, Reason.SUSPENDING)
    state, reason = _health(seen, step)
    return (state, Reason.PAUSED) if seen.wish.is_paused else (state, reason)


def _health(seen: SeenInstance, step: Step) -> tuple[State, Reason]:
    primary = seen.node(seen.record.primary)
    if primary is None or not sight.is_in_office(primary) or not is_ready(primary.pod):
        if not seen.service or all(node.pod is None or not node.pod.is_ready for node in seen.nodes):
            return State.INITIALIZING, Reason.INITIALIZING
        return State.DEGRADED, Reason.NO_PRIMARY
    if sight.has_full_volume(primary):
        return State.DEGRADED, Reason.DISK_FULL
    if step.doing is not None or any(node.is_behind for node in seen.nodes):
        return State.RECONCILING, Reason.IN_OPERATION
    if any(map(sight.has_full_volume, seen.nodes)):
        return State.DEGRADED, Reason.DISK_FULL
    if replicas_missing(seen):
        return State.DEGRADED, Reason.REPLICAS_MISSING
    return State.READY, Reason.ALL_NODES_HEALTHY


def replicas_missing(seen: SeenInstance) -> list[str]:
    """Wanted, and not there or not in sync."""
    wanted = {f"{seen.name}-{index}" for index in range(seen.wish.replicas)} - {seen.record.primary}
    well = {node.name for node in seen.nodes if not sight.is_away(node, seen.record.primary)}
    return sorted(wanted - well)


def _cut_off(seen: SeenInstance) -> list[str]:
    """A replica that begins to copy again and again, because the primary ends its connection each time."""
    primary, missing = seen.node(seen.record.primary), replicas_missing(seen)
    if not missing or primary is None or primary.server is None or not primary.server.has_cut_off:
        return []
    return [
        f"{primary.name} has cut off replicas that fell behind: if {', '.join(missing)} never gets in sync, raise "
        "client-output-buffer-limit (replica) and repl-backlog-size in spec.config"
    ]


def _conditions(seen: SeenInstance, state: State, reason: Reason, said: str) -> tuple[Condition, ...]:
    paused = Reason.PAUSED if seen.wish.is_paused else Reason.NOT_PAUSED
    missing = replicas_missing(seen)
    follow = Reason.REPLICAS_MISSING if missing else Reason.ALL_REPLICAS_FOLLOW
    which = f"{follow.sentence}: {', '.join(missing)}" if missing else follow.sentence
    is_progressing = state in (State.INITIALIZING, State.RECONCILING)
    return (
        Condition(ConditionType.READY, state == State.READY, reason, said),
        Condition(ConditionType.PROGRESSING, is_progressing, reason, said),
        Condition(ConditionType.DEGRADED, state in (State.DEGRADED, State.FAILED), reason, said),
        Condition(ConditionType.REPLICATED, not missing, follow, which),
        Condition(ConditionType.PAUSED, seen.wish.is_paused, paused, paused.sentence),
    )


def _role(node: SeenNode) -> Literal["primary", "replica", "unknown"]:
    server = node.server
    if server is None or not server.answers:
        return "unknown"
    return "primary" if server.is_primary else "replica" if server.is_replica else "unknown"

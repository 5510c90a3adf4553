"""What people read about a cluster: how it is, what is being done, and what is held back and why."""

from __future__ import annotations

from dataclasses import dataclass

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.decide.actions import Doing
from valkey_operator.decide.cluster_actions import ClusterStep
from valkey_operator.decide.conditions import Condition
from valkey_operator.decide.reporting import LONGEST, NextReport, is_ready, message, next_steps, troubles
from valkey_operator.model.cluster import SLOTS, as_text
from valkey_operator.model.sharded import SeenSharded


@dataclass(frozen=True)
class ShardReport:
    index: int
    primary: str
    replicas: tuple[str, ...]
    slots: str
    ready: bool
    # Replicas that are not in sync.
    behind: tuple[str, ...] = ()
    used_bytes: int = 0
    max_bytes: int = 0
    # The primary's, as it says itself.
    epoch: int = 0


@dataclass(frozen=True)
class ClusterReport:
    """The status, but for times."""

    state: State
    reason: Reason
    message: str
    conditions: tuple[Condition, ...]
    operation: Doing | None
    next: tuple[NextReport, ...]
    shards: tuple[ShardReport, ...]
    slots_assigned: int
    total_replicas: int
    ready_replicas: int
    # Shards that need no longer what a person has allowed for them: that is good for one time.
    used_takeovers: frozenset[int] = frozenset()
    used_data_losses: frozenset[int] = frozenset()


def report(seen: SeenSharded, step: ClusterStep) -> ClusterReport:
    shards = tuple(_shard(seen, shard) for shard in sorted({each.node.shard for each in seen.nodes}))
    owned = len(seen.cluster.served)
    state, reason = _state(seen, step, shards, owned)
    said = message(
        reason.sentence,
        *troubles((each.name, each.pod) for each in seen.nodes),
        *(each.sentence for each in step.waits),
        *(each.why for each in step.refusals),
    )
    return ClusterReport(
        state, reason, said, _conditions(seen, state, reason, said, shards, owned), step.doing,
        next_steps(step.actions, step.refusals),
        shards, owned, len(seen.nodes), sum(is_ready(each.pod) for each in seen.nodes), _used_takeovers(seen),
        seen.wish.allows_data_loss if owned == SLOTS and step.is_settled else frozenset(),
    )  # fmt: skip


def _used_takeovers(seen: SeenSharded) -> frozenset[int]:
    primaries = {shard: seen.primary_of(shard) for shard in seen.wish.allows_takeover}
    return frozenset(
        shard for shard, each in primaries.items() if each is not None and each.node.view is not None
    )


def _shard(seen: SeenSharded, shard: int) -> ShardReport:
    primary, nodes = seen.primary_of(shard), [each for each in seen.nodes if each.node.shard == shard]
    view = primary.node.view if primary is not None else None
    owned = view.own.slots if view is not None else frozenset()
    others = tuple(sorted(each.name for each in nodes if each is not primary))
    is_wanted = shard < seen.wish.shards
    well = [each for each in nodes if is_ready(each.pod) and (each is primary or each.node.is_in_sync)]
    is_whole = is_wanted and bool(owned) and len(well) == len(nodes) == seen.wish.replicas
    if primary is None:
        return ShardReport(shard, "", others, as_text(owned), is_whole, others)
    in_sync = {each.name for each in nodes if each.node.is_in_sync}
    behind = tuple(name for name in others if name not in in_sync)
    return ShardReport(
        shard, primary.name, others, as_text(owned), is_whole, behind, primary.used_bytes, primary.max_bytes,
        view.own.config_epoch if view is not None else 0,
    )  # fmt: skip


def _state(
    seen: SeenSharded, step: ClusterStep, shards: tuple[ShardReport, ...], owned: int
) -> tuple[State, Reason]:
    """In this order of weight: suspended, not whole, being changed, something missing, well."""
    if not seen.wish.replicas:
        is_over = not seen.nodes
        return (State.SUSPENDED, Reason.SUSPENDED) if is_over else (State.RECONCILING, Reason.SUSPENDING)
    state, reason = _health(seen, step, shards, owned)
    return (state, Reason.PAUSED) if seen.wish.is_paused else (state, reason)


def _health(
    seen: SeenSharded, step: ClusterStep, shards: tuple[ShardReport, ...], owned: int
) -> tuple[State, Reason]:
    if not seen.is_formed:
        return State.INITIALIZING, Reason.INITIALIZING
    primaries = [
        seen.primary_of(shard.index) for shard in shards if shard.slots or shard.index < seen.wish.shards
    ]
    if owned < SLOTS or any(each is None or each.node.view is None for each in primaries):
        return State.DEGRADED, Reason.SLOTS_WITHOUT_PRIMARY
    if any(each is not None and each.volume_is_full for each in primaries):
        return State.DEGRADED, Reason.DISK_FULL
    if step.doing is not None or any(each.is_behind for each in seen.nodes):
        return State.RECONCILING, Reason.IN_OPERATION
    if any(each.volume_is_full for each in seen.nodes):
        return State.DEGRADED, Reason.DISK_FULL
    if step.waits or not all(shard.ready for shard in shards) or len(shards) != seen.wish.shards:
        return State.DEGRADED, Reason.SHARDS_INCOMPLETE
    return State.READY, Reason.CLUSTER_HEALTHY


def _conditions(
    seen: SeenSharded, state: State, reason: Reason, said: str, shards: tuple[ShardReport, ...], owned: int
) -> tuple[Condition, ...]:
    paused = Reason.PAUSED if seen.wish.is_paused else Reason.NOT_PAUSED
    incomplete = [str(shard.index) for shard in shards if not shard.ready]
    follow = Reason.SHARDS_INCOMPLETE if incomplete else Reason.ALL_REPLICAS_FOLLOW
    which = f"{follow.sentence}: shard {', '.join(incomplete)}"[:LONGEST] if incomplete else follow.sentence
    covered = Reason.CLUSTER_HEALTHY if owned == SLOTS else Reason.SLOTS_WITHOUT_PRIMARY
    return (
        Condition(ConditionType.READY, state == State.READY, reason, said),
        Condition(ConditionType.PROGRESSING, state in (State.INITIALIZING, State.RECONCILING), reason, said),
        Condition(ConditionType.DEGRADED, state in (State.DEGRADED, State.FAILED), reason, said),
        Condition(
            ConditionType.SLOTS_COVERED, owned == SLOTS, covered, f"{owned} of {SLOTS} slots have an owner"
        ),
        Condition(ConditionType.REPLICATED, not incomplete, follow, which),
        Condition(ConditionType.PAUSED, seen.wish.is_paused, paused, paused.sentence),
    )

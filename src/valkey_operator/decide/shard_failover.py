"""Who takes over the slots of a primary that is to go, with every write."""

from __future__ import annotations

from valkey_operator.api.guards import Guard
from valkey_operator.decide.actions import Doing, Refusal, Wait
from valkey_operator.decide.cluster_actions import ClusterStep, FailOver
from valkey_operator.decide.sight import SMALL_LAG
from valkey_operator.model.sharded import SeenSharded, ShardNode

SWITCHOVER = "Switchover"
LEARNS = 0.1


def switch_over(seen: SeenSharded) -> ClusterStep:
    """A person has asked for it."""
    wished = seen.wish.switchover
    if wished is None:
        return ClusterStep()
    to = seen.of(wished)
    primary = seen.primary_of(to.node.shard) if to is not None else None
    if to is None or primary is None:
        why = "there is no such node" if to is None else f"shard {to.node.shard} has no primary now"
        refused = Refusal(f"switchover to {wished}", Guard.A_REPLICA_TAKES_OVER, why, of_request=True)
        return ClusterStep(refusals=(refused,))
    return ClusterStep() if primary is to else hand_over(seen, primary, SWITCHOVER, to)


def hand_over(seen: SeenSharded, primary: ShardNode, reason: str, to: ShardNode | None = None) -> ClusterStep:
    """To the named replica, or to the best one that stays, with every write."""
    able = [each for each in _followers(seen, primary) if _is_caught_up(each, primary)]
    stay = [each for each in able if each.node.index < seen.wish.replicas] or able
    best = max(stay, key=lambda each: (each.offset, -each.node.index), default=None) if to is None else to
    wish = f"{reason.lower()} of shard {primary.node.shard}"
    if best is None or best not in able:
        why = f"no replica of {primary.name} is in sync" if best is None else f"{best.name} is not in sync"
        guard = Guard.REPLICA_IS_CAUGHT_UP_BEFORE_SWITCHOVER
        refused = Refusal(wish, guard, why, of_request=reason == SWITCHOVER)
        return ClusterStep(waits=(Wait(why),), refusals=(refused,))
    if is_behind(seen, best):
        return ClusterStep(waits=(Wait(f"{best.name} has yet to learn of the last election", LEARNS),))
    action = FailOver(best.name, primary.node.shard, primary.name, primary.node.id, reason, planned=True)
    return ClusterStep(((action,),), doing=Doing(reason, f"{best.name} takes over from {primary.name}"))


def is_behind(seen: SeenSharded, each: ShardNode) -> bool:
    """It would ask for an epoch in which the others have voted, get no votes, and hold up the writes for 5 s."""
    newest = max((view.current_epoch for _, view in seen.cluster.answered), default=0)
    return each.node.view is None or each.node.view.current_epoch < newest


def _followers(seen: SeenSharded, primary: ShardNode) -> list[ShardNode]:
    return [
        each
        for each in seen.in_shard(primary.node.shard)
        if each is not primary
        and each.node.view is not None
        and each.node.view.own.primary_id == primary.node.id
        and not (each.pod is not None and each.pod.is_being_deleted)
    ]


def _is_caught_up(each: ShardNode, primary: ShardNode) -> bool:
    return each.node.is_in_sync and primary.offset - each.offset <= SMALL_LAG

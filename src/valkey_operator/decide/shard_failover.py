"""Who takes over the slots of a primary that is dead, or that is to go."""

from __future__ import annotations

from math import ceil

from valkey_operator.decide.actions import Doing, Refusal, Wait
from valkey_operator.decide.cluster_actions import ClusterStep, FailOver
from valkey_operator.model.sharded import SeenSharded, ShardNode

# A primary whose disk is complete comes back by itself, and loses nothing: so long it is waited for.
COMES_BACK = 10.0
# A link that was down for longer before the death has not brought the last writes.
LINK = 2.0
SMALL_LAG = 4 * 1024 * 1024
FAILOVER, SWITCHOVER = "Failover", "Switchover"


def plan(seen: SeenSharded) -> ClusterStep:
    """With proof of death the best replica is asked at once, whatever the node timeout is; the others vote."""
    found = ClusterStep()
    for shard in seen.cluster.shards:
        primary = seen.primary_of(shard)
        if primary is not None and primary.is_dead:
            found += _replace(seen, primary)
    return found


def _replace(seen: SeenSharded, dead: ShardNode) -> ClusterStep:
    is_leaving = dead.pod is not None and dead.pod.is_being_deleted
    if dead.disk.is_complete and not is_leaving and dead.dead_for < COMES_BACK:
        why = f"{dead.name} has all its data on disk and is about to start again"
        return ClusterStep(waits=(Wait(why, 1.0),))
    able = [each for each in _followers(seen, dead) if each.unlinked_for <= dead.dead_for + LINK]
    best = max(able, key=lambda each: (each.offset, -each.node.index), default=None)
    if best is None:
        return _nobody(seen, dead)
    action = FailOver(
        best.name, dead.node.shard, dead.name, dead.node.id, "ServerDied", planned=False,
        lost_seconds=ceil(dead.dead_for + LINK),
    )  # fmt: skip
    return ClusterStep(
        ((action,),),
        (Wait("the others vote", 0.5),),
        doing=Doing(FAILOVER, f"{best.name} takes over from {dead.name}"),
    )


def _nobody(seen: SeenSharded, dead: ShardNode) -> ClusterStep:
    """Then its own volume is all there is, or a replica that has not answered yet."""
    silent = sorted(each.name for each in seen.in_shard(dead.node.shard) if not each.is_heard)
    if silent:
        return ClusterStep(waits=(Wait(f"{', '.join(silent)} of shard {dead.node.shard} does not answer"),))
    return ClusterStep(
        waits=(Wait(f"the server of {dead.name} is about to start, with what is on its volume"),)
    )


def switch_over(seen: SeenSharded) -> ClusterStep:
    """A person has asked for it."""
    wished = seen.wish.switchover
    if wished is None:
        return ClusterStep()
    to = seen.of(wished)
    primary = seen.primary_of(to.node.shard) if to is not None else None
    if to is None or primary is None or primary is to:
        why = "there is no such node" if to is None else f"{wished} is the primary already"
        return ClusterStep(refusals=(Refusal(f"switchover to {wished}", "a_replica_takes_over", why),))
    return hand_over(seen, primary, SWITCHOVER, to)


def hand_over(seen: SeenSharded, primary: ShardNode, reason: str, to: ShardNode | None = None) -> ClusterStep:
    """To the named replica, or to the best one that stays, with every write."""
    able = [each for each in _followers(seen, primary) if _is_caught_up(each, primary)]
    stay = [each for each in able if each.node.index < seen.wish.replicas] or able
    best = max(stay, key=lambda each: (each.offset, -each.node.index), default=None) if to is None else to
    wish = f"{reason.lower()} of shard {primary.node.shard}"
    if best is None or best not in able:
        why = f"no replica of {primary.name} is in sync" if best is None else f"{best.name} is not in sync"
        refused = Refusal(wish, "replica_is_caught_up_before_switchover", why)
        return ClusterStep(waits=(Wait(why),), refusals=(refused,))
    action = FailOver(best.name, primary.node.shard, primary.name, primary.node.id, reason, planned=True)
    return ClusterStep(((action,),), doing=Doing(reason, f"{best.name} takes over from {primary.name}"))


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

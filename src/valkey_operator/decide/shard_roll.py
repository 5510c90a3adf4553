"""Restarts in a cluster: in each shard replicas first, each back in sync before the next; then a failover, then the old
primary. Several shards at once where that is allowed; no owner of slots is restarted while it has replicas, and never a
majority of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.api.guards import Guard
from valkey_operator.decide import shard_failover, sidecars
from valkey_operator.decide.actions import Doing, Refusal
from valkey_operator.decide.cluster_actions import ClusterAction, ClusterStep, ReplaceSidecar, RestartPod
from valkey_operator.decide.reporting import is_ready
from valkey_operator.model.sharded import SeenSharded, ShardNode

ROLLING = "RollingUpdate"


def plan(seen: SeenSharded) -> ClusterStep:
    """All nodes agree and are in sync, so as many shards as are allowed take their next step."""
    waiting = [each for each in seen.nodes if each.needs_restart and each.pod is not None]
    if not waiting:
        return _sidecars(seen)
    why = _why_not(seen)
    if why is not None:
        return ClusterStep(
            refusals=(why,), doing=_doing(seen, why.why) if seen.operation == ROLLING else None
        )
    shards = sorted({each.node.shard for each in waiting})[: max(1, seen.wish.max_parallel_shards)]
    found = ClusterStep()
    for shard in shards:
        found += _next(seen, [each for each in waiting if each.node.shard == shard])
    return ClusterStep(_staged(seen, found.actions), found.waits, found.refusals, found.doing)


def _sidecars(seen: SeenSharded) -> ClusterStep:
    nodes = [
        sidecars.Candidate(
            each.name, each.pod, seen.primary_of(each.node.shard) is each,
            each.is_heard and each.pod is not None and each.pod.is_ready,
        )
        for each in seen.nodes
    ]  # fmt: skip
    may_begin = seen.wish.window_is_open or seen.operation == sidecars.REPLACING
    found = sidecars.find(nodes, rolls=seen.wish.rolls, may_begin=may_begin)
    return ClusterStep(
        ((ReplaceSidecar(found.node),),) if found.node else (),
        refusals=(found.refusal,) if found.refusal is not None else (),
        doing=found.doing,
    )


def _staged(seen: SeenSharded, actions: Iterable[ClusterAction]) -> tuple[tuple[ClusterAction, ...], ...]:
    """Pods of different shards are restarted at once, but never a majority of primaries; of the failovers one, and the
    next when all know of it."""
    ordered = tuple(actions)
    restarts = [each for each in ordered if isinstance(each, RestartPod)]
    voters = {node.name for node, view in seen.cluster.answered if view.own.slots}
    # None is away yet: nothing is restarted before all pods are back.
    too_many = [each for each in restarts if each.name in voters][_minority(len(voters)) :]
    together = tuple(each for each in restarts if each not in too_many)
    failovers = tuple(each for each in ordered if not isinstance(each, RestartPod))[:1]
    return tuple(stage for stage in (together, failovers) if stage)


def _minority(voters: int) -> int:
    """How many may be away while the others can still vote; one in any case, or of two none could be restarted."""
    return max(1, (voters - 1) // 2)


def mend(seen: SeenSharded) -> ClusterStep:
    """A pod that does not come up is replaced at once when its template has changed: that may be what heals it."""
    failing = [each for each in seen.nodes if each.needs_restart and _is_failing(each)]
    if not failing or not seen.wish.rolls:
        return ClusterStep()
    first = min(failing, key=lambda each: each.name)
    return ClusterStep(
        ((RestartPod(first.name, first.needs_restart),),), doing=_doing(seen, f"{first.name} is replaced")
    )


def _why_not(seen: SeenSharded) -> Refusal | None:
    if not seen.wish.rolls:
        return Refusal(
            "restart pods",
            Guard.UPDATES_ARE_LEFT_TO_PEOPLE,
            "update.strategy is OnDelete: delete pods yourself",
        )
    if not seen.wish.window_is_open and seen.operation != ROLLING:
        return Refusal("restart pods", Guard.A_ROLL_BEGINS_IN_ITS_WINDOW, "update.window is closed now")
    # One that is told to end stays ready for a moment: the next one would be chosen as if it were there.
    away = sorted(each.name for each in seen.nodes if not is_ready(each.pod))
    if away:
        faults = [each.pod.fault for each in seen.nodes if each.pod is not None and each.pod.fault]
        why = f"{', '.join(away)} must be back first" + (f": {faults[0]}" if faults else "")
        return Refusal("restart pods", Guard.ONLY_PODS_THAT_ARE_BACK_ARE_FOLLOWED_BY_OTHERS, why)
    return None


def _next(seen: SeenSharded, waiting: list[ShardNode]) -> ClusterStep:
    primary = seen.primary_of(waiting[0].node.shard)
    replicas = [each for each in waiting if each is not primary]
    if replicas:
        return _restart(seen, max(replicas, key=lambda each: each.node.index))
    assert primary is not None
    if seen.wish.is_supervised:
        why = "update.supervised is set: switch over when it suits you"
        return ClusterStep(
            refusals=(Refusal(f"restart {primary.name}", Guard.SUPERVISED_WAITS_FOR_A_PERSON, why),)
        )
    if len(seen.in_shard(primary.node.shard)) > 1:
        return _rolling(seen, shard_failover.hand_over(seen, primary, ROLLING))
    if not seen.wish.keeps_data:
        why = f"all data of the shard would be lost: delete the pod of {primary.name} if that is all right"
        return ClusterStep(
            refusals=(Refusal(f"restart {primary.name}", Guard.DATA_IS_KEPT_WHEN_A_LONE_POD_GOES, why),)
        )
    return _restart(seen, primary)


def _restart(seen: SeenSharded, each: ShardNode) -> ClusterStep:
    action = RestartPod(each.name, each.needs_restart)
    return ClusterStep(((action,),), doing=_doing(seen, f"{each.name} is restarted"))


def _rolling(seen: SeenSharded, step: ClusterStep) -> ClusterStep:
    words = step.doing.step if step.doing is not None else "waits for a replica in sync"
    return ClusterStep(step.stages, step.waits, step.refusals, _doing(seen, words))


def _doing(seen: SeenSharded, step: str) -> Doing:
    done = sum(not each.needs_restart for each in seen.nodes)
    return Doing(ROLLING, step, done, len(seen.nodes))


def _is_failing(each: ShardNode) -> bool:
    return each.pod is not None and not each.pod.is_ready and bool(each.pod.fault)

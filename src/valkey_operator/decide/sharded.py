"""A cluster: what to do now, in this order. Pure; the next look goes on from what it sees.

Nodes are made all at once. A dead primary is replaced first, and what is not wanted any more and never began is taken
back. Then the nodes are made one cluster, or brought back into it; only when they agree is anything else done: nodes
removed, slots moved, pods restarted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from valkey_operator.api.guards import Guard
from valkey_operator.decide import (
    formation,
    requests,
    shard_failover,
    shard_moves,
    shard_roll,
    shard_succession,
)
from valkey_operator.decide.actions import Doing, Refusal, Wait
from valkey_operator.decide.cluster_actions import ClusterAction, ClusterStep, MakeNode, RemoveNode
from valkey_operator.decide.cluster_report import ClusterReport, report
from valkey_operator.decide.shard_succession import machines_of
from valkey_operator.model.cluster import ClusterView, MigrationState, as_text
from valkey_operator.model.sharded import SeenSharded, ShardNode

# Heartbeats come every ten seconds: what was said within one of them is enough to do nothing.
RECENT = 12.0
# What only a person can end, may end without any event.
LOOK_SELDOM = 10.0
SCALING, SUSPENDING = "Scaling", "Suspending"


@dataclass(frozen=True)
class Plan:
    """What to do now; what is waited for; what is refused; whom to ask before anything can be decided."""

    stages: tuple[tuple[ClusterAction, ...], ...]
    waits: tuple[Wait, ...]
    refusals: tuple[Refusal, ...]
    ask: tuple[str, ...]
    report: ClusterReport
    # To a person who has asked for another primary; and in how many seconds one is due.
    answer: requests.Answer | None = None
    answer_due: float | None = None
    # What is to be done was done before, and nothing came of it.
    is_in_vain: bool = False

    @property
    def again(self) -> float | None:
        due = () if self.answer_due is None else (self.answer_due,)
        return min((*(each.again for each in self.waits), *due), default=None)


def plan(seen: SeenSharded) -> Plan:
    """With `ask`, ask those sidecars and plan again: each is then marked with whether it has `answered`."""
    remembered = seen.remembered(RECENT)
    draft = _step(remembered)
    if seen.wish.is_paused:
        return _planned(remembered, replace(draft, stages=(), waits=(), doing=None))
    if not draft.actions and not draft.waits:
        return _planned(remembered, draft)
    is_awaited = not draft.actions and bool(formation.awaited(remembered.cluster))
    unasked = tuple(
        each.name
        for each in remembered.nodes
        if each.pod is not None
        and each.pod.is_placed
        and each.answered is None
        # Whoever is heard says by itself when its server has started.
        and not (is_awaited and each.is_heard)
    )
    if is_awaited and not unasked:
        return _planned(remembered, draft)
    if unasked:
        return _planned(remembered, replace(draft, stages=_made_unseen(draft)), unasked)
    fresh = seen.believed()
    return _planned(fresh, _step(fresh))


def _made_unseen(draft: ClusterStep) -> tuple[tuple[ClusterAction, ...], ...]:
    """What needs nobody's word: a new node."""
    made = tuple(action for action in draft.actions if isinstance(action, MakeNode))
    return (made,) if made else ()


def _planned(seen: SeenSharded, step: ClusterStep, ask: tuple[str, ...] = ()) -> Plan:
    told = report(seen, step)
    in_office = {shard.primary for shard in told.shards if shard.primary}
    answer = requests.answer(seen.wish, in_office, step.refusals, told.message)
    return Plan(
        step.stages, step.waits, step.refusals, ask, told, answer, requests.due(seen.wish), step.is_in_vain
    )


def _step(seen: SeenSharded) -> ClusterStep:
    if not seen.wish.replicas:
        stopped = _suspend(seen)
        return stopped + _kept_together(seen) if stopped.refusals else stopped
    made, unmade = _make(seen), _take_back(seen)
    if not seen.is_formed and (made.actions or made.waits):
        return made + unmade  # slots are shared out among all shards, or not at all
    urgent = shard_succession.plan(seen)
    if urgent.actions:
        return made + urgent
    made += unmade
    if unmade.actions:
        return made + urgent
    if awaited := formation.awaited(seen.cluster):
        return made + urgent + ClusterStep(waits=(Wait(f"{', '.join(awaited)}: no answer", 1.0),))
    formed = formation.plan(seen.cluster, seen.wish.allows_data_loss)
    if urgent.waits or formed.actions or formed.waits:
        return _still(seen, made + urgent + formed + shard_roll.mend(seen))
    if made.actions or made.waits or formed.refusals:
        return made + formed
    return _in_good_order(seen)


def _kept_together(seen: SeenSharded) -> ClusterStep:
    """Who was served before a wish that is refused: a dead primary is replaced, and whoever came back let in."""
    urgent = shard_succession.plan(seen)
    return urgent if urgent.actions else urgent + formation.plan(seen.cluster, seen.wish.allows_data_loss)


def _still(seen: SeenSharded, step: ClusterStep) -> ClusterStep:
    """What was begun goes on while its nodes come back or get to know each other."""
    if step.doing is not None or seen.operation not in (SCALING, shard_roll.ROLLING):
        return step
    is_half_rolled = seen.operation == shard_roll.ROLLING and any(each.needs_restart for each in seen.nodes)
    if not step.waits and not is_half_rolled:
        return step
    said = step.waits[0].sentence if step.waits else "the nodes get to know each other"
    return replace(step, doing=Doing(seen.operation, said))


def _in_good_order(seen: SeenSharded) -> ClusterStep:
    """One operation at a time, in this order of weight. Moves that are held back may wait for the very restarts; so may
    open slots, whose marks and keys outlast them."""
    for operation in (shard_failover.switch_over, _remove):
        found = operation(seen)
        if found.actions or found.waits or found.refusals:
            return _still(seen, found)
    found_moves = shard_moves.find(seen)
    moves = shard_moves.step(seen, found_moves)
    if moves.doing is not None:
        return _still(seen, shard_roll.plan(seen) + moves if found_moves.is_held else moves)
    held = ClusterStep() if moves.waits or moves.refusals else _held(seen)
    return moves + held + shard_roll.plan(seen)


def wanted_names(seen: SeenSharded) -> list[str]:
    """What is asked for, and who is away and owns slots, until these are another's: it has the data. So is one that was
    suspended with more replicas, or with more shards."""
    wish = seen.wish
    asked = [f"{seen.name}-{shard}-{index}" for shard in range(wish.shards) for index in range(wish.replicas)]
    is_ours = re.compile(rf"{re.escape(seen.name)}-\d+-\d+").fullmatch
    return asked + sorted(each for each in seen.cluster.absent.difference(asked) if is_ours(each))


def _make(seen: SeenSharded) -> ClusterStep:
    there = {each.name: each for each in seen.nodes}
    missing = [name for name in wanted_names(seen) if name not in there]
    leaving = sorted(name for name in wanted_names(seen) if name in there and there[name].is_being_deleted)
    waits = (Wait(f"{', '.join(leaving)} must be gone before it is made anew"),) if leaving else ()
    doing = Doing(SCALING, f"{', '.join(missing)} is made") if missing and seen.is_formed else None
    return ClusterStep((tuple(map(MakeNode, missing)),) if missing else (), waits, doing=doing)


def _take_back(seen: SeenSharded) -> ClusterStep:
    """What is not wanted any more and has never begun, or was replaced and cannot run any more, may never answer, and
    nothing else would be done before it does."""
    silent = [each for each in _surplus(seen) if each.node.view is None]
    rest = replace(seen, nodes=tuple(each for each in seen.nodes if each not in silent))
    needed = wanted_names(rest)  # whoever has the only data of its slots would be made again
    unneeded = [each for each in silent if each.name not in needed]
    all_others_answer = len(rest.cluster.answered) == len(rest.cluster.nodes) > 0
    removed = [
        each for each in unneeded if _never_began(each) and (all_others_answer or not each.node.may_hold_data)
    ]
    if all_others_answer:
        replaced = [each for each in unneeded if _is_replaced(seen, each)]
        removed += [each for each in replaced if each.node.id in seen.gone and not each.may_run_elsewhere]
    else:
        replaced = []
    lost = [each for each in replaced if each not in removed]
    names = ", ".join(each.name for each in removed)
    doing = Doing(SCALING, f"{names} is removed") if removed and seen.is_formed else None
    stages = (tuple(RemoveNode(each.name) for each in removed),) if removed else ()
    return ClusterStep(stages, (Wait(_way_out(lost), 1.0),) if lost else (), doing=doing)


def _never_began(each: ShardNode) -> bool:
    """No server of this node has ever said who it is, and none runs; its volume stays, with what it may have."""
    runs_none = each.pod is None or not each.pod.has_run or each.is_dead
    return runs_none and not each.node.id and not each.may_run_elsewhere


def _is_replaced(seen: SeenSharded, each: ShardNode) -> bool:
    """One that ran: another of its shard is in office."""
    primary = seen.primary_of(each.node.shard)
    return (
        bool(each.node.id) and primary is not None and primary is not each and primary.node.view is not None
    )


def _way_out(lost: list[ShardNode]) -> str:
    return (
        f"{', '.join(each.name for each in lost)} is to be removed, and does not answer: it is waited for; if it is "
        f"lost for good, its machine{machines_of(lost)} must be deleted or tainted node.kubernetes.io/out-of-service"
    )


def _surplus(seen: SeenSharded) -> list[ShardNode]:
    wanted = wanted_names(seen)
    return [each for each in seen.nodes if each.name not in wanted and not each.is_being_deleted]


def _remove(seen: SeenSharded) -> ClusterStep:
    """What is too many: an owner of slots hands over first; a shard goes when it owns nothing."""
    surplus = _surplus(seen)
    going = [each for each in seen.nodes if each.is_being_deleted]
    if going:
        names = ", ".join(sorted(each.name for each in going))
        return ClusterStep(
            waits=(Wait(f"{names} is on its way out"),), doing=Doing(SCALING, f"{names} is removed")
        )
    for each in surplus:
        owner = seen.primary_of(each.node.shard)
        if each.node.shard < seen.wish.shards and owner is each:
            return shard_failover.hand_over(seen, each, "Scaling")
    ready = [each for each in surplus if not _may_hold_slots(seen, each)]
    removed = _removable(seen, ready)
    if not removed:
        return ClusterStep()
    names = ", ".join(each.name for each in removed)
    stage: tuple[ClusterAction, ...] = tuple(RemoveNode(each.name) for each in removed)
    return ClusterStep((stage,), doing=Doing(SCALING, f"{names} is removed"))


def _removable(seen: SeenSharded, ready: Iterable[ShardNode]) -> list[ShardNode]:
    """Replicas that are too many; and whole shards, all at once, when none of them owns anything: nothing moves while
    nodes go."""
    leaving = [each for each in seen.nodes if each.node.shard >= seen.wish.shards]
    are_empty = not any(_may_hold_slots(seen, each) for each in leaving)
    return [each for each in ready if each.node.shard < seen.wish.shards or are_empty]


def _may_hold_slots(seen: SeenSharded, each: ShardNode) -> bool:
    """It owns some, or does not answer; or they are on their way to it, and some of their keys with it alone by now."""
    view = each.node.view
    if view is None or view.own.slots:
        return True
    if not view.own.is_primary:
        return False
    is_given = any(_gives_to(other, each.node.id) for _, other in seen.cluster.answered)
    return is_given or _takes(view) or bool(view.importing)


def _takes(view: ClusterView) -> bool:
    """Slots as a whole."""
    return any(not part.is_export and part.state == MigrationState.UNDER_WAY for part in view.migrations)


def _held(seen: SeenSharded) -> ClusterStep:
    """Shards that are not removed though nothing moves: only a person knows whether their keys are needed."""
    leaving = [(each.name, each.node.view) for each in seen.nodes if each.node.shard >= seen.wish.shards]
    waits = (
        Wait(
            f"{name} is not removed, for it was to get slots {slots} from a server that does not own them now, and may "
            "have keys of them that nobody else has: `CLUSTER SETSLOT <slot> STABLE` there gives these up",
            LOOK_SELDOM,
        )
        for name, view in leaving
        if view is not None
        and view.own.is_primary
        and (slots := as_text({mark.slot for mark in view.importing}))
    )
    taking = sorted(
        name for name, view in leaving if view is not None and view.own.is_primary and _takes(view)
    )
    # Whose source has given up, which the target learns by itself, and tells nobody.
    ending = (Wait(f"what is on its way to {', '.join(taking)} ends", 1.0),) if taking else ()
    return ClusterStep(waits=(*waits, *ending))


def _gives_to(view: ClusterView, member_id: str) -> bool:
    begun = (MigrationState.UNDER_WAY, MigrationState.EMPTIED)
    moved = (part.target_id for part in view.migrations if part.is_export and part.state in begun)
    return member_id in (*moved, *(mark.other_id for mark in view.migrating))


def _suspend(seen: SeenSharded) -> ClusterStep:
    """Replicas first; owners of slots last, with all their data on their volumes."""
    if not seen.nodes:
        return ClusterStep()
    primaries = {each.name for shard in seen.cluster.shards if (each := seen.primary_of(shard)) is not None}
    staying = [each for each in seen.nodes if not each.is_being_deleted]
    replicas = [each.name for each in staying if each.name not in primaries]
    going = [each.name for each in seen.nodes if each.is_being_deleted]
    doing = Doing(SUSPENDING, f"{len(seen.nodes)} nodes are being stopped")
    if not seen.wish.keeps_data and (why := _would_be_lost(seen, staying)):
        return ClusterStep(refusals=(Refusal("suspend", Guard.DATA_IS_KEPT_WHEN_ALL_PODS_GO, why),))
    if replicas:
        return ClusterStep(
            (tuple(map(RemoveNode, replicas)),), (Wait("the replicas stop first"),), doing=doing
        )
    if going:
        return ClusterStep(waits=(Wait(f"{', '.join(sorted(going))} is being stopped"),), doing=doing)
    return ClusterStep((tuple(RemoveNode(each.name) for each in staying),), doing=doing)


def _would_be_lost(seen: SeenSharded, staying: Iterable[ShardNode]) -> str:
    """What is in memory only; of who is silent nobody knows."""
    silent = [each for each in staying if each.node.view is None and not each.is_dead]
    unknown = sorted(each.name for each in silent if each.node.may_hold_data)
    way_out = "nothing is kept on a volume: set replicas back, or delete the cluster"
    if any(each.node.keys for each in seen.nodes):
        return f"all data would be lost, for {way_out}"
    return f"{', '.join(unknown)} does not say whether there are keys, and {way_out}" if unknown else ""

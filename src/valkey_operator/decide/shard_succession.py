"""Who follows a primary that is dead, and by what right: a vote of the other primaries; or, where too few are left to
vote, proof that every one that is missing is dead. One that is only unseen may be in office, with others unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil, inf

from valkey_operator.api.guards import Guard
from valkey_operator.decide.actions import Doing, Refusal, Wait, Why
from valkey_operator.decide.cluster_actions import ClusterStep, FailOver, OpenGate
from valkey_operator.decide.shard_failover import LEARNS, is_behind
from valkey_operator.model.cluster import ClusterView, SeenMember
from valkey_operator.model.instance import SeenPod, TakenOver
from valkey_operator.model.sharded import POD_ENDED, Change, SeenSharded, ShardNode

# A primary whose disk is complete comes back by itself, and loses nothing: so long it is waited for.
COMES_BACK = 10.0
# A link that was down for longer before the death has not brought the last writes.
LINK = 2.0
# A pod for which no machine was found for so long is not waited for.
UNPLACED = 20.0
FAILOVER = "Failover"
ALLOWED = "a person has allowed it by valkey.io/allow-takeover"
GUARD = Guard.A_PRIMARY_IS_REPLACED_WITHOUT_A_VOTE_ONLY_WHEN_IT_IS_PROVEN_DEAD


@dataclass(frozen=True)
class Owner:
    """Of a shard's slots; without a node it is the server of a volume that is gone."""

    shard: int
    id: str
    name: str
    node: ShardNode | None = None


@dataclass(frozen=True)
class Heir:
    node: ShardNode
    reason: Why
    # In seconds of writes; None is not known.
    lost: int | None


def plan(seen: SeenSharded) -> ClusterStep:
    """With proof of death the best replica is asked at once, whatever the node timeout is."""
    voters, missing = _voters(seen)
    can_vote = 2 * len(missing) < len(voters)
    found, heirs = ClusterStep(), []
    for owner in _owners(seen):
        if not _is_to_be_replaced(seen, owner):
            continue
        chosen = _choose(seen, owner)
        if isinstance(chosen, ClusterStep):
            found += chosen
        elif can_vote:
            found += ClusterStep() if found.actions else _by_vote(seen, owner, chosen)
        else:
            heirs.append((owner, chosen))
    return found if can_vote else found + _without_a_vote(seen, missing, heirs)


@dataclass(frozen=True)
class Election:
    """Another primary than was known, and not by the doing of this operator."""

    shard: int
    former: str
    to: str
    # The new one's sidecar knows that it has every write of the former one.
    was_handed_over: bool
    # It is the change that an operator recorded before it was gone: what that one said of it stays.
    is_recorded: bool = False


def elections(seen: SeenSharded) -> tuple[Election, ...]:
    found = []
    for shard, primary in in_office(seen).items():
        former, view = seen.primaries.get(shard, primary.name), primary.node.view
        if primary.name == former or view is None:
            continue
        was_handed_over = primary.taken_over == TakenOver(former, view.own.config_epoch)
        is_recorded = _is_recorded(seen.recorded, Change(shard, former, primary.name, was_handed_over))
        found.append(Election(shard, former, primary.name, was_handed_over, is_recorded))
    return tuple(found)


def _is_recorded(recorded: Change | None, seen: Change) -> bool:
    """One that was planned, and came about in another way, may have lost more than was said of it."""
    if recorded is None or (recorded.is_planned and not seen.is_planned):
        return False
    return replace(recorded, is_planned=seen.is_planned) == seen


def in_office(seen: SeenSharded) -> dict[int, ShardNode]:
    """By shard: primaries that have said so by themselves, and how they came to office."""
    primaries = {shard: seen.primary_of(shard) for shard in seen.cluster.shards}
    return {shard: each for shard, each in primaries.items() if each is not None and _says_so(each)}


def _says_so(each: ShardNode) -> bool:
    is_taking_over = each.taken_over is not None and each.taken_over.is_under_way
    return each.node.view is not None and each.node.view.own.is_primary and not is_taking_over


def proof_of_death(seen: SeenSharded, member: SeenMember) -> str:
    """How it is known that this server does not run, or that it does not matter; empty when it is not."""
    node = _node_of(seen, member.id)
    if node is not None and node.is_dead and node.is_alone:
        return f"the sidecar of {node.name} says that no server runs there"
    if member.id in seen.gone:
        return seen.gone[member.id]
    return ALLOWED if _shard_of(seen, member) in seen.wish.allows_takeover else ""


def _voters(seen: SeenSharded) -> tuple[list[SeenMember], list[SeenMember]]:
    """Owners of slots in the newest view that was heard; and those of them that did not answer."""
    views = [view for _, view in seen.cluster.answered]
    if not views:
        return [], []
    newest = max(views, key=lambda view: view.current_epoch)
    voters = [each for each in newest.by_id.values() if each.is_primary and each.ranges]
    answered = {view.own_id for view in views}
    return voters, [each for each in voters if each.id not in answered]


def _owners(seen: SeenSharded) -> list[Owner]:
    found = []
    for shard in seen.cluster.shards:
        primary, orphaned = seen.primary_of(shard), seen.cluster.orphaned(shard)
        if primary is not None:
            found.append(Owner(shard, primary.node.id, primary.name, primary))
        elif orphaned is not None:
            found.append(Owner(shard, orphaned.id, orphaned.node or orphaned.id))
    return found


def _is_to_be_replaced(seen: SeenSharded, owner: Owner) -> bool:
    if owner.node is not None and owner.node.node.view is not None:
        return False
    if owner.node is not None and owner.node.is_dead:
        return True
    # Whoever was let in by that very word, and loads, has what nobody else has.
    is_loading = owner.node is not None and owner.node.is_loading
    return owner.id in seen.gone or (owner.shard in seen.wish.allows_takeover and not is_loading)


def _choose(seen: SeenSharded, owner: Owner) -> Heir | ClusterStep:
    dead = owner.node
    if dead is not None and dead.is_dead and _comes_back(dead):
        why = f"{dead.name} has all its data on disk and is about to start again"
        return ClusterStep(waits=(Wait(why, 1.0),))
    followers = _followers(seen, owner.id, owner.shard)
    in_sync = [each for each in followers if each.was_linked and each.unlinked_for <= _silence(dead) + LINK]
    best = max(in_sync, key=_rank, default=None)
    if best is not None:
        return Heir(best, Why.SERVER_DIED, _loss(seen, owner, best))
    return _by_what_is_left(seen, owner, max(followers, key=_rank, default=None))


def _comes_back(dead: ShardNode) -> bool:
    is_leaving = dead.pod is not None and dead.pod.is_being_deleted
    return dead.disk.is_complete and not is_leaving and dead.dead_for < COMES_BACK


def _silence(dead: ShardNode | None) -> float:
    """For how long its server has said nothing."""
    if dead is None or (dead.last_up is None and not dead.is_dead):
        return inf
    return max(dead.dead_for, dead.last_up.age if dead.last_up is not None else 0.0)


def _loss(seen: SeenSharded, owner: Owner, heir: ShardNode) -> int | None:
    """Never below what was lost: an heir that has all of the dead one's last word lacks only what came after it."""
    word = owner.node.last_up if owner.node is not None else None
    is_proven = owner.id in seen.gone or (owner.node is not None and owner.node.is_dead)
    if word is None or not is_proven or heir.offset < word.offset:
        return None
    return ceil(word.age)


def _by_what_is_left(seen: SeenSharded, owner: Owner, fullest: ShardNode | None) -> Heir | ClusterStep:
    """No replica is known to have been in sync: what lies on the disk and in the servers decides, when all is known."""
    dead = owner.node
    # Who is on its way out may be in office, too.
    shard = (each for each in seen.nodes if each.node.shard == owner.shard)
    others = [each for each in shard if each is not dead and each.node.id != owner.id]
    unheard = [each for each in others if _is_unheard(each)]
    silent = [each for each in unheard if not (_never_ran(seen, each) or _is_given_up(seen, owner, each))]
    if silent:
        return ClusterStep(waits=(Wait(_who_is_silent(seen, owner.shard, silent)),))
    if dead is not None and not dead.is_dead and _brings_its_volume(seen, dead):
        # It may have taken writes after all its replicas were gone.
        return ClusterStep(waits=(Wait(f"{dead.name} is about to return with its volume", 1.0),))
    if fullest is not None and (dead is None or not dead.is_dead or _has_more(fullest, dead)):
        return Heir(fullest, Why.FULLEST_DATA, None)
    if dead is None:
        return ClusterStep()
    # The gate asks them, too, and would wait for them for ever.
    in_the_way = [
        each
        for each in others
        if not (each in unheard or _has_no_part(each) or _adds_nothing(seen, each, dead))
    ]
    is_asked_in_vain = bool(unheard) or owner.shard in seen.wish.allows_takeover
    is_all_there_is = is_asked_in_vain and not in_the_way
    may_have_a_twin = dead.may_run_elsewhere and owner.shard not in seen.wish.allows_takeover
    if dead.is_at_the_gate and is_all_there_is and may_have_a_twin:
        return ClusterStep(waits=(Wait(_twin(dead)),))
    if dead.is_at_the_gate and (fullest is not None or is_all_there_is):
        opened = OpenGate(dead.name)
        doing = Doing(FAILOVER, f"{dead.name} starts, with what is on its volume")
        return ClusterStep(((opened,),), (Wait(f"{dead.name} starts", 0.5),), doing=doing)
    return ClusterStep(waits=(Wait(_why_not_yet(seen, dead, in_the_way)),))


def _why_not_yet(seen: SeenSharded, dead: ShardNode, in_the_way: list[ShardNode]) -> str:
    down = sorted(each.name for each in in_the_way if each.is_dead)
    if dead.is_at_the_gate and down:
        return (
            f"{dead.name} waits at its gate, for the disk of {', '.join(down)} of shard {dead.node.shard} may hold "
            "newer data, and no server runs there: it is waited for; if that data is not wanted, the annotation "
            f"valkey.io/allow-takeover: {dead.node.shard} must be set"
        )
    if dead.is_dead or dead.node.id in seen.gone:
        return f"the server of {dead.name} is about to start, with what is on its volume"
    return f"{dead.name} does not answer, and nobody who does has the data of shard {dead.node.shard}"


def _who_is_silent(seen: SeenSharded, shard: int, silent: list[ShardNode]) -> str:
    """And what a person can do where nothing else will end it."""
    loading = sorted(each.name for each in silent if _is_loading(each))
    if loading:
        return f"the server of {', '.join(loading)} of shard {shard} runs, and has not answered yet"
    names = ", ".join(sorted(each.name for each in silent))
    may_run = [each for each in silent if each.node.id not in seen.gone]
    annotation = f"the annotation valkey.io/allow-takeover: {shard}"
    if not may_run:
        return (
            f"{names} of shard {shard} does not answer, and may bring newer data with its volume: it is waited for; if "
            f"the volume is lost for good, {annotation} must be set"
        )
    return (
        f"{names} of shard {shard} does not answer, and may be in office or have newer data: it is waited for; if it "
        f"is lost for good, its machine{machines_of(may_run)} must be deleted or tainted "
        f"node.kubernetes.io/out-of-service, or {annotation} be set"
    )


def _twin(dead: ShardNode) -> str:
    """Nobody of its shard can say that it follows another one by now."""
    return (
        f"an earlier pod of {dead.name} was taken away by force and may be in office: its machine ({dead.machine}) "
        "must be deleted or tainted node.kubernetes.io/out-of-service, or the annotation valkey.io/allow-takeover: "
        f"{dead.node.shard} be set"
    )


def _is_unheard(each: ShardNode) -> bool:
    """Neither its server says anything, nor its sidecar for all of its pods that none runs."""
    return each.node.view is None and (not each.is_dead or each.may_run_elsewhere)


def _never_ran(seen: SeenSharded, each: ShardNode) -> bool:
    """As where no machine has room for it: it may never answer, and has nothing to say. One that has an id has run, in
    an earlier pod: that its next one has not says nothing where that one was taken away by force."""
    may_live = bool(each.node.id) and each.node.id not in seen.gone
    return not (each.node.may_hold_data or each.may_run_elsewhere or may_live)


def _is_given_up(seen: SeenSharded, owner: Owner, each: ShardNode) -> bool:
    """Nobody waits for what it may have: a person says so; or its server cannot run any more, and none is to run there
    again, and the former primary has its data."""
    if owner.shard in seen.wish.allows_takeover:
        return not _is_loading(each)
    if each.node.id not in seen.gone or each.may_run_elsewhere:
        return False
    is_surplus = each.node.index >= seen.wish.replicas or each.node.shard >= seen.wish.shards
    has_data = owner.node is not None and owner.node.disk.has_data
    return each.is_being_deleted or (is_surplus and has_data and not _may_start_again(each.pod))


def _is_loading(each: ShardNode) -> bool:
    """Or it hangs: its sidecar says that a server runs, which has not answered yet."""
    return each.is_heard and not each.is_dead and _is_unheard(each)


def _has_no_part(each: ShardNode) -> bool:
    """Of the shard's data: as one that came back empty. What keys it has nobody could read there, and they stay."""
    view = each.node.view
    if view is None or each.may_run_elsewhere:
        return False
    return view.own.is_primary and not view.own.slots and not view.importing


def _adds_nothing(seen: SeenSharded, each: ShardNode, dead: ShardNode) -> bool:
    """Of one whose server does not run either: its disk goes no further, or a person says that it is not waited for.
    One that has just ended may be about to start again, with what it has."""
    if not each.is_dead or not each.is_alone or each.may_run_elsewhere:
        return False
    if not each.disk.has_data or dead.disk.has_append_only_file:
        return True
    is_of_one_history = each.disk.history == dead.disk.history and not each.disk.has_append_only_file
    if dead.disk.has_data and is_of_one_history and each.disk.offset <= dead.disk.offset:
        return True
    return dead.node.shard in seen.wish.allows_takeover and each.dead_for >= COMES_BACK


def _brings_its_volume(seen: SeenSharded, dead: ShardNode) -> bool:
    """Its pod has ended, its machine lives; where the next pod finds no machine for long, it is not waited for."""
    is_allowed = dead.node.shard in seen.wish.allows_takeover
    if is_allowed or not dead.node.may_hold_data or seen.gone.get(dead.node.id) != POD_ENDED:
        return False
    return _may_start_again(dead.pod)


def _may_start_again(pod: SeenPod | None) -> bool:
    return pod is None or pod.is_being_deleted or pod.is_placed or pod.unplaced_for < UNPLACED


def _has_more(each: ShardNode, dead: ShardNode) -> bool:
    """Than the dead one's disk. A log has all but the last moment: only one that was in sync, which was chosen before,
    has more."""
    if not dead.disk.has_data:
        return each.node.keys > 0 or each.offset > 0
    if dead.disk.has_append_only_file:
        return False
    return each.offset > dead.disk.offset


def _by_vote(seen: SeenSharded, owner: Owner, heir: Heir) -> ClusterStep:
    """One at a time: two might ask for the same epoch."""
    view = heir.node.node.view
    if is_behind(seen, heir.node):
        return ClusterStep(waits=(Wait(f"{heir.node.name} has yet to learn of the last election", LEARNS),))
    if view is not None and not view.sees_a_majority:
        return ClusterStep(waits=(Wait(f"{heir.node.name} does not see the others, who are to vote", 0.5),))
    return _failover(owner, heir, "", "the others vote")


def _without_a_vote(
    seen: SeenSharded, missing: list[SeenMember], heirs: list[tuple[Owner, Heir]]
) -> ClusterStep:
    """One at a time, so that no two get the same epoch; as soon as there are enough, the rest is voted for."""
    unproven = [each for each in missing if not proof_of_death(seen, each)]
    if unproven:
        return _refuse(seen, unproven)
    for owner, heir in heirs:
        if is_behind(seen, heir.node):
            return ClusterStep(
                waits=(Wait(f"{heir.node.name} has yet to learn of the last takeover", LEARNS),)
            )
        proofs = "; ".join(f"{_name_of(seen, each)}: {proof_of_death(seen, each)}" for each in missing)
        return _failover(owner, heir, proofs, "the others learn of it")
    return ClusterStep()


def _failover(owner: Owner, heir: Heir, proof: str, wait: str) -> ClusterStep:
    node = heir.node
    action = FailOver(
        node.name, owner.shard, owner.name, owner.id, str(heir.reason), planned=False, lost_seconds=heir.lost,
        proof=proof,
    )  # fmt: skip
    doing = Doing(FAILOVER, f"{node.name} takes over from {owner.name}")
    return ClusterStep(((action,),), (Wait(wait, 0.5),), doing=doing)


def _refuse(seen: SeenSharded, unproven: list[SeenMember]) -> ClusterStep:
    """Nothing to refuse where nobody could take over; and who is about to return is waited for first."""
    shards = {member.id: _shard_of(seen, member) for member in unproven}
    able = [each for each in unproven if _followers(seen, each.id, shards[each.id])]
    if not able:
        return ClusterStep()
    returning = sorted(_name_of(seen, each) for each in unproven if _may_return(_node_of(seen, each.id)))
    if returning:
        return ClusterStep(waits=(Wait(f"{', '.join(returning)} is about to return"),))
    names = ", ".join(sorted(_name_of(seen, each) for each in unproven))
    machines = machines_of(_node_of(seen, each.id) for each in unproven)
    numbers = ",".join(
        str(shard) for shard in sorted({shard for shard in shards.values() if shard is not None})
    )
    why = (
        f"too few primaries are left to vote, and {names} may be alive: each must answer, or its machine"
        f"{machines} be deleted or tainted node.kubernetes.io/out-of-service, or the annotation "
        f"valkey.io/allow-takeover: {numbers} be set"
    )
    return ClusterStep(waits=(Wait(why),), refusals=(Refusal(f"replace {names}", GUARD, why),))


def _may_return(node: ShardNode | None) -> bool:
    """Its pod is being made; one that has run and is silent may never answer again, and one at the gate waits, too."""
    if node is None or (node.is_at_the_gate and not node.is_alone):
        return False
    pod = node.pod
    if pod is None:
        return True
    return node.is_heard or (not pod.has_run and (pod.is_placed or pod.unplaced_for < UNPLACED))


def machines_of(nodes: Iterable[ShardNode | None]) -> str:
    names = sorted({node.machine for node in nodes if node is not None and node.machine})
    return f" ({', '.join(names)})" if names else ""


def _followers(seen: SeenSharded, primary_id: str, shard: int | None) -> list[ShardNode]:
    if shard is None:
        return []
    return [each for each in seen.in_shard(shard) if _follows(each.node.view, primary_id) and _stays(each)]


def _follows(view: ClusterView | None, primary_id: str) -> bool:
    return view is not None and view.own.primary_id == primary_id


def _stays(each: ShardNode) -> bool:
    return each.pod is None or not each.pod.is_being_deleted


def _rank(each: ShardNode) -> tuple[int, int]:
    return each.offset, -each.node.index


def _node_of(seen: SeenSharded, member_id: str) -> ShardNode | None:
    node = seen.cluster.by_id.get(member_id)
    return seen.of(node.name) if node is not None else None


def _name_of(seen: SeenSharded, member: SeenMember) -> str:
    node = _node_of(seen, member.id)
    return node.name if node is not None else member.node or member.id


def _shard_of(seen: SeenSharded, member: SeenMember) -> int | None:
    """Of one whose volume is gone: by the name that it had."""
    node = _node_of(seen, member.id) or seen.of(member.node)
    if node is not None:
        return node.node.shard
    orphaned = {shard: seen.cluster.orphaned(shard) for shard in seen.cluster.shards}
    return next((shard for shard, each in orphaned.items() if each and each.id == member.id), None)

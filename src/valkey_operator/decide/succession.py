"""Who follows a primary that is dead, or that nobody sees; and when the follower may take office.

With proof of death the best replica follows at once. Without it only one that the primary counts on, and not before
the primary has stopped writing for want of a lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from valkey_operator.api.guards import Guard, named
from valkey_operator.api.requests import ALLOW_DATA_LOSS
from valkey_operator.decide import sight
from valkey_operator.decide.actions import (
    Doing,
    Follow,
    MoveService,
    NotePrimary,
    OpenGate,
    Promote,
    RecordPrimary,
    Refusal,
    Step,
    Why,
    wait,
)
from valkey_operator.model.instance import NOTHING_LOST, Loss, SeenInstance, SeenNode

# A grant is six seconds of writing, the word of all replicas is four: each with room for a fence that is late.
FENCED_AFTER_GRANT = 9.0
FENCED_AFTER_NOTE = 6.0
# A primary whose disk is complete comes back by itself, and loses nothing: so long it is waited for.
COMES_BACK = 10.0
# A primary that was heard of within this time is not lost: it asks for its lease every two seconds.
UNHEARD = 3.5
# A replica hears of its primary every second.
SILENT_LINK = 2
LOOK_AGAIN = 0.5
# For an answer of a primary that has missed to ask for its lease; and of a node that was just asked in vain.
ASK_SILENT, ASK_AGAIN = 1.0, 0.5
FAILOVER = "Failover"


def record(
    seen: SeenInstance,
    to: SeenNode,
    reason: Why,
    former: str,
    *,
    planned: bool,
    counted_on: tuple[str, ...] | None = None,
    took_no_write: bool = False,
) -> Step:
    """A new epoch for `to`. Those the former primary counts on stay known until the new one is in office."""
    is_safe = planned or took_no_write
    lost = NOTHING_LOST if is_safe else loss(seen.node(former), to, writes_on=reason == Why.UNREACHABLE)
    lost = _with_what_was_lost_before(seen, to, lost)
    known = seen.promotable if counted_on is None else counted_on
    kept = known if to.name in known else ()
    action = RecordPrimary(seen.record.epoch + 1, to.name, reason, planned, former, kept, lost)
    kind = str(reason) if planned else FAILOVER
    return Step((action,), doing=Doing(kind, f"{to.name} is to be primary"), is_exclusive=True)


def _with_what_was_lost_before(seen: SeenInstance, to: SeenNode, lost: Loss) -> Loss:
    """By a change that did not come about. A server that died has come back with less than it had, or another one is
    recorded now: nobody knows how much. One that was only out of sight has lost no more than was feared."""
    before = seen.change()
    if before is None or before.loss == NOTHING_LOST:
        return lost
    keeps_the_office = lost == NOTHING_LOST and to.name == before.former
    was_only_unseen = keeps_the_office and before.reason == Why.UNREACHABLE
    return before.loss if was_only_unseen else Loss(is_unknown=True)


def loss(former: SeenNode | None, to: SeenNode, *, writes_on: bool) -> Loss:
    """Never below what was lost. A primary that wrote on after its last word leaves only the time known: that since
    then, and of one that is only unseen, until it is fenced for sure; if the next one has all that came before."""
    word = former.last_up if former is not None else None
    if word is None:
        return Loss(is_unknown=True)
    missing = max(0, word.offset - sight.offset(to))
    if word.is_final and not writes_on:  # one that is not seen may have been let write again
        return Loss(missing, ceil(word.age) if missing else 0)
    if missing:
        return Loss(is_unknown=True)
    return Loss(None, ceil(word.age + (FENCED_AFTER_GRANT if writes_on else 0.0)))


def died(seen: SeenInstance, primary: SeenNode) -> Step:
    """The recorded primary's server is dead, for sure."""
    if a_complete_primary_comes_back(primary):
        return wait(a_complete_primary_comes_back(primary), 1.0)
    best = choose(seen, _in_sync_until_then(seen, primary.name))
    if best is not None:
        return record(seen, best, Why.SERVER_DIED, primary.name, planned=False)
    return by_what_is_left(seen, primary)


def died_before_it_handed_over(seen: SeenInstance, to: SeenNode, former: SeenNode) -> Step:
    """Then the best replica follows, which may be another than was meant."""
    if a_complete_primary_comes_back(former):
        return wait(a_complete_primary_comes_back(former), 1.0)
    able = [node for node in sight.others(seen, former.name) if node.was_in_sync or node is to]
    best = choose(seen, able)
    if best is None:
        return by_what_is_left(seen, former)
    return record(seen, best, Why.SERVER_DIED, former.name, planned=False)


def a_complete_primary_comes_back(primary: SeenNode) -> str:
    """And loses nothing, which no replica can promise: it is waited for, but not for long."""
    said = primary.said
    is_leaving = primary.pod is not None and primary.pod.is_being_deleted
    if said is None or not said.disk.is_complete or is_leaving or primary.dead_for >= COMES_BACK:
        return ""
    return f"{primary.name} has all its data on disk and is about to start again"


def unseen(seen: SeenInstance, lost: SeenNode, counted_on: tuple[str, ...]) -> Step:
    """Nobody can say whether it is in office; where it is, it does not write without each of `counted_on`."""
    if not sight.others(seen, lost.name):
        return wait(f"{lost.name} is waited for, for it has no replica")
    if a_complete_primary_comes_back(lost):
        return wait(a_complete_primary_comes_back(lost), 1.0)
    wish = f"replace {lost.name}, which cannot be seen"
    for guard, check in UNSEEN.items():
        why = check(seen, lost)
        if why:
            return wait(why, LOOK_AGAIN) + Step(refusals=(Refusal(wish, guard, why),))
    able = [node for node in sight.others(seen, lost.name) if node.name in counted_on]
    by_hand = tuple(
        Follow(node.name, lost.name, seen.record.epoch) for node in able if sight.is_in_office(node)
    )
    if by_hand:
        # Recorded as it is, it would be in office at once, and the one before it may be writing.
        return Step(by_hand, is_exclusive=True)
    best = choose(seen, able)
    if best is None or not sight.holds_data(best):  # what is not seen is not known to be empty
        if lost.name in seen.wish.gives_up:
            return by_what_is_left(seen, lost)
        why = f"{lost.name} may be writing: none of those it counts on answers and is able to follow it{_way_out(lost)}"
        refused = Refusal(wish, Guard.ONLY_A_REPLICA_THE_PRIMARY_COUNTS_ON_REPLACES_IT_UNPROVEN, why)
        return wait(why) + Step(refusals=(refused,))
    recorded = record(seen, best, Why.UNREACHABLE, lost.name, planned=False, counted_on=counted_on)
    return recorded + Step((NotePrimary(best.name, best.name, seen.record.epoch + 1),))


def _way_out(lost: SeenNode) -> str:
    return (
        f"; bring it back or, if its server is off for sure, set the annotation {ALLOW_DATA_LOSS}: {lost.name} to go "
        "on without what it holds"
    )


def nobody_hears_the_primary(seen: SeenInstance, primary: SeenNode) -> str:
    """It was silent for long enough, with heartbeats and with lease requests; a new pod speaks only for itself."""
    if primary.said is not None:
        return "" if primary.may_have_a_twin else f"{primary.name} answers"
    heard = primary.unheard_for if primary.unheard_for is not None else seen.lease.leads_for
    asked = seen.lease.last_request if seen.lease.last_request is not None else heard
    silent = min(heard, asked)
    return "" if silent >= UNHEARD else f"{primary.name} was heard of {silent:.0f} s ago"


def is_silent(seen: SeenInstance) -> bool:
    """The primary has missed to ask for its lease, and said nothing else since."""
    silence = seen.silence()
    return silence is not None and silence > UNHEARD


def impatience(seen: SeenInstance) -> dict[str, float]:
    """For whose answer is waited less than usual, as writes may stand still meanwhile."""
    silent = {seen.record.primary: ASK_SILENT} if is_silent(seen) else {}
    return silent | {node.name: ASK_AGAIN for node in seen.nodes if node.has_not_answered}


def somebody_else_misses_the_primary(seen: SeenInstance, primary: SeenNode) -> str:
    """One observer is not enough: it may be our own network that is cut."""
    pod = primary.pod
    if primary.may_have_a_twin or pod is None or not pod.is_ready or pod.machine_is_lost:
        return ""
    servers = [node.server for node in sight.others(seen, primary.name) if node.server is not None]
    if servers and not any(server.link_is_up and server.silent_for < SILENT_LINK for server in servers):
        return ""
    return f"only the operator does not reach {primary.name}: its kubelet or its replicas still do"


def no_replica_hears_the_primary(seen: SeenInstance, primary: SeenNode) -> str:
    """Its sidecar alone may be away, which is all that could stop its writes; a cut network silences links at once."""
    if primary.may_have_a_twin:
        return ""
    hearing = sorted(node.name for node in sight.others(seen, primary.name) if _hears(node, primary))
    if not hearing:
        return ""
    heard_by = ", ".join(hearing)
    return f"{primary.name} is heard by {heard_by}, and may be writing: only its sidecar does not answer"


def _hears(node: SeenNode, primary: SeenNode) -> bool:
    server = node.server
    if server is None or server.follows != primary.name:
        return False
    return server.link_is_up and server.silent_for < SILENT_LINK


def choose(seen: SeenInstance, candidates: Iterable[SeenNode]) -> SeenNode | None:
    """The one that has most; one that stays before one that is to go; an empty one never before a full one."""
    able = [node for node in candidates if sight.is_able(node)]
    best = max(able, key=lambda node: _rank(seen, node), default=None)
    return None if best is None or may_lead_a_fuller_one(seen, best) else best


def may_lead_a_fuller_one(seen: SeenInstance, node: SeenNode) -> str:
    """Why it must not take office: it is empty, and another one is not, or is not known to be."""
    return an_empty_node_never_leads_a_full_one(seen, node) or an_empty_node_waits_for_the_unseen(seen, node)


def an_empty_node_never_leads_a_full_one(seen: SeenInstance, node: SeenNode) -> str:
    if sight.holds_data(node):
        return ""
    full = sorted(each.name for each in sight.others(seen, node.name) if sight.holds_data(each))
    return f"{node.name} is empty, and {', '.join(full)} would lose what it holds" if full else ""


def an_empty_node_waits_for_the_unseen(seen: SeenInstance, node: SeenNode) -> str:
    if sight.holds_data(node):
        return ""
    unseen = _unaccounted(seen, node.name)
    return f"{node.name} is empty, and {', '.join(unseen)} may hold data" if unseen else ""


def take_office(seen: SeenInstance, primary: SeenNode, former: SeenNode | None, *, unproven: bool) -> Step:
    """The recorded one runs as a replica, nobody is seen in office, and it was not planned."""
    epoch = seen.record.epoch
    promote = Step(
        (Promote(primary.name, epoch), MoveService(primary.name)),
        doing=Doing(FAILOVER, f"{primary.name} takes office"),
        is_exclusive=True,
    )
    is_every_other_seen = all(sight.is_seen_out_of_office(node) for node in sight.others(seen, primary.name))
    if former is None or (sight.is_seen_out_of_office(former) and (not unproven or is_every_other_seen)):
        return note_at_the_gate(seen, primary.name) + promote
    is_off = sight.is_proven_dead(former) or former.name in seen.wish.gives_up
    if not is_off and primary.name not in seen.promotable:
        why = f"{former.name} may be writing, and does not count on {primary.name}: it must be seen first"
        return wait(why + _way_out(former))
    return _after_the_fence(seen, primary, former, promote)


def note_at_the_gate(seen: SeenInstance, primary: str) -> Step:
    """Nodes that would start as primaries of an epoch that is over; each refuses if its server has come back."""
    found = Step()
    for node in sight.others(seen, primary):
        said = node.said
        if said is None or not sight.has_no_server(node):
            continue
        if said.record.epoch < seen.record.epoch and said.record.primary in (node.name, ""):
            found += Step((NotePrimary(node.name, primary, seen.record.epoch),))
    return found


def _after_the_fence(seen: SeenInstance, primary: SeenNode, former: SeenNode, promote: Step) -> Step:
    epoch, said = seen.record.epoch, primary.said
    if said is None or said.record.epoch < epoch:
        return Step((NotePrimary(primary.name, primary.name, epoch),), promote.waits, (), promote.doing, True)
    left = fenced_in(seen, primary)
    if left > 0:
        return wait(f"the last primary has stopped writing for sure in {ceil(left)} s", left) + Step(
            doing=promote.doing
        )
    is_unseen = former.said is None and not sight.is_proven_dead(former)
    why = no_replica_hears_the_primary(seen, former) if is_unseen else ""
    if why:  # again: when it was recorded, the links may have been down for a moment
        wish, guard = f"promote {primary.name}", Guard.NO_REPLICA_HEARS_THE_PRIMARY
        return wait(why, LOOK_AGAIN) + Step(refusals=(Refusal(wish, guard, why),), doing=promote.doing)
    return promote


def fenced_in(seen: SeenInstance, primary: SeenNode) -> float:
    """When nobody lets the last primary write any more: neither a grant, nor the word of the one that follows it."""
    lease = seen.lease
    granted = lease.last_grant if lease.last_grant is not None else lease.leads_for
    noted = primary.said.noted_for if primary.said is not None else 0.0
    return max(FENCED_AFTER_GRANT - granted, FENCED_AFTER_NOTE - noted)


def _in_sync_until_then(seen: SeenInstance, primary: str) -> list[SeenNode]:
    return [node for node in sight.others(seen, primary) if node.was_in_sync]


def by_what_is_left(seen: SeenInstance, primary: SeenNode) -> Step:
    """No replica was in sync: what lies on disks and in servers decides, when all of it is known.

    One that waits at its gate to be what it was long ago is told, and starts as a replica with what it has.
    """
    told = note_at_the_gate(seen, seen.record.primary)
    if told.actions:
        return Step(told.actions, is_exclusive=True)
    missing = ", ".join(_unaccounted(seen, primary.name))
    if missing:
        return wait(
            f"what {missing} holds is not known, and may be the newest data: bring it back, or set the annotation "
            f"{ALLOW_DATA_LOSS}: {missing} to go on without it"
        )
    coming = sorted(node.name for node in sight.others(seen, primary.name) if _is_coming(node, primary))
    if coming:
        return wait(f"the servers of {', '.join(coming)} are starting")
    is_given_up = primary.said is None and primary.name in seen.wish.gives_up
    others = sight.others(seen, primary.name)
    fullest = choose(seen, (node for node in others if is_given_up or _has_more(node, primary)))
    if fullest is not None:
        return record(seen, fullest, Why.FULLEST_DATA, primary.name, planned=False)
    return _let_in(seen, primary)


def _unaccounted(seen: SeenInstance, but: str) -> list[str]:
    """Those of whom nobody knows what they hold, and nobody has given it up."""
    found = (node for node in sight.others(seen, but) if not sight.is_accounted_for(node))
    return sorted(node.name for node in found if node.name not in seen.wish.gives_up)


def _let_in(seen: SeenInstance, primary: SeenNode) -> Step:
    """Nobody has more than the recorded primary itself."""
    if primary.said is None:
        return wait(f"{primary.name} is to come back with its volume: nobody else has its data")
    why = an_empty_node_never_leads_a_full_one(seen, primary)
    if why:
        return wait(why) + Step(
            refusals=(Refusal(f"start {primary.name}", Guard.AN_EMPTY_NODE_NEVER_LEADS_A_FULL_ONE, why),)
        )
    if not primary.said.gate_is_asked:
        return wait(f"the server of {primary.name} is about to start")
    others = sight.others(seen, primary.name)
    # Its gate asks those it was told of, and one of them may have been removed, or never made, since then.
    told = primary.spec.members if primary.spec is not None else ()
    are_all_there = {*told} <= {node.name for node in seen.nodes}
    # Or does not reach them, while we do: without DNS, or where a policy closes the sidecars' port between pods.
    is_stuck = primary.said.gate_waits_for.startswith(Guard.EVERY_MEMBER_MUST_HAVE_ANSWERED)
    asks_in_vain = is_stuck or not are_all_there
    if not asks_in_vain and not any(node.said is None or sight.holds_data(node) for node in others):
        return wait(f"the server of {primary.name} starts by itself", 1.0)
    return Step((OpenGate(primary.name, seen.record.epoch),), is_exclusive=True)


def _is_coming(node: SeenNode, primary: SeenNode) -> bool:
    """It has data, and will tell by its server how much: replicas start at once, unless something is wrong there."""
    server, said = node.server, node.said
    if server is not None:
        return server.is_loading or not server.answers
    if said is None or not said.disk.has_data:
        return False
    is_failing = node.pod is not None and bool(node.pod.fault)
    its = primary.said.disk if primary.said is not None else None
    return not is_failing or its is None or not its.has_data or said.disk.offset > its.offset


def _has_more(node: SeenNode, primary: SeenNode) -> bool:
    """Than the dead primary's disk. A log has all but the last moment, and nothing on the disk tells how far that is:
    only one that was in sync, which was chosen before, has more."""
    if not sight.holds_data(node):
        return False
    if primary.said is None:
        return not primary.has_volume
    disk = primary.said.disk
    if not disk.has_data:
        return True
    if disk.has_append_only_file:
        return False
    return sight.offset(node) > disk.offset


def _rank(seen: SeenInstance, node: SeenNode) -> tuple[bool, int, bool, bool, int]:
    stays, is_recorded = node.index < seen.wish.replicas, node.name == seen.record.primary
    return sight.holds_data(node), sight.offset(node), is_recorded, stays, -node.index


UNSEEN = named(nobody_hears_the_primary, somebody_else_misses_the_primary, no_replica_hears_the_primary)

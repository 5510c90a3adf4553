"""Who is primary. The record is the wish; what is seen is brought to it, from wherever the last look has left it."""

from __future__ import annotations

from datetime import datetime, timedelta

from valkey_operator.api.guards import Guard
from valkey_operator.api.requests import ALLOW_DATA_LOSS
from valkey_operator.decide import sight, succession
from valkey_operator.decide.actions import (
    Doing,
    Follow,
    HandOver,
    MoveService,
    NoteFailover,
    NotePrimary,
    Promote,
    RecordPrimary,
    Refusal,
    SetPromotable,
    Step,
    Wait,
    Why,
    wait,
)
from valkey_operator.model.gate import Record
from valkey_operator.model.instance import SeenInstance, SeenNode, TakenOver

# A handover that did not come about in this time is given up, and the one in office stays; one that was refused sooner,
# while that one may still write by its last grant.
PATIENCE, SHORT_PATIENCE = timedelta(seconds=30), timedelta(seconds=2)
# kube-proxy follows one change a second. A pod that has less time left than this cannot wait for it.
CLIENTS_FOLLOW = 1.1
ENOUGH_GRACE = timedelta(seconds=10)
FIRST_EPOCH = 1


def plan(seen: SeenInstance, now: datetime) -> Step:
    """Exclusive while the office is not settled; otherwise there is room for planned work."""
    known = _newest_record(seen)
    if known is not None:
        return known
    primary = seen.node(seen.record.primary)
    if primary is None or primary.is_being_deleted:
        return Step()
    rival = _rival(seen, primary)
    if sight.is_in_office(primary):
        if rival is not None and is_planned(seen) and _kind(seen) != Why.HANDED_BACK:
            # Somebody made it primary by hand before the former one had left: it may lack what was written since.
            return succession.record(seen, rival, Why.HANDED_BACK, primary.name, planned=True)
        return _in_office(seen, primary, now)
    if rival is not None and (primary.said is not None or is_planned(seen)):
        return _bring_to_the_record(seen, primary, rival, now)
    return _nobody_in_office(seen, primary, rival)


def is_planned(seen: SeenInstance) -> bool:
    """Then the recorded one takes office only after the former has left it, or was seen dead."""
    under_way = seen.change()
    return under_way is not None and under_way.is_planned


def _newest_record(seen: SeenInstance) -> Step | None:
    """The first record; or a newer one that nodes have noted, as after a status was lost."""
    if seen.record.epoch == 0 and (seen.nodes or seen.wish.replicas):
        first = RecordPrimary(FIRST_EPOCH, f"{seen.name}-0", Why.FORMATION, planned=True)
        return Step((first,), is_exclusive=True)
    noted = [node.said.record for node in sight.members(seen) if node.said is not None]
    newest = max(noted, key=lambda each: each.epoch, default=Record())
    if newest.epoch <= seen.record.epoch:
        return None
    name = newest.primary if seen.node(newest.primary) is not None else seen.record.primary
    found = RecordPrimary(newest.epoch + 1, name, Why.RECORD_FOUND, planned=False)
    if _was_handed_over(seen, newest):
        found = RecordPrimary(
            newest.epoch + 1, name, Why.POD_STOPPING, planned=True, former=seen.record.primary,
            made_in=newest.epoch,
        )  # fmt: skip
    return Step((found,), is_exclusive=True)


def _was_handed_over(seen: SeenInstance, newest: Record) -> bool:
    """By the recorded primary, whose pod was stopped while no operator was there: nodes change it for that alone."""
    to = seen.node(newest.primary)
    taken = to.said.taken_over if to is not None and to.said is not None else None
    is_next = newest.epoch == seen.record.epoch + 1
    return is_next and taken == TakenOver(seen.record.primary, newest.epoch)


def _rival(seen: SeenInstance, primary: SeenNode) -> SeenNode | None:
    """In office without being recorded: the former primary; or one made so by hand, if the recorded one follows it.

    Any other that calls itself primary has no claim: what was written since is not in it.
    """
    under_way = seen.change()
    for node in sight.others(seen, primary.name):
        is_former = under_way is not None and under_way.former == node.name
        if sight.is_in_office(node) and (is_former or sight.is_caught_up(primary, node)):
            return node
    return None


def _epoch(node: SeenNode) -> int:
    return node.said.record.epoch if node.said is not None else 0


def _in_office(seen: SeenInstance, primary: SeenNode, now: datetime) -> Step:
    """The recorded one is primary: the Service and the records follow, the change is done; then the others follow.

    They come last: it gets no grant before the change is done, and must not wait for one that does not obey.
    """
    found = Step((MoveService(primary.name),) if seen.service != primary.name else ())
    found += _note(seen, primary)
    if primary.name in seen.promotable:  # those the one before it counted on
        found += Step((SetPromotable(()),))
    under_way = seen.change()
    if under_way is not None:
        pause = max(0, int((now - under_way.at).total_seconds() * 1000))
        found += Step((NoteFailover(under_way.epoch, pause),))
    return found + _follow(seen, primary)


def _note(seen: SeenInstance, primary: SeenNode) -> Step:
    """Those that would start as primaries of an older epoch first, so that there is never a second one."""
    found = succession.note_at_the_gate(seen, primary.name)
    if _epoch(primary) < seen.record.epoch:
        found += Step((NotePrimary(primary.name, primary.name, seen.record.epoch),))
    return found


def _follow(seen: SeenInstance, primary: SeenNode) -> Step:
    """Whoever follows somebody else, or nobody, or does so in an epoch that is over."""
    epoch, found = seen.record.epoch, Step()
    for node in sight.others(seen, primary.name):
        server = node.server
        if server is None or node.said is None or not server.answers or server.is_loading:
            continue
        is_right = server.is_replica and server.follows == primary.name
        if is_right and node.said.record.epoch == epoch:
            continue
        why = _would_be_emptied(node, primary)
        if why:
            refused = Refusal(f"let {node.name} follow", Guard.AN_EMPTY_NODE_NEVER_LEADS_A_FULL_ONE, why)
            found += Step(refusals=(refused,))
        else:
            found += Step((Follow(node.name, primary.name, epoch),))
    return found


def _would_be_emptied(node: SeenNode, primary: SeenNode) -> str:
    if sight.holds_data(primary) or not sight.holds_data(node):
        return ""
    return f"{primary.name} is primary and empty, and {node.name} holds data: it is left as it is"


def _bring_to_the_record(seen: SeenInstance, primary: SeenNode, rival: SeenNode, now: datetime) -> Step:
    """Somebody else is in office: it hands over, or is recorded where the recorded one cannot take over."""
    # The Service first: it takes the network longer to follow than the servers to change.
    moved = (MoveService(primary.name),) if seen.service != primary.name else ()
    left = _until_clients_follow(seen, rival, now, is_moved=not moved)
    # It need not be caught up before it is its turn, and a look at it may fail.
    is_its_turn_later = left > 0 and not moved
    if (is_its_turn_later or sight.is_caught_up(primary, rival)) and not _has_failed(seen, now):
        doing = Doing(_kind(seen), f"{rival.name} hands over to {primary.name}")
        if left:
            waits = (
                Wait("clients follow the Service, and are served by the former primary until then", left),
            )
            return Step(moved, waits=waits, doing=doing, is_exclusive=True)
        handed = HandOver(rival.name, primary.name, seen.record.epoch)
        return Step((*moved, handed), doing=doing, is_exclusive=True)
    if is_planned(seen) or sight.is_seen_out_of_office(primary):
        why = succession.an_empty_node_never_leads_a_full_one(seen, rival)
        if why:
            return wait(why)
        return succession.record(
            seen, rival, Why.HANDED_BACK, primary.name, planned=is_planned(seen), took_no_write=True
        )
    return wait(f"{primary.name} is recorded as primary and does not say what it is")


def _until_clients_follow(seen: SeenInstance, rival: SeenNode, now: datetime, *, is_moved: bool) -> float:
    """A pod that is being stopped has changed a moment ago: other work waits for the network before it begins.

    Connections that are open stay with the former primary, and are let go when the way to the new one is there.
    """
    ends_at = rival.pod.ends_at if rival.pod is not None else None
    if _kind(seen) != Why.POD_STOPPING or ends_at is None or ends_at - now < ENOUGH_GRACE:
        return 0.0
    return max(0.0, CLIENTS_FOLLOW - seen.moved_for) if is_moved else CLIENTS_FOLLOW


def _has_failed(seen: SeenInstance, now: datetime) -> bool:
    """The handover that is under way has had its time; so has one that was begun by a clock that was ahead of ours."""
    under_way = seen.change()
    limit = SHORT_PATIENCE if seen.handover_failed else PATIENCE
    if _kind(seen) == Why.POD_STOPPING:
        limit += timedelta(seconds=CLIENTS_FOLLOW)  # in which it was not tried
    return under_way is not None and not timedelta(0) <= now - under_way.at < limit


def _nobody_in_office(seen: SeenInstance, primary: SeenNode, rival: SeenNode | None) -> Step:
    if primary.said is None and rival is not None and seen.change() is not None:
        return _never_seen_in_office(seen, primary, rival)
    if seen.change() is not None:
        return _taking_office(seen, primary)
    if not sight.is_able(primary):
        return _lost(seen, primary)
    if succession.may_lead_a_fuller_one(seen, primary):
        return succession.by_what_is_left(seen, primary)
    return Step((Promote(primary.name, seen.record.epoch), MoveService(primary.name)), is_exclusive=True)


def _never_seen_in_office(seen: SeenInstance, primary: SeenNode, former: SeenNode) -> Step:
    """It was recorded unproven and is lost itself; the one before it is back, with all but what it may have taken."""
    has_nothing = sight.never_ran(primary) or (sight.is_proven_dead(primary) and not primary.has_volume)
    if has_nothing or _is_given_up(seen, primary):
        return succession.record(seen, former, Why.HANDED_BACK, primary.name, planned=False)
    return wait(
        f"{primary.name} may have taken office, and must be seen before {former.name} goes on: bring it back, or set "
        f"the annotation {ALLOW_DATA_LOSS}: {primary.name} to go on without what it may have taken"
    )


def _is_given_up(seen: SeenInstance, primary: SeenNode) -> bool:
    """By a person, and it writes no more, wherever it is: it never got a grant."""
    unheard = primary.unheard_for if primary.unheard_for is not None else seen.lease.leads_for
    return primary.name in seen.wish.gives_up and unheard >= succession.FENCED_AFTER_GRANT


def _lost(seen: SeenInstance, primary: SeenNode) -> Step:
    if sight.is_proven_dead(primary):
        return succession.died(seen, primary)
    if primary.said is not None and not primary.may_have_a_twin:
        return wait(f"the server of {primary.name} runs and does not answer")
    return succession.unseen(seen, primary, seen.promotable)


def _taking_office(seen: SeenInstance, primary: SeenNode) -> Step:
    """Recorded, and not in office yet; nobody else is seen there."""
    under_way = seen.change()
    former = seen.node(under_way.former) if under_way is not None and under_way.former else None
    if former is primary:
        former = None
    if not sight.is_able(primary):
        return _cannot_take_office(seen, primary, former)
    fuller = _fuller(seen, primary, former)
    if fuller is not None:
        last = primary if fuller is former else former or primary
        reason = Why.HANDED_BACK if is_planned(seen) else Why.FULLEST_DATA
        return succession.record(seen, fuller, reason, last.name, planned=is_planned(seen))
    if succession.may_lead_a_fuller_one(seen, primary):
        return succession.by_what_is_left(seen, primary)
    if former is None or not is_planned(seen):
        unproven = under_way is not None and under_way.reason == Why.UNREACHABLE
        return succession.take_office(seen, primary, former, unproven=unproven)
    return _planned_office(seen, primary, former)


def _fuller(seen: SeenInstance, primary: SeenNode, former: SeenNode | None) -> SeenNode | None:
    """One that holds more than the recorded one by now, which may have started again with less than it had."""
    if former is None or not (sight.is_seen_out_of_office(former) or sight.is_proven_dead(former)):
        return None
    able = [node for node in sight.others(seen, primary.name) if node.was_in_sync or node is former]
    best = succession.choose(seen, [*able, primary])
    return best if best is not None and sight.offset(best) > sight.offset(primary) else None


def _planned_office(seen: SeenInstance, primary: SeenNode, former: SeenNode) -> Step:
    """The former has left; if it died or is lost instead, this is no planned change any more."""
    epoch = seen.record.epoch
    if sight.is_seen_out_of_office(former) and not sight.has_no_server(former):
        doing = Doing(_kind(seen), f"{primary.name} takes office")
        return Step((Promote(primary.name, epoch), MoveService(primary.name)), doing=doing, is_exclusive=True)
    if sight.is_proven_dead(former):
        return succession.died_before_it_handed_over(seen, primary, former)
    if former.said is not None and not former.may_have_a_twin:
        return wait(f"the server of {former.name} does not say whether it is still primary")
    return succession.unseen(seen, former, seen.promotable)


def _cannot_take_office(seen: SeenInstance, primary: SeenNode, former: SeenNode | None) -> Step:
    """It died or is lost before it was seen in office, where it may have been."""
    has_left = former is None or sight.is_seen_out_of_office(former) or sight.is_proven_dead(former)
    if primary.said is None and not sight.is_proven_dead(primary):
        # Before it was seen in office it got no grant: it counts on everybody.
        everybody = tuple(node.name for node in sight.others(seen, primary.name))
        return succession.unseen(seen, primary, everybody if has_left else seen.promotable)
    if primary.server is not None and not (primary.pod is not None and primary.pod.is_being_deleted):
        return wait(f"the server of {primary.name} is not ready to be primary yet")
    if former is None or has_left:
        return succession.died(seen, primary)
    return succession.unseen(seen, former, seen.promotable)


def _kind(seen: SeenInstance) -> str:
    under_way = seen.change()
    return under_way.reason if under_way is not None else str(Why.SWITCHOVER)

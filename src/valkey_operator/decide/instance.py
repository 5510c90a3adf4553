"""One primary and its replicas: what to do now, in this order. Pure; the next look goes on from what it sees.

First the office: who is primary. While that is open nothing else is done, but for making nodes that are missing. Then,
one at a time: planned handovers, removals, restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from valkey_operator.decide import handover, lease, members, office, requests, roll, sight, succession
from valkey_operator.decide.actions import Action, Refusal, Step, Wait
from valkey_operator.decide.report import Report, report
from valkey_operator.model.instance import SeenInstance, SeenNode

# Heartbeats come every ten seconds: what was said within one of them is enough to do nothing. What is acted upon was
# said during this very look.
RECENT = 12.0


@dataclass(frozen=True)
class Plan:
    """What to do now; what is waited for; what is refused; whom to ask before anything can be decided."""

    actions: tuple[Action, ...]
    waits: tuple[Wait, ...]
    refusals: tuple[Refusal, ...]
    ask: tuple[str, ...]
    report: Report
    # To a person who has asked for another primary; and in how many seconds one is due.
    answer: requests.Answer | None = None
    answer_due: float | None = None

    @property
    def again(self) -> float | None:
        """In how many seconds to look again if nothing wakes us before."""
        due = () if self.answer_due is None else (self.answer_due,)
        return min((*(each.again for each in self.waits), *due), default=None)


def plan(seen: SeenInstance, now: datetime) -> Plan:
    """With `ask`, ask those sidecars and plan again: each is then marked with whether it has `answered`."""
    silent = seen.record.primary if succession.is_silent(seen) else ""
    remembered = seen.remembered(RECENT, but=silent)
    draft = _step(remembered, now)
    if seen.wish.is_paused:
        return _planned(remembered, replace(draft, actions=(), waits=(), doing=None))
    if not draft.actions and not draft.waits:
        return _planned(remembered, draft)
    unasked = _to_ask(seen)
    if unasked:
        return _planned(remembered, replace(draft, actions=()), unasked)
    fresh = seen.answered()
    return _planned(fresh, _step(fresh, now))


def _planned(seen: SeenInstance, step: Step, ask: tuple[str, ...] = ()) -> Plan:
    told = report(seen, step)
    primary = seen.node(seen.record.primary)
    is_settled = primary is not None and sight.is_in_office(primary) and seen.change() is None
    in_office = (seen.record.primary,) if is_settled else ()
    answer = requests.answer(seen.wish, in_office, step.refusals, told.message)
    return Plan(step.actions, step.waits, step.refusals, ask, told, answer, requests.due(seen.wish))


def _to_ask(seen: SeenInstance) -> tuple[str, ...]:
    """Those who were not asked yet."""
    return tuple(
        node.name
        for node in seen.nodes
        if node.pod is not None and node.pod.is_placed and node.answered is None
    )


def _step(seen: SeenInstance, now: datetime) -> Step:
    first = office.plan(seen, now)
    primary = seen.node(seen.record.primary)
    is_settled = primary is not None and not primary.is_being_deleted and sight.is_in_office(primary)
    if primary is None or not is_settled:
        return first + _beside_an_empty_office(seen, first)
    if first.is_exclusive:
        return first
    return first + _in_good_order(seen, primary, first, now)


def _beside_an_empty_office(seen: SeenInstance, first: Step) -> Step:
    """Nodes are made and mended, and what never ran may go; nothing that may hold data is touched."""
    if not seen.record.epoch or seen.change() is not None:
        return Step()
    if first.actions:
        return Step()
    found = members.make(seen)
    if not found.actions:
        found += members.remove(seen, seen.node(seen.record.primary))
    if not found.actions:
        found += roll.restart_before_office(seen)
    return found


def _in_good_order(seen: SeenInstance, primary: SeenNode, first: Step, now: datetime) -> Step:
    """Whoever has to follow does so first; then one operation at a time, in this order of weight."""
    if first.actions:
        return members.make(seen) if seen.change() is None else Step()
    found = lease.promotable(seen, primary) + members.make(seen)
    request = handover.wanted(seen, primary)
    if request is not None:
        found += handover.plan(seen, primary, request, now)
    if not found.is_exclusive:
        found += members.remove(seen, primary)
    if not found.is_exclusive and seen.wish.replicas and request is None:
        found += roll.plan(seen, primary, now)
    return found

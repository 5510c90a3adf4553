"""Restarts: replicas first, one at a time, each back in sync before the next; then a handover, then the old primary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from valkey_operator.api.guards import Guard, named
from valkey_operator.decide import handover, sidecars, sight
from valkey_operator.decide.actions import Doing, Refusal, ReplaceSidecar, RestartPod, Step, Wait, Why
from valkey_operator.decide.reliance import the_primary_does_without_it
from valkey_operator.model.instance import SeenInstance, SeenNode

ROLLING = str(Why.ROLLING_UPDATE)


def plan(seen: SeenInstance, primary: SeenNode, now: datetime) -> Step:
    """One at a time."""
    node = _next_to_go(seen, primary)
    if node is None:
        back = _coming_back(seen, primary)
        return back if back.doing is not None else _sidecars(seen, primary)
    for guard, check in EVERY_GUARD.items():
        why = check(seen, node, primary)
        if why:
            return _refused(seen, f"restart {node.name}", guard, why)
    if node.name == primary.name and len(sight.members(seen)) > 1:
        replicas = tuple(sight.others(seen, primary.name))
        return _doing(seen, f"{primary.name} hands over") + handover.plan(
            seen, primary, handover.Request(Why.ROLLING_UPDATE, replicas), now
        )
    restart = RestartPod(node.name, node.needs_restart)
    return Step((restart,), is_exclusive=True) + _doing(seen, f"{node.name} is restarted")


def going(seen: SeenInstance, primary: SeenNode) -> SeenNode | None:
    """It is restarted as soon as the primary does without it."""
    node = _next_to_go(seen, primary)
    is_held = node is None or any(check(seen, node, primary) for check in GUARDS.values())
    return None if is_held else node


def _next_to_go(seen: SeenInstance, primary: SeenNode) -> SeenNode | None:
    """A pod that does not come up is restarted first: it may be the change that went back which heals it."""
    waiting = [node for node in sight.members(seen) if node.needs_restart and _has_pod(node)]
    return min(waiting, key=lambda each: _order(each, primary), default=None)


def restart_before_office(seen: SeenInstance) -> Step:
    """While nobody is in office: a pod that has never run may be replaced at once, there is nothing to lose."""
    for node in sight.members(seen):
        pod = node.pod
        if node.needs_restart and seen.wish.rolls and pod is not None and _never_came_up(node):
            return Step((RestartPod(node.name, node.needs_restart),))
    return Step()


def _coming_back(seen: SeenInstance, primary: SeenNode) -> Step:
    """A roll that waits for its last pod is still one."""
    away = sorted(node.name for node in sight.members(seen) if sight.is_away(node, primary.name))
    if seen.operation != ROLLING or not away:
        return Step()
    return _doing(seen, f"waits for {', '.join(away)}")


def _sidecars(seen: SeenInstance, primary: SeenNode) -> Step:
    nodes = [
        sidecars.Candidate(
            node.name, node.pod, node.name == primary.name, not sight.is_away(node, primary.name)
        )
        for node in sight.members(seen)
    ]
    may_begin = seen.wish.window_is_open or seen.operation == sidecars.REPLACING
    found = sidecars.find(nodes, rolls=seen.wish.rolls, may_begin=may_begin)
    return Step(
        (ReplaceSidecar(found.node),) if found.node else (),
        refusals=(found.refusal,) if found.refusal is not None else (),
        doing=found.doing,
    )


def updates_are_left_to_people(seen: SeenInstance, node: SeenNode, _primary: SeenNode) -> str:
    if seen.wish.rolls:
        return ""
    return f"update.strategy is OnDelete: delete the pod of {node.name} when it suits you"


def a_roll_begins_in_its_window(seen: SeenInstance, node: SeenNode, _primary: SeenNode) -> str:
    if seen.wish.window_is_open or seen.operation == ROLLING or _never_came_up(node):
        return ""
    return "update.window is closed now"


def the_first_pod_of_a_roll_came_back(seen: SeenInstance, node: SeenNode, _primary: SeenNode) -> str:
    failing = [each for each in sight.others(seen, node.name) if each.pod is not None and each.pod.fault]
    if not failing or _is_failing(node):
        return ""
    first = min(failing, key=lambda each: each.index)
    return f"{first.name} does not come up, so nothing else is restarted"


def only_one_pod_is_away_at_a_time(seen: SeenInstance, node: SeenNode, primary: SeenNode) -> str:
    away = sorted(each.name for each in sight.others(seen, node.name) if sight.is_away(each, primary.name))
    if not away or _is_failing(node):
        return ""
    return f"{', '.join(away)} must be back in sync first"


def a_primary_that_was_handed_over_is_restarted_as_a_replica(
    seen: SeenInstance, node: SeenNode, primary: SeenNode
) -> str:
    """A lone one has nobody to hand over to, and would come back with what is on its volume, or with nothing."""
    if node.name != primary.name or len(sight.members(seen)) > 1 or _never_came_up(node):
        return ""
    if seen.wish.replicas > 1:
        return "its replicas are not there yet"
    if not seen.wish.keeps_data:
        told = f"delete the pod of {node.name} if that is all right"
        return f"all data would be lost, for nothing is kept on a volume: {told}"
    return ""


def supervised_waits_for_a_person(seen: SeenInstance, node: SeenNode, primary: SeenNode) -> str:
    if not seen.wish.is_supervised or node.name != primary.name:
        return ""
    if len(sight.members(seen)) > 1:
        return "update.supervised is set: switch over when it suits you"
    return f"update.supervised is set: delete the pod of {node.name} when it suits you"


def _refused(seen: SeenInstance, step: str, guard: Guard, why: str) -> Step:
    """It waits while the others come back; what only a person can change is no reason to look again soon."""
    found = Step(refusals=(Refusal(step, guard, why),))
    if guard not in BRIEF:
        return found
    return found + Step(waits=(Wait(why),)) + _doing(seen, why)


def _doing(seen: SeenInstance, step: str) -> Step:
    everyone = sight.members(seen)
    done = sum(not node.needs_restart for node in everyone)
    return Step(doing=Doing(ROLLING, step, done, len(everyone)))


def _order(node: SeenNode, primary: SeenNode) -> tuple[bool, bool, int]:
    return not _is_failing(node), node.name == primary.name, -node.index


def _has_pod(node: SeenNode) -> bool:
    return node.pod is not None and not node.pod.is_being_deleted


def _is_failing(node: SeenNode) -> bool:
    return node.pod is not None and not node.pod.is_ready and bool(node.pod.fault)


def _never_came_up(node: SeenNode) -> bool:
    return node.pod is not None and not node.pod.has_run


BRIEF = (Guard.ONLY_ONE_POD_IS_AWAY_AT_A_TIME, Guard.THE_PRIMARY_DOES_WITHOUT_IT)
Check = Callable[[SeenInstance, SeenNode, SeenNode], str]
GUARDS: dict[Guard, Check] = named(
    updates_are_left_to_people,
    a_roll_begins_in_its_window,
    the_first_pod_of_a_roll_came_back,
    only_one_pod_is_away_at_a_time,
    a_primary_that_was_handed_over_is_restarted_as_a_replica,
    supervised_waits_for_a_person,
)
EVERY_GUARD: dict[Guard, Check] = {**GUARDS, **named(the_primary_does_without_it)}

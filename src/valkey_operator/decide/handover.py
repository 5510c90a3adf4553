"""Planned changes of the primary: who wishes for one, to whom, and the guards that must hold before it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from valkey_operator.api.guards import Guard, named
from valkey_operator.decide import sight, succession
from valkey_operator.decide.actions import Refusal, Step, Wait, Why
from valkey_operator.model.instance import SeenInstance, SeenNode

# After a handover that did not come about; a pod that is being stopped has less time.
PAUSE = timedelta(seconds=30)
SHORT_PAUSE = timedelta(seconds=5)
# kube-proxy follows one change a second: the one before ours may have waited for a second, and ours waits one after it.
QUIET = timedelta(seconds=2)
QUIET_PODS = 2.2
LOOK_AGAIN = 0.4


@dataclass(frozen=True)
class Request:
    """Another primary is wished for, one of these."""

    reason: Why
    candidates: tuple[SeenNode, ...]


def plan(seen: SeenInstance, primary: SeenNode, request: Request, now: datetime) -> Step:
    """Record the best candidate, or say which guard holds that back."""
    step = f"hand over from {primary.name} ({request.reason})"
    for guard, check in GUARDS.items():
        why = check(seen, primary, request, now)
        if why:
            refused = Refusal(step, guard, why, of_request=request.reason == Why.SWITCHOVER)
            is_brief = guard == Guard.THE_PODS_HAVE_BEEN_QUIET
            waits = (Wait(why, LOOK_AGAIN) if is_brief else Wait(why),)
            return Step(waits=waits, refusals=(refused,), is_exclusive=False)
    ready = [node for node in request.candidates if sight.is_caught_up(node, primary)]
    best = max(ready, key=lambda node: (not node.needs_restart, sight.offset(node), -node.index))
    return succession.record(seen, best, request.reason, primary.name, planned=True)


def wanted(seen: SeenInstance, primary: SeenNode) -> Request | None:
    """The most urgent wish first; a roll has its own."""
    replicas, wish = sight.others(seen, primary.name), seen.wish
    stay = tuple(node for node in replicas if node.index < wish.replicas)
    if primary.pod is not None and primary.pod.is_being_deleted and replicas and wish.replicas:
        return Request(Why.POD_STOPPING, stay or tuple(replicas))
    if 0 < wish.replicas <= primary.index:
        return Request(Why.SCALING, stay)
    if wish.switchover is not None and wish.switchover != primary.name:
        named = tuple(node for node in stay if wish.switchover in ("", node.name))
        return Request(Why.SWITCHOVER, named)
    return None


def a_new_primary_is_one_of_its_replicas(
    seen: SeenInstance, _primary: SeenNode, request: Request, _now: datetime
) -> str:
    if request.candidates:
        return ""
    named = seen.wish.switchover if request.reason == Why.SWITCHOVER else ""
    return f"{named} is no replica that stays" if named else "there is no replica to hand over to yet"


def replica_is_caught_up_before_switchover(
    _seen: SeenInstance, primary: SeenNode, request: Request, _now: datetime
) -> str:
    if any(sight.is_caught_up(node, primary) for node in request.candidates):
        return ""
    names = ", ".join(sorted(node.name for node in request.candidates))
    return f"none of {names} is in sync with {primary.name}"


def the_last_handover_did_not_fail_just_now(
    seen: SeenInstance, _primary: SeenNode, request: Request, now: datetime
) -> str:
    last = seen.last_failover
    pause = SHORT_PAUSE if request.reason == Why.POD_STOPPING else PAUSE
    if last is None or last.reason != Why.HANDED_BACK or not _is_within(pause, last.at, now):
        return ""
    return f"the last handover failed {int((now - last.at).total_seconds())} s ago"


def the_service_was_not_moved_just_now(
    seen: SeenInstance, _primary: SeenNode, _request: Request, now: datetime
) -> str:
    """Two changes within a second may reach clients late, and together."""
    last = seen.last_failover
    is_quiet = last is None or not _is_within(QUIET, last.at, now)
    return "" if is_quiet else "the Service was moved just now, and clients have to follow first"


def the_pods_have_been_quiet(seen: SeenInstance, _primary: SeenNode, request: Request, _now: datetime) -> str:
    """Else clients would be led to the old primary for up to a second more. A pod that is being stopped has no time."""
    if request.reason == Why.POD_STOPPING or seen.quiet_for >= QUIET_PODS:
        return ""
    return "a pod has come or gone in the last two seconds, and clients follow one change a second"


def _is_within(time: timedelta, at: datetime, now: datetime) -> bool:
    """What was noted by a clock that was ahead is long over, for all we know: nobody waits for clocks."""
    return timedelta(0) <= now - at < time


Check = Callable[[SeenInstance, SeenNode, Request, datetime], str]
GUARDS: dict[Guard, Check] = named(
    a_new_primary_is_one_of_its_replicas,
    replica_is_caught_up_before_switchover,
    the_last_handover_did_not_fail_just_now,
    the_service_was_not_moved_just_now,
    the_pods_have_been_quiet,
)

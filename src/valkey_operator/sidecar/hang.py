"""Does the server hang, and may it be ended? Pure; each guard says in a sentence why not, or nothing.

A server that hangs serves nobody, and its end is the proof on which another one takes office. But a silent server may
be at work, and what it alone holds goes with it: so it is ended late, and only where nothing is lost by that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from valkey_operator.api.guards import Guard, named

# Without an answer and without any processor time: stopped, frozen, or waiting for a disk or a lock.
STILL = 10.0
# Without an answer, but at work: a long command. Below the time after which a replica gives its primary up.
AT_WORK = 30.0
STOPPED, TRACED = "T", "t"
CONTINUE = "continue it (kill -CONT), or delete its pod to start it with what is on its volume"


@dataclass(frozen=True)
class Silent:
    """A server that does not answer: what its process does, what it said last, and who has its data."""

    # Without any answer, be it a refusal; and without any processor time.
    silent_for: float
    still_for: float
    # The letter of its main thread in /proc.
    state: str = "S"
    has_served: bool = True
    was_loading: bool = False
    is_stopping: bool = False
    is_primary: bool = True
    # All that was acknowledged is in its append-only file.
    is_complete_on_disk: bool = False
    # Replicas that are in sync, as long as an operator is there who would promote one; None: they were not asked.
    successors: tuple[str, ...] | None = None

    @property
    def is_still(self) -> bool:
        return self.still_for >= STILL

    @property
    def what(self) -> str:
        if self.state == STOPPED:
            return "the server was stopped by a signal and does not answer"
        return (
            "the server hangs" if self.is_still else "the server is busy with something and does not answer"
        )


@dataclass(frozen=True)
class Left:
    """It is not ended, for this reason."""

    guard: Guard
    why: str


def why_left(seen: Silent) -> Left | None:
    """None: it is to be ended now."""
    for guard, check in GUARDS.items():
        why = check(seen)
        if why:
            return Left(guard, why)
    return None


def a_server_that_stops_has_its_time(seen: Silent) -> str:
    return "the server saves its data and stops" if seen.is_stopping else ""


def a_server_that_starts_or_loads_is_not_hung(seen: Silent) -> str:
    """Before it serves it may read its disk for long; but not while it is stopped."""
    is_starting = seen.was_loading or not seen.has_served
    return "the server has not answered yet" if is_starting and seen.state != STOPPED else ""


def a_traced_server_is_left_to_who_traces_it(seen: Silent) -> str:
    return "the server is held by a debugger: detach it" if seen.state == TRACED else ""


def a_hung_server_is_silent_for_long(seen: Silent) -> str:
    limit = STILL if seen.is_still else AT_WORK
    return "the server does not answer" if seen.silent_for < limit else ""


def a_server_at_work_is_ended_only_for_a_successor(seen: Silent) -> str:
    """Alone it is back sooner when it has done what it does than when it has loaded its data again."""
    if seen.is_still or not seen.is_primary or seen.successors is None or seen.successors:
        return ""
    return f"{seen.what}; no replica can take over, so it is waited for"


def nothing_is_lost_with_a_hung_server(seen: Silent) -> str:
    if not seen.is_primary or seen.is_complete_on_disk or seen.successors is None or seen.successors:
        return ""
    return f"{seen.what}; it is not ended, because nobody else has all its data: {CONTINUE}"


Check = Callable[[Silent], str]
GUARDS: dict[Guard, Check] = named(
    a_server_that_stops_has_its_time,
    a_server_that_starts_or_loads_is_not_hung,
    a_traced_server_is_left_to_who_traces_it,
    a_hung_server_is_silent_for_long,
    a_server_at_work_is_ended_only_for_a_successor,
    nothing_is_lost_with_a_hung_server,
)

"""May this server start, and as what? Six rules, tried in order; pure.

The danger is a primary that comes back with less than its replicas have: they would throw theirs away. So
when in doubt the gate stays closed, says for whom it waits, and never guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from valkey_operator.api.guards import Guard
from valkey_operator.model.gate import Disk, Lineage, Member, Record, Silence, Start


@dataclass(frozen=True)
class Open:
    """Start, following `primary`; or as the primary, when that is the node itself."""

    primary: str
    rule: str
    note: str = ""


@dataclass(frozen=True)
class Closed:
    """Do not start yet; the reason says for whom or for what, the detail what may be another at every look."""

    rule: Guard
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}" + (f" ({self.detail})" if self.detail else "")


Verdict = Open | Closed


def decide(start: Start) -> Verdict:
    newest = newest_record(start)
    for rule in RULES:
        verdict = rule(start, newest)
        if verdict is not None:
            return verdict
    raise AssertionError("the last rule always answers")


def needs_members(start: Start) -> bool:
    """Only who may become primary has to ask: to follow somebody endangers nobody."""
    return bool(start.members) and start.record.primary in ("", start.node)


def newest_record(start: Start) -> Record:
    answered = (member.record for _, member in _answers(start))
    return max((start.record, *answered), key=lambda record: record.epoch)


def a_replica_may_always_start(start: Start, newest: Record) -> Verdict | None:
    if newest.primary and newest.primary != start.node:
        return Open(newest.primary, "a_replica_may_always_start")
    return None


def a_lone_primary_may_start(start: Start, _newest: Record) -> Verdict | None:
    return None if start.members else Open(start.node, "a_lone_primary_may_start")


def somebody_who_sees_more_has_allowed_it(start: Start, _newest: Record) -> Verdict | None:
    return Open(start.node, "somebody_who_sees_more_has_allowed_it") if start.is_allowed else None


def every_member_must_have_answered(start: Start, _newest: Record) -> Verdict | None:
    """Before anything is concluded from what is on the disk: who is silent may have a newer record."""
    silent = {name: each.reason for name, each in start.members.items() if isinstance(each, Silence)}
    if not silent:
        return None
    return Closed(
        Guard.EVERY_MEMBER_MUST_HAVE_ANSWERED,
        f"waits for an answer of {', '.join(sorted(silent))}, who may be the primary by now",
        "; ".join(f"{name}: {silent[name]}" for name in sorted(silent)),
    )


def a_complete_primary_may_start(start: Start, _newest: Record) -> Verdict | None:
    return Open(start.node, "a_complete_primary_may_start") if start.disk.is_complete else None


def a_living_member_goes_first(start: Start, _newest: Record) -> Verdict | None:
    """Its data is newer than any disk's: it must become primary before this node follows it."""
    living = sorted(name for name, member in _answers(start) if member.is_up and member.has_data)
    if not living:
        return None
    return Closed(
        Guard.A_LIVING_MEMBER_GOES_FIRST,
        f"the last stop was not clean, and newer data lives in {', '.join(living)}: waits until one of them is primary",
    )


def the_fullest_disk_starts(start: Start, _newest: Record) -> Verdict | None:
    rule = Guard.THE_FULLEST_DISK_STARTS
    # A server that is up has loaded its disk; here it holds nothing, even if it has made files for what is to come.
    disks = {name: member.disk for name, member in _answers(start) if not member.is_up}
    disks[start.node] = start.disk
    if not any(disk.has_data for disk in disks.values()):
        return Open(start.node, rule, "no member has any data: starts empty")
    if start.disk.has_append_only_file:
        return Open(start.node, rule)
    lineage = start.lineage if start.lineage.history else Lineage(start.disk.history)
    fullest = max(disks, key=lambda name: _fullness(disks[name], lineage, name == start.node))
    if fullest == start.node:
        return Open(start.node, rule)
    return Closed(rule, f"the disk of {fullest} holds more than this one: waits until {fullest} is primary")


def _answers(start: Start) -> list[tuple[str, Member]]:
    return [(name, member) for name, member in start.members.items() if isinstance(member, Member)]


def _fullness(disk: Disk, lineage: Lineage, is_primary: bool) -> tuple[bool, bool, int, bool]:
    """Data first, then that of the newest history, then how far it goes; the primary itself where all is equal."""
    return disk.has_data, lineage.holds(disk), disk.offset, is_primary


RULES: tuple[Callable[[Start, Record], Verdict | None], ...] = (
    a_replica_may_always_start,
    a_lone_primary_may_start,
    somebody_who_sees_more_has_allowed_it,
    every_member_must_have_answered,
    a_complete_primary_may_start,
    a_living_member_goes_first,
    the_fullest_disk_starts,
)

"""The start gate, rule by rule, and what must hold whatever is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkey_operator.api.guards import Guard
from valkey_operator.model.gate import Disk, Lineage, Member, Record, Silence, Start
from valkey_operator.sidecar.gate import Closed, Open, decide, needs_members

ME = Record(epoch=3, primary="a")
DATA = Disk(has_data=True, history="h", offset=100)
LOG = Disk(has_data=True, has_append_only_file=True)
CLEAN = replace(DATA, was_stopped_cleanly=True)
LIVING = Member(is_up=True, record=ME, has_data=True)
DOWN = Member(record=ME, disk=DATA)
SILENT = Silence("no answer within 2 s")


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        (Start("b", ME), Open("a", "a_replica_may_always_start")),
        (Start("b", ME, members={"a": SILENT}), Open("a", "a_replica_may_always_start")),
        (
            Start("a", ME, CLEAN, {"b": Member(is_up=True, record=Record(4, "b"))}),
            Open("b", "a_replica_may_always_start"),
        ),
        (Start("a", ME), Open("a", "a_lone_primary_may_start")),
        (Start("a", ME, DATA), Open("a", "a_lone_primary_may_start")),
        (Start("a", ME, CLEAN, {"b": LIVING}), Open("a", "a_complete_primary_may_start")),
        (
            Start("a", ME, replace(DATA, is_synced_always=True), {"b": DOWN}),
            Open("a", "a_complete_primary_may_start"),
        ),
        (
            Start("a", ME, DATA, {"b": LIVING}),
            Closed(
                Guard.A_LIVING_MEMBER_GOES_FIRST,
                "the last stop was not clean, and newer data lives in b: waits until one of them is primary",
            ),
        ),
        (
            Start("a", ME, Disk(), {"b": LIVING, "c": DOWN}),
            Closed(
                Guard.A_LIVING_MEMBER_GOES_FIRST,
                "the last stop was not clean, and newer data lives in b: waits until one of them is primary",
            ),
        ),
        (Start("a", ME, DATA, {"b": DOWN}), Open("a", "the_fullest_disk_starts")),
        (
            Start("a", ME, DATA, {"b": replace(DOWN, disk=replace(DATA, offset=101))}),
            Closed(
                Guard.THE_FULLEST_DISK_STARTS,
                "the disk of b holds more than this one: waits until b is primary",
            ),
        ),
        (
            Start("a", ME, Disk(), {"b": DOWN}),
            Closed(
                Guard.THE_FULLEST_DISK_STARTS,
                "the disk of b holds more than this one: waits until b is primary",
            ),
        ),
        (
            Start("a", ME, Disk(), {"b": Member(record=ME)}),
            Open("a", "the_fullest_disk_starts", "no member has any data: starts empty"),
        ),
        # A new replica that was never in sync has made an append-only file all the same.
        (
            Start("a", ME, Disk(), {"b": Member(is_up=True, record=ME, disk=LOG)}),
            Open("a", "the_fullest_disk_starts", "no member has any data: starts empty"),
        ),
        (
            Start("a", ME, Disk(), {"b": Member(record=ME, disk=LOG)}),
            Closed(
                Guard.THE_FULLEST_DISK_STARTS,
                "the disk of b holds more than this one: waits until b is primary",
            ),
        ),
        (
            Start("a", ME, CLEAN, {"b": SILENT, "c": LIVING}),
            Closed(
                Guard.EVERY_MEMBER_MUST_HAVE_ANSWERED,
                "waits for an answer of b, who may be the primary by now",
                "b: no answer within 2 s",
            ),
        ),
        (
            Start("a", ME, DATA, {"b": SILENT}, is_allowed=True),
            Open("a", "somebody_who_sees_more_has_allowed_it"),
        ),
    ],
)
def test_each_rule(start: Start, verdict: Open | Closed) -> None:
    assert decide(start) == verdict


DISKS = st.builds(Disk, *(st.booleans(),) * 4, st.sampled_from(["", "h", "i"]), st.integers(0, 3))
RECORDS = st.builds(Record, st.integers(0, 3), st.sampled_from("abc"))
MEMBERS = st.builds(Member, st.booleans(), RECORDS, st.booleans(), DISKS)
STARTS = st.builds(
    Start, st.just("a"), RECORDS, DISKS, st.dictionaries(st.sampled_from("bc"), st.just(SILENT) | MEMBERS)
)


@given(STARTS)
def test_no_unclean_primary_starts_beside_a_living_member_with_data(start: Start) -> None:
    verdict = decide(start)
    answers = [member for member in start.members.values() if isinstance(member, Member)]
    living = [member for member in answers if member.is_up and member.has_data]
    if isinstance(verdict, Open) and verdict.primary == "a" and living:
        assert start.disk.is_complete


@given(STARTS)
def test_nobody_becomes_primary_against_a_newer_epoch(start: Start) -> None:
    verdict = decide(start)
    answers = [member for member in start.members.values() if isinstance(member, Member)]
    newer = [member for member in answers if member.record.epoch > start.record.epoch]
    if newer and isinstance(verdict, Open) and verdict.primary == "a":
        assert max(newer, key=lambda member: member.record.epoch).record.primary == "a"


@given(STARTS)
def test_nobody_becomes_primary_while_a_member_cannot_be_asked(start: Start) -> None:
    verdict = decide(start)
    if SILENT in start.members.values():
        assert isinstance(verdict, Closed) or verdict.primary != "a"


@given(STARTS)
def test_who_need_not_ask_decides_the_same_whatever_the_others_would_have_said(start: Start) -> None:
    """As far as becoming primary goes: it follows somebody in any case."""
    if start.members and not needs_members(start):
        unasked = replace(start, members=dict.fromkeys(start.members, Silence()))
        verdict = decide(unasked)
        assert isinstance(verdict, Open)
        assert verdict.primary == start.record.primary != start.node


def test_a_lone_node_asks_nobody() -> None:
    assert not needs_members(Start("a", ME))
    assert needs_members(Start("a", ME, members={"b": Silence()}))
    assert not needs_members(Start("b", ME, members={"a": Silence()}))


@pytest.mark.parametrize(
    ("mine", "others", "fullest"),
    [
        # The primary started from its snapshot at 100 and went on as i; only the replica has saved since.
        (Disk(True, history="h", offset=100), Disk(True, history="i", offset=500), "b"),
        # The replica's snapshot is of what was before, and went further than what was taken over.
        (Disk(True, history="i", offset=120), Disk(True, history="h", offset=500), "a"),
        # Of another history altogether.
        (Disk(True, history="i", offset=120), Disk(True, history="x", offset=900), "a"),
        (Disk(True, history="i", offset=120), Disk(True, history="i", offset=120), "a"),
    ],
)
def test_the_fullest_disk_is_that_of_the_newest_history(mine: Disk, others: Disk, fullest: str) -> None:
    start = Start("a", ME, mine, {"b": Member(record=ME, disk=others)}, Lineage("i", "h", 101))
    verdict = decide(start)
    if fullest == "a":
        assert verdict == Open("a", "the_fullest_disk_starts")
    else:
        assert isinstance(verdict, Closed)
        assert "disk of b" in verdict.reason


def test_a_closed_gate_names_its_rule_and_for_whom_it_waits() -> None:
    assert str(decide(Start("a", ME, CLEAN, {"b": SILENT, "c": LIVING}))) == (
        "every_member_must_have_answered: waits for an answer of b, who may be the primary by now "
        "(b: no answer within 2 s)"
    )

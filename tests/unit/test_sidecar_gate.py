"""The start gate, rule by rule, and what must hold whatever is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkey_operator.model.gate import Disk, Member, Record, Start
from valkey_operator.sidecar.gate import Closed, Open, decide

ME = Record(epoch=3, primary="a")
DATA = Disk(has_data=True, history="h", offset=100)
CLEAN = replace(DATA, was_stopped_cleanly=True)
LIVING = Member(is_up=True, record=ME, has_data=True, history="h")
DOWN = Member(record=ME, disk=DATA)


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        (Start("b", ME), Open("a", "a_replica_may_always_start")),
        (Start("b", ME, members={"a": None}), Open("a", "a_replica_may_always_start")),
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
            Closed("was not stopped cleanly, and b has newer data: waits until one is primary"),
        ),
        (
            Start("a", ME, Disk(), {"b": LIVING, "c": DOWN}),
            Closed("was not stopped cleanly, and b has newer data: waits until one is primary"),
        ),
        (Start("a", ME, DATA, {"b": DOWN}), Open("a", "the_fullest_disk_starts")),
        (
            Start("a", ME, DATA, {"b": replace(DOWN, disk=replace(DATA, offset=101))}),
            Closed("the snapshot of b goes further than this one: waits until b is primary"),
        ),
        (
            Start("a", ME, Disk(), {"b": DOWN}),
            Closed("the snapshot of b goes further than this one: waits until b is primary"),
        ),
        (
            Start("a", ME, Disk(), {"b": Member(record=ME)}),
            Open("a", "the_fullest_disk_starts", "no member has any data: starts empty"),
        ),
        (
            Start("a", ME, CLEAN, {"b": None, "c": LIVING}),
            Closed("waits for an answer of b: one of them may be the primary by now"),
        ),
        (
            Start("a", ME, DATA, {"b": None}, is_allowed=True),
            Open("a", "somebody_who_sees_more_has_allowed_it"),
        ),
    ],
)
def test_each_rule(start: Start, verdict: Open | Closed) -> None:
    assert decide(start) == verdict


DISKS = st.builds(Disk, *(st.booleans(),) * 4, st.sampled_from(["", "h", "i"]), st.integers(0, 3))
RECORDS = st.builds(Record, st.integers(0, 3), st.sampled_from("abc"))
MEMBERS = st.builds(Member, st.booleans(), RECORDS, st.just("h"), st.booleans(), DISKS)
STARTS = st.builds(
    Start, st.just("a"), RECORDS, DISKS, st.dictionaries(st.sampled_from("bc"), st.none() | MEMBERS)
)


@given(STARTS)
def test_no_unclean_primary_starts_beside_a_living_member_with_data(start: Start) -> None:
    verdict = decide(start)
    living = [member for member in start.members.values() if member and member.is_up and member.has_data]
    if isinstance(verdict, Open) and verdict.primary == "a" and living:
        assert start.disk.is_complete


@given(STARTS)
def test_nobody_becomes_primary_against_a_newer_epoch(start: Start) -> None:
    verdict = decide(start)
    newer = [
        member for member in start.members.values() if member and member.record.epoch > start.record.epoch
    ]
    if newer and isinstance(verdict, Open) and verdict.primary == "a":
        assert max(newer, key=lambda member: member.record.epoch).record.primary == "a"


@given(STARTS)
def test_nobody_becomes_primary_while_a_member_cannot_be_asked(start: Start) -> None:
    verdict = decide(start)
    if None in start.members.values():
        assert isinstance(verdict, Closed) or verdict.primary != "a"

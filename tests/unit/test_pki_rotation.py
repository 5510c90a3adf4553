"""When which certificate is replaced: single decisions, one table each. What they add up to is in test_pki_years."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pki import DAY, NOW, held
from valkey_operator.pki.rotation import (
    Action,
    AddTrust,
    DropTrust,
    IssueIntermediate,
    IssueLeaf,
    Plan,
    Wish,
    leaf_due,
    plan_circle,
)
from valkey_operator.pki.trust import Circle, Held, Party, Report

HOUR = timedelta(hours=1)
WISH = Wish()


ROOT = held("root", life=3650 * DAY)
NEXT = held("next", issued=NOW + HOUR, life=3650 * DAY)
AUTHORITY = held("authority", "root", life=365 * DAY)
NEWER = held("newer", "next", issued=NOW + 2 * HOUR, life=365 * DAY)


def party(
    name: str = "a",
    leaf: Held | None = None,
    trust: tuple[str, ...] = ("root",),
    shows: str = "",
    loaded: tuple[str, ...] = (),
) -> Party:
    """One that runs and has loaded what is in its Secret, unless told otherwise."""
    found = leaf or held(f"leaf of {name}", "root")
    report = Report(shows or found.thumbprint, frozenset(loaded or trust))
    return Party(name, found, frozenset(trust), True, report)


def circle(*own: Party, others: tuple[Party, ...] = (), roots: tuple[Held, ...] = (ROOT,)) -> Circle:
    return Circle(roots, own, others, AUTHORITY)


def planned(seen: Circle, now: datetime = NOW, wish: Wish = WISH) -> Plan:
    return plan_circle(seen, wish, now)


def summary(plan: Plan) -> list[tuple[str, ...]]:
    """Actions without their reasons."""
    return [_short(action) for action in plan.actions]


def _short(action: Action) -> tuple[str, ...]:
    values = [value for name, value in vars(action).items() if name != "reason"]
    flat = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return type(action).__name__, *flat


def test_a_new_deployment_gets_an_authority_first_and_then_leaves() -> None:
    fresh = Circle((ROOT,), (Party("a"), Party("b")))
    assert summary(planned(fresh)) == [
        ("AddTrust", "a", "root"),
        ("AddTrust", "b", "root"),
        ("IssueIntermediate", "root"),
    ]
    trusting = tuple(replace(each, trust=frozenset({"root"})) for each in fresh.own)
    assert summary(planned(replace(fresh, own=trusting, authority=AUTHORITY))) == [
        ("IssueLeaf", "a", "authority"),
        ("IssueLeaf", "b", "authority"),
    ]


def test_the_operator_is_signed_by_the_root_itself() -> None:
    operator = Circle((ROOT,), (Party("operator"),), has_authority=False)
    assert IssueLeaf("operator", "root", "there is none yet") in planned(operator).actions


def test_at_rest_there_is_nothing_to_do_until_the_first_leaf_is_due() -> None:
    seen = circle(party("a"), party("b"))
    plan = planned(seen)
    first = min(leaf_due(each.name, each.leaf, WISH) for each in seen.own if each.leaf)
    assert plan == Plan(look_again=first)
    assert [action for action in planned(seen, first).actions if isinstance(action, IssueLeaf)]


@given(st.text(max_size=20), st.integers(66, 80), st.timedeltas(timedelta(minutes=1), timedelta(days=9000)))
def test_a_leaf_is_due_at_its_percentage_or_a_little_later(name: str, percent: int, life: timedelta) -> None:
    wish = Wish(leaf_life=life, rotate_percent=percent)
    due = leaf_due(name, held("leaf", "root", life=life), wish)
    assert NOW + life * (percent / 100) <= due <= NOW + life * ((percent + 5) / 100)
    assert due == leaf_due(name, held("leaf", "root", life=life), wish)


def test_leaves_of_many_nodes_are_not_due_at_once() -> None:
    due = [leaf_due(f"cache-0-{index}", held("leaf"), WISH) for index in range(100)]
    assert len({moment.date() for moment in due}) >= 4


def test_a_wish_for_a_shorter_life_counts_for_the_leaf_that_is_there() -> None:
    shorter = replace(WISH, leaf_life=DAY)
    assert summary(planned(circle(party()), NOW + DAY, shorter)) == [("IssueLeaf", "a", "authority")]


@pytest.mark.parametrize("problem", ["tls.key does not belong to tls.crt", "the Secret lacks tls.key"])
def test_what_is_broken_is_issued_again_for_that_reason(problem: str) -> None:
    broken = party(leaf=replace(held("leaf", "root"), fault=problem))
    assert planned(circle(broken)).actions == (IssueLeaf("a", "authority", problem),)
    authority = replace(circle(party()), authority=replace(AUTHORITY, fault=problem))
    assert planned(authority).actions == (IssueIntermediate("root", problem),)


def test_what_has_expired_is_issued_again() -> None:
    expired = circle(party(leaf=held("leaf", "root", life=DAY)))
    assert planned(expired, NOW + DAY).actions == (IssueLeaf("a", "authority", "it has expired"),)


def test_an_authority_is_replaced_before_its_end_and_its_leaves_stay() -> None:
    leaf = held("leaf", "root", issued=NOW + 330 * DAY, life=35 * DAY)
    seen = circle(party(leaf=leaf))
    assert summary(planned(seen, NOW + 335 * DAY)) == [("IssueIntermediate", "root")]
    renewed = held("second", "root", issued=NOW + 335 * DAY, life=365 * DAY)
    assert planned(replace(seen, authority=renewed), NOW + 335 * DAY).actions == ()


def test_an_authority_that_shall_not_be_renewed_is_kept_until_it_has_expired() -> None:
    manual = replace(WISH, auto_rotate=False)
    seen = circle(party(leaf=held("leaf", "root", life=365 * DAY)))
    assert not [step for step in summary(planned(seen, NOW + 364 * DAY, manual)) if "Intermediate" in step[0]]
    assert ("IssueIntermediate", "root") in summary(planned(seen, NOW + 365 * DAY, manual))


def test_nothing_is_issued_again_and_again_below_an_issuer_that_ends() -> None:
    ending = held("root", life=20 * DAY)
    last = held("authority", "root", life=20 * DAY)
    seen = Circle((ending,), (party(leaf=held("leaf", "root", life=20 * DAY)),), (), last)
    assert planned(seen, NOW + 17 * DAY).actions == ()


def test_an_authority_of_short_life_is_not_renewed_all_the_time() -> None:
    short = held("authority", "root", life=9 * DAY)
    seen = replace(circle(party(leaf=held("leaf", "root", life=9 * DAY))), authority=short)
    wish = replace(WISH, authority_life=9 * DAY)
    assert not [
        step for step in planned(seen, NOW + 5 * DAY, wish).actions if isinstance(step, IssueIntermediate)
    ]
    assert IssueIntermediate in map(type, planned(seen, NOW + 6 * DAY, wish).actions)


BOTH = ("root", "next")


def test_a_new_root_is_trusted_by_all_before_it_signs_anything() -> None:
    roots, later = (ROOT, NEXT), NOW + 2 * HOUR
    begun = planned(circle(party("a"), party("b"), roots=roots), later)
    assert summary(begun) == [("AddTrust", "a", "next"), ("AddTrust", "b", "next")]
    assert begun.waiting_for == ("a", "b")
    half = planned(
        circle(party("a", trust=BOTH), party("b", trust=BOTH, loaded=("root",)), roots=roots), later
    )
    assert (half.actions, half.waiting_for) == ((), ("b",))
    full = planned(circle(party("a", trust=BOTH), party("b", trust=BOTH), roots=roots), later)
    assert summary(full) == [("IssueIntermediate", "next")]


def test_others_who_only_listen_must_trust_a_new_root_too() -> None:
    operator = party("operator")
    seen = circle(party("a", trust=BOTH), others=(operator,), roots=(ROOT, NEXT))
    plan = planned(seen, NOW + 2 * HOUR)
    assert (plan.actions, plan.waiting_for) == ((), ("operator",))


def test_one_who_does_not_run_holds_up_nobody() -> None:
    asleep = Party("b", held("leaf of b", "root"), frozenset(BOTH))
    seen = circle(party("a", trust=BOTH), asleep, roots=(ROOT, NEXT))
    assert summary(planned(seen, NOW + 2 * HOUR)) == [("IssueIntermediate", "next")]


def test_one_who_has_just_started_and_said_nothing_is_waited_for() -> None:
    started = Party("b", held("leaf of b", "root"), frozenset(BOTH), is_running=True)
    seen = circle(party("a", trust=BOTH), started, roots=(ROOT, NEXT))
    plan = planned(seen, NOW + 2 * HOUR)
    assert (plan.actions, plan.waiting_for) == ((), ("b",))


def test_one_who_never_answers_is_waited_for_only_until_the_last_call() -> None:
    silent = party("b", trust=BOTH, loaded=("root",))
    seen = circle(party("a", trust=BOTH), silent, roots=(ROOT, NEXT))
    assert ("IssueIntermediate", "next") not in summary(planned(seen, NOW + 3284 * DAY))
    assert ("IssueIntermediate", "next") in summary(planned(seen, NOW + 3285 * DAY))


def test_with_the_new_authority_come_new_leaves() -> None:
    seen = replace(circle(party("a", trust=BOTH), roots=(ROOT, NEXT)), authority=NEWER)
    assert summary(planned(seen, NOW + 3 * HOUR)) == [("IssueLeaf", "a", "newer")]


def switched(shows: str = "new", loaded: tuple[str, ...] = BOTH) -> Circle:
    leaf = held("new", "next", issued=NOW + 2 * HOUR)
    seen = party("a", leaf, BOTH, shows, loaded)
    return replace(circle(seen, roots=(ROOT, NEXT)), authority=NEWER)


def test_an_old_root_is_dropped_after_an_hour_and_when_all_show_new_leaves() -> None:
    early = planned(switched(), NOW + 2.9 * HOUR)
    assert (early.actions, early.look_again) == ((), NOW + 3 * HOUR)
    assert planned(switched(shows="old"), NOW + 99 * HOUR).actions == ()
    assert planned(switched(), NOW + 3 * HOUR).actions == (
        DropTrust("a", ("root",), "nobody shows anything below it"),
    )


def test_an_old_root_is_dropped_at_the_latest_when_it_has_expired() -> None:
    ended = replace(ROOT, not_after=NOW + 4 * HOUR)
    seen = replace(switched(shows="old"), roots=(ended, NEXT))
    assert ("DropTrust", "a", "root") in summary(planned(seen, NOW + 4 * HOUR))


def test_an_old_root_stays_while_the_operator_is_signed_by_it() -> None:
    operator = party("operator", trust=BOTH)
    seen = replace(switched(), others=(operator,))
    assert planned(seen, NOW + 99 * HOUR).actions == ()


def test_a_root_that_is_not_ours_is_dropped_at_once() -> None:
    seen = circle(party(trust=("root", "evil")))
    assert planned(seen).actions == (DropTrust("a", ("evil",), "it is not one of ours"),)


def test_trust_that_was_taken_away_is_put_back_and_stops_nothing() -> None:
    emptied = Party(
        "b", held("leaf of b", "root"), frozenset(), True, Report("leaf of b", frozenset({"root"}))
    )
    seen = circle(party("a"), emptied, roots=(ROOT, NEXT))
    assert summary(planned(seen, NOW + 2 * HOUR)) == [
        ("AddTrust", "a", "next"),
        ("AddTrust", "b", "root", "next"),
    ]


def test_while_a_bundle_is_repaired_its_process_counts_with_what_it_has_loaded() -> None:
    emptied = Party(
        "b", held("leaf of b", "root"), frozenset(), True, Report("leaf of b", frozenset({"root"}))
    )
    seen = circle(party("a", trust=BOTH), emptied, roots=(ROOT, NEXT))
    assert summary(planned(seen, NOW + 2 * HOUR)) == [("AddTrust", "b", "root", "next")]


def test_nobody_goes_back_to_an_older_root() -> None:
    late = Party("b", held("leaf of b", "next"), frozenset(BOTH), is_running=True)
    seen = replace(circle(party("a", held("new", "next"), BOTH), late, roots=(ROOT, NEXT)), authority=NEWER)
    assert planned(seen, NOW + 9 * HOUR).actions == ()


def test_a_root_whose_key_is_lost_stays_trusted_until_all_have_the_next_one() -> None:
    lost = replace(ROOT, fault="its key is lost")
    seen = circle(party("a", trust=BOTH, loaded=("root",)), roots=(lost, NEXT))
    plan = planned(seen, NOW + 2 * HOUR)
    assert (plan.actions, plan.waiting_for) == ((), ("a",))
    assert AddTrust not in map(type, plan.actions)

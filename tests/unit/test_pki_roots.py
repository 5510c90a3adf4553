"""When a root is issued and forgotten, and how long replaced leaves are listed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.pki import DAY, NOW, held
from valkey_operator.pki.rotation import ForgetRoot, IssueRoot, Plan, Replaced, choose_forgotten, plan_root

HOUR = timedelta(hours=1)
ROOT = held("root", life=3650 * DAY)
NEXT = held("next", issued=NOW + HOUR, life=3650 * DAY)


def test_the_first_root_is_issued() -> None:
    assert plan_root((), frozenset(), NOW).actions == (IssueRoot("there is no root yet"),)


def test_a_root_is_left_alone_until_four_fifths_of_its_life() -> None:
    plan = plan_root((ROOT,), frozenset({"root"}), NOW)
    assert plan == Plan(look_again=NOW + 2920 * DAY)
    due = plan_root((ROOT,), frozenset({"root"}), NOW + 2920 * DAY)
    assert due.actions == (IssueRoot("80 % of the root's life are over"),)


def test_a_root_without_its_key_is_followed_by_another_at_once() -> None:
    broken = replace(ROOT, fault="tls.key does not belong to tls.crt")
    plan = plan_root((broken,), frozenset({"root"}), NOW)
    assert plan.actions == (IssueRoot("tls.key does not belong to tls.crt"),)


def test_an_older_root_is_forgotten_once_nobody_trusts_it() -> None:
    assert plan_root((ROOT, NEXT), frozenset({"root", "next"}), NOW + 2 * HOUR).actions == ()
    plan = plan_root((ROOT, NEXT), frozenset({"next"}), NOW + 2 * HOUR)
    assert plan.actions == (ForgetRoot("root", "nobody trusts it any more"),)


def test_replaced_leaves_are_listed_for_seven_days() -> None:
    old = Replaced("old", NOW, NOW + 30 * DAY)
    assert choose_forgotten([old], frozenset(), NOW + 7 * DAY - timedelta(seconds=1)) == frozenset()
    assert choose_forgotten([old], frozenset(), NOW + 7 * DAY) == {"old"}
    assert choose_forgotten([old], frozenset({"old"}), NOW + 8 * DAY) == frozenset()


def test_a_replaced_leaf_that_had_expired_counts_from_then() -> None:
    expired = Replaced("old", NOW + 9 * DAY, NOW)
    assert choose_forgotten([expired], frozenset(), NOW + 7 * DAY) == {"old"}

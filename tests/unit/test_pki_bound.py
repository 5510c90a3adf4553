"""The lists of a ValkeyCertificateBinding."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.pki import DAY, NOW
from valkey_operator.pki.authority import BACKDATED
from valkey_operator.pki.bound import LONGEST_MEMORY, bind, entry
from valkey_operator.pki.trust import Held


def leaf(name: str, at: datetime, life: timedelta = 90 * DAY, secret: str = "a-0-mtls") -> dict[str, Any]:  # noqa: S107
    return entry("mtls", "a-cert-bundle", secret, Held(name, "root", at - BACKDATED, at + life))


def test_what_was_replaced_is_listed_for_a_week() -> None:
    first, second = leaf("first", NOW), leaf("second", NOW + DAY)
    bound = bind({"active": [first]}, [second], frozenset(), NOW + DAY)
    assert (bound.active, bound.deprecated) == ([second], [first])
    status = {"active": bound.active, "deprecated": bound.deprecated}
    assert bind(status, [second], frozenset(), NOW + 7 * DAY).deprecated == [first]
    assert bind(status, [second], frozenset(), NOW + 8 * DAY).deprecated == []


def test_what_somebody_still_shows_stays_listed() -> None:
    first, second = leaf("first", NOW), leaf("second", NOW + DAY)
    status = {"active": [second], "deprecated": [first]}
    assert bind(status, [second], frozenset({"first"}), NOW + 30 * DAY).deprecated == [first]


def test_nothing_changes_while_nothing_happens() -> None:
    first, second = leaf("first", NOW), leaf("second", NOW + DAY)
    bound = bind({"active": [first]}, [second], frozenset(), NOW + DAY)
    status = {"active": bound.active, "deprecated": bound.deprecated}
    assert bind(status, [second], frozenset(), NOW + 2 * DAY) == bound


def test_a_life_of_a_minute_does_not_fill_the_status() -> None:
    status: dict[str, Any] = {}
    for number in range(200):
        now = NOW + timedelta(seconds=40 * number)
        bound = bind(status, [leaf(str(number), now, timedelta(minutes=1))], frozenset(), now)
        status = {"active": bound.active, "deprecated": bound.deprecated}
    assert len(status["deprecated"]) == LONGEST_MEMORY
    assert status["deprecated"][-1]["thumbprint"] == "198"


def test_the_leaf_of_a_node_that_is_gone_is_deprecated() -> None:
    first, other = leaf("first", NOW), leaf("other", NOW, secret="a-1-mtls")  # noqa: S106
    bound = bind({"active": [first, other]}, [first], frozenset(), NOW + DAY)
    assert bound.deprecated == [other]

"""Conditions keep their time until they turn."""

from __future__ import annotations

from datetime import timedelta

from tests.pki import NOW
from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.decide.conditions import Condition, conditions

LATER = NOW + timedelta(hours=1)


def ready(holds: bool | None, message: str = "it serves") -> Condition:
    return Condition(ConditionType.READY, holds, Reason.ALL_NODES_HEALTHY, message)


def test_a_condition_keeps_its_time_while_only_its_words_change() -> None:
    first = conditions({}, [ready(True)], 1, NOW)
    again = conditions({"conditions": first}, [ready(True, "still")], 2, LATER)
    assert again[0]["lastTransitionTime"] == first[0]["lastTransitionTime"] == "2026-05-01T12:00:00Z"
    assert (again[0]["message"], again[0]["observedGeneration"]) == ("still", 2)


def test_one_that_turns_says_when() -> None:
    first = conditions({}, [ready(True)], 1, NOW)
    turned = conditions({"conditions": first}, [ready(False)], 1, LATER)
    assert (turned[0]["status"], turned[0]["lastTransitionTime"]) == ("False", "2026-05-01T13:00:00Z")
    assert conditions({"conditions": turned}, [ready(None)], 1, NOW)[0]["status"] == "Unknown"


def test_what_is_not_said_any_more_goes() -> None:
    assert conditions({"conditions": conditions({}, [ready(True)], 1, NOW)}, [], 1, NOW) == []

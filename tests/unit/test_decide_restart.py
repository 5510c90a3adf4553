"""When a server without replicas is restarted by itself, and what is said when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_decide_support import deployment
from valkey_operator.decide.restart import held_back

NO_VOLUME = {"persistence": {"enabled": False, "rdb": {"enabled": False}}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"persistence": {"rdb": {"enabled": False}, "aof": {"enabled": True}}}, ""),
        ({"persistence": {"rdb": {"enabled": False}}, "config": {"appendonly": True}}, ""),
        ({"persistence": {"rdb": {"enabled": False}}}, "would lose all data"),
        ({"config": {"save": ""}}, "would lose all data"),
        (NO_VOLUME, "would lose all data"),
        ({"update": {"strategy": "OnDelete"}}, "update.strategy is OnDelete"),
        ({"update": {"supervised": True}}, "update.supervised"),
        ({"update": {"window": "0 4 * * *"}}, "update.window"),
    ],
)
def test_a_restart_is_held_back_where_it_is_not_wished_or_loses_data(
    spec: dict[str, Any], words: str
) -> None:
    held = held_back(deployment(**spec), "demo-0-0", has_run=True)
    assert words in held
    assert bool(held) is bool(words)
    assert not words or "delete pod demo-0-0" in held


def test_a_pod_that_never_ran_has_nothing_to_lose() -> None:
    assert held_back(deployment(**NO_VOLUME), "demo-0-0", has_run=False) == ""

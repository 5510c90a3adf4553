"""Whether a server that stops in good order leaves everything on its volume."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_decide_support import deployment
from valkey_operator.decide.keeping import keeps_data


@pytest.mark.parametrize(
    ("spec", "keeps"),
    [
        ({}, True),
        ({"persistence": {"rdb": {"enabled": False}, "aof": {"enabled": True}}}, True),
        ({"persistence": {"rdb": {"enabled": False}}, "config": {"appendonly": True}}, True),
        ({"persistence": {"rdb": {"enabled": False}}}, False),
        ({"config": {"save": ""}}, False),
        ({"config": {"save": [], "appendonly": ["yes"]}}, True),
        ({"persistence": {"enabled": False, "rdb": {"enabled": False}}}, False),
    ],
)
def test_data_is_kept_by_snapshots_or_a_log_on_a_volume(spec: dict[str, Any], keeps: bool) -> None:
    assert keeps_data(deployment(**spec)) is keeps

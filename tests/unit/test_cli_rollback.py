"""`kubectl valkey rollback`: what is set back, and what is left as it is."""

from __future__ import annotations

from typing import Any

import pytest

from valkey_operator.cli.paint import WIDTH
from valkey_operator.cli.rollback import obstacle, shown, way_back
from valkey_operator.render import marks

GOOD: dict[str, Any] = {
    "replicas": 3,
    "image": "valkey/valkey:9.1",
    "config": {"maxmemory-policy": "noeviction"},
    "persistence": {"size": "1Gi"},
}


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (GOOD, {}),
        ({**GOOD, "image": "valkey/valkey:no-such"}, {"image": "valkey/valkey:9.1"}),
        ({**GOOD, "config": {"port": 1, "maxmemory-policy": "noeviction"}}, {"config": {"port": None}}),
        ({**GOOD, "config": None}, {"config": {"maxmemory-policy": "noeviction"}}),
        ({**GOOD, "nodeSelector": {"disk": "none"}}, {"nodeSelector": None}),
        ({**GOOD, "replicas": 5, "paused": True, "persistence": {"size": "2Gi"}}, {}),
        (
            {**GOOD, "persistence": {"size": "2Gi", "aof": {"enabled": True}}},
            {"persistence": {"aof": None}},
        ),
    ],
)
def test_what_a_roll_changes_is_set_back_and_nothing_else(
    now: dict[str, Any], change: dict[str, Any]
) -> None:
    assert way_back(now, GOOD) == change


def test_what_cannot_be_changed_is_left_as_it_is() -> None:
    """It says what was pinned at creation: taking it out is refused, and all else with it."""
    said = {"podManagementType": "statefulset", "persistence": {"enabled": True, "storageClassName": "fast"}}
    assert way_back({"image": "no-such", **said}, {"image": "a"}) == {"image": "a"}
    assert way_back({"image": "no-such"}, {"image": "a", **said}) == {"image": "a"}
    assert way_back({}, {"persistence": {"size": "1Gi", "rdb": {"enabled": False}}}) == {
        "persistence": {"rdb": {"enabled": False}}
    }


@pytest.mark.parametrize("count", ["shards", "replicas"])
def test_with_another_number_of_servers_nothing_is_set_back(count: str) -> None:
    found = {"metadata": {"name": "grid"}, "spec": {"shards": 3, "replicas": 2, count: 5}}
    good = {"shards": 3, "replicas": 2}
    assert obstacle(found, good).startswith(
        f"grid asks for 5 {count}, and asked for {good[count]} when it was well"
    )
    assert obstacle({**found, "spec": good}, good) == ""


def test_a_size_that_was_not_said_before_stays() -> None:
    now = {"persistence": {"size": "2Gi", "rdb": {"enabled": False}}}
    assert way_back(now, {}) == {"persistence": {"rdb": None}}


def test_every_field_is_shown_as_it_is_and_as_it_becomes() -> None:
    image = f"registry.example.org/{'a-long-name/' * 3}valkey:no-such"
    now = {**GOOD, "image": image, "config": {"maxmemory-policy": "allkeys-lru", "io-threads": 9}}
    found = {"kind": "Valkey", "metadata": {"namespace": "prod", "name": "cache"}, "spec": now}
    lines = shown(found, way_back(now, GOOD))
    assert lines == [
        "Valkey prod/cache goes back:",
        "  config.io-threads: 9 becomes unset",
        "  config.maxmemory-policy: allkeys-lru becomes noeviction",
        f"  image: {image}",
        "      becomes valkey/valkey:9.1",
    ]
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("written", [None, "no JSON", "[]", "null"])
def test_a_note_that_is_none_is_none(written: str | None) -> None:
    annotations = {} if written is None else {marks.LAST_GOOD: written}
    assert marks.last_good(annotations) is None
    assert marks.last_good({marks.LAST_GOOD: '{"image": "a"}'}) == {"image": "a"}

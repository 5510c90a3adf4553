"""Conditions that every deployment has, whatever its topology."""

from __future__ import annotations

from typing import Any

import pytest

from valkey_operator.api import layers
from valkey_operator.decide.standing import NodeWord, is_good, standing
from valkey_operator.model.deployment import Deployment


def deployment(**spec: Any) -> Deployment:
    return Deployment("Valkey", "demo", "prod", "uid", layers.effective("Valkey", spec).values)


def word(name: str, reason: str = "", message: str = "", seen: int = 2) -> NodeWord:
    holds = "False" if reason else "True"
    condition = {"type": "ConfigApplied", "status": holds, "reason": reason, "message": message}
    return NodeWord(name, 2, {"observedGeneration": seen, "conditions": [condition]})


def applied(*words: NodeWord) -> tuple[bool | None, str, str]:
    found = standing(deployment(replicas=3), words)[0]
    return found.holds, found.reason, found.message


def test_nothing_is_missing_where_no_node_says_so() -> None:
    said = applied(word("demo-0"), NodeWord("demo-1", 1, {}))
    assert said == (True, "ConfigInForce", "nothing that is asked for waits to be in force")


def test_who_runs_with_something_else_is_named_and_what_is_refused_gives_the_reason() -> None:
    restart = ("RestartNeeded", "databases can be set at the server's start only")
    words = [word("demo-2", *restart), word("demo-1", "ConfigRefused", "no"), word("demo-0", *restart)]
    assert applied(*words) == (
        False,
        "ConfigRefused",
        "demo-0, demo-2: databases can be set at the server's start only; demo-1: no",
    )


def test_a_node_that_has_not_seen_its_newest_spec_does_not_run_with_it() -> None:
    holds, reason, message = applied(word("demo-0", seen=1))
    assert (holds, reason, message.partition(":")[0]) == (False, "ConfigOnItsWay", "demo-0")


@pytest.mark.parametrize(
    ("replicas", "volume", "is_risky"), [(1, False, True), (2, False, False), (1, True, False)]
)
def test_the_only_copy_in_memory_is_warned_of(replicas: int, volume: bool, is_risky: bool) -> None:
    found = standing(deployment(replicas=replicas, persistence={"enabled": volume}), [])[1]
    assert (found.type, found.holds) == ("Warning", is_risky)


READY = {"state": "Ready", "observedGeneration": 3}


@pytest.mark.parametrize(
    ("status", "nodes"),
    [
        (READY, []),
        ({**READY, "state": "Degraded"}, [word("demo-0")]),
        ({**READY, "observedGeneration": 2}, [word("demo-0")]),
        (READY, [word("demo-0"), word("demo-1", "RestartNeeded")]),
        (READY, [NodeWord("demo-0", 2, {"observedGeneration": 2, "needsRestart": True})]),
        (READY, [NodeWord("demo-0", 2, {})]),
    ],
)
def test_what_not_all_run_with_or_is_not_well_is_nothing_to_go_back_to(
    status: dict[str, Any], nodes: list[NodeWord]
) -> None:
    assert not is_good(3, status, nodes)
    assert is_good(3, READY, [word("demo-0"), word("demo-1")])

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


def applied(*words: NodeWord, denied: list[str] | None = None, **status: Any) -> tuple[bool | None, str, str]:
    told = {"observedGeneration": 3, **status}
    found = standing(deployment(replicas=3), 3, told, words, denied or [])[0]
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


def test_after_another_wish_those_are_waited_for_who_have_not_seen_their_newest_spec() -> None:
    """They get one with every change of a primary, too."""
    behind = word("demo-0", seen=1)
    on_its_way = (False, "ConfigOnItsWay", "a change is on its way to the servers")
    assert applied(behind, observedGeneration=2) == on_its_way
    told = {"type": "ConfigApplied", "status": "False", "reason": "ConfigOnItsWay", "message": ""}
    assert applied(behind, conditions=[told]) == on_its_way
    assert applied(word("demo-0"), conditions=[told])[0] is True
    assert applied(behind)[0] is True


def test_what_the_api_server_denies_is_not_in_force() -> None:
    said = applied(word("demo-0"), denied=["ValkeyNode demo-0: exceeded quota"])
    assert said == (False, "DeniedByApiServer", "ValkeyNode demo-0: exceeded quota")


def test_while_it_is_paused_nobody_compares_what_is_asked_for() -> None:
    found = standing(deployment(replicas=3, paused=True), 3, {}, [word("demo-0")])[0]
    assert (found.type, found.status, found.reason) == ("ConfigApplied", "Unknown", "PausedByUser")


@pytest.mark.parametrize(
    ("replicas", "volume", "is_risky"), [(1, False, True), (2, False, False), (1, True, False)]
)
def test_the_only_copy_in_memory_is_warned_of(replicas: int, volume: bool, is_risky: bool) -> None:
    found = standing(deployment(replicas=replicas, persistence={"enabled": volume}), 1, {}, [])[1]
    assert (found.type, found.holds) == ("Warning", is_risky)


APPLIED = [{"type": "ConfigApplied", "status": "True", "reason": "ConfigInForce", "message": ""}]
READY = {"state": "Ready", "observedGeneration": 3, "conditions": APPLIED}


@pytest.mark.parametrize(
    ("status", "nodes"),
    [
        (READY, []),
        ({**READY, "state": "Degraded"}, [word("demo-0")]),
        ({**READY, "observedGeneration": 2}, [word("demo-0")]),
        ({**READY, "conditions": [{**APPLIED[0], "status": "False"}]}, [word("demo-0")]),
        ({**READY, "conditions": []}, [word("demo-0")]),
        (READY, [word("demo-0"), word("demo-1", "RestartNeeded")]),
        (READY, [word("demo-0", seen=1)]),
        (READY, [NodeWord("demo-0", 2, {})]),
    ],
)
def test_what_not_all_run_with_or_is_not_well_is_nothing_to_go_back_to(
    status: dict[str, Any], nodes: list[NodeWord]
) -> None:
    assert not is_good(3, status, nodes)
    assert is_good(3, READY, [word("demo-0"), word("demo-1")])

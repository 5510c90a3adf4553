"""What `kubectl valkey switchover` makes of what it sees."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from valkey_operator.api.requests import SWITCHOVER, SwitchoverRequest
from valkey_operator.cli.command import Answer, Problem
from valkey_operator.cli.main import parser
from valkey_operator.cli.switchover import obstacle, primaries, progress, verdict

REQUEST = SwitchoverRequest("id-1", "demo-1")
Found = dict[str, Any]


def valkey(annotation: str = str(REQUEST), replicas: int = 3, **status: Any) -> Found:
    return {
        "kind": "Valkey", "metadata": {"name": "demo", "annotations": {SWITCHOVER: annotation}},
        "spec": {"replicas": replicas}, "status": status,
    }  # fmt: skip


def answered(result: str, message: str = "", **status: Any) -> Found:
    return valkey(lastSwitchover={"id": "id-1", "result": result, "message": message, "epoch": 5}, **status)


@pytest.mark.parametrize("to", ["", "demo-1"])
def test_a_request_is_read_as_it_was_written(to: str) -> None:
    request = SwitchoverRequest.new(to)
    assert SwitchoverRequest.read(str(request)) == request


def test_no_two_requests_are_the_same() -> None:
    assert SwitchoverRequest.new("demo-1") != SwitchoverRequest.new("demo-1")


@pytest.mark.parametrize("text", ["", "demo-1", "/id-1", "demo-1/", f"any/{'x' * 65}"])
def test_what_is_no_request_is_none(text: str) -> None:
    assert SwitchoverRequest.read(text) is None


def test_nobody_is_asked_for_what_cannot_be() -> None:
    nodes = ["demo-0", "demo-1"]
    assert obstacle(valkey(), nodes, "demo-7") == "demo has no node demo-7; it has: demo-0, demo-1"
    assert obstacle(valkey(replicas=1), nodes, "") == "demo has no replica: there is nobody to hand over to"
    assert obstacle(valkey(), nodes, "demo-1") == ""


def cluster(**status: Any) -> Found:
    shards = [{"shardIndex": i, "primary": f"grid-{i}-0", "ready": True} for i in range(3)]
    return {
        "kind": "ValkeyCluster", "metadata": {"name": "grid"}, "spec": {"shards": 3},
        "status": {"shards": shards, **status},
    }  # fmt: skip


def test_a_cluster_has_a_primary_in_each_shard() -> None:
    nodes = [f"grid-{i}-{k}" for i in range(3) for k in range(3)]
    assert primaries(cluster()) == {"grid-0-0": 0, "grid-1-0": 1, "grid-2-0": 2}
    assert obstacle(cluster(), nodes, "") == "grid has a primary in each shard: name the new one with --to"
    assert obstacle(cluster(), nodes, "grid-7-0").startswith("grid has no node grid-7-0; it has: grid-0-0, ")
    assert obstacle(cluster(), nodes, "grid-1-2") == ""
    lone = {**cluster(), "spec": {"replicas": 1}}
    assert obstacle(lone, nodes, "grid-1-2") == "grid has no replica: there is nobody to hand over to"


def test_the_new_primary_of_a_shard_is_named() -> None:
    request = SwitchoverRequest("id-1", "my-grid-2-1")
    seen = cluster(lastSwitchover={"id": "id-1", "result": "Done", "message": "my-grid-2-1 is primary"})
    assert verdict(seen, request) == Answer("my-grid-2-1 is the primary of shard 2 now")


@pytest.mark.parametrize(
    "seen", [valkey(), answered("UnderWay"), valkey(lastSwitchover={"id": "older", "result": "Done"})]
)
def test_as_long_as_there_is_no_answer_it_waits(seen: Found) -> None:
    assert verdict(seen, REQUEST) is None


def test_the_new_primary_is_named_with_the_pause_it_cost() -> None:
    seen = answered("Done", primary="demo-1", lastFailover={"epoch": 5, "writePauseMs": 212})
    assert verdict(seen, REQUEST) == Answer(
        "demo-1 is the primary now, epoch 5; writes were paused for 212 ms"
    )


def test_the_pause_of_another_change_is_not_told() -> None:
    seen = answered("Done", primary="demo-1", lastFailover={"epoch": 4, "writePauseMs": 212})
    assert verdict(seen, REQUEST) == Answer("demo-1 is the primary now, epoch 5")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            answered("Refused", "replica_is_caught_up: demo-1 is 12 MB behind"),
            "refused, nothing was changed: replica_is_caught_up: demo-1 is 12 MB behind",
        ),
        (answered("Failed", "demo-1 did not catch up in time"), "it failed: demo-1 did not catch up in time"),
        (valkey("any/id-2"), "the request was replaced by another one, or taken back"),
        (valkey(""), "the request was replaced by another one, or taken back"),
    ],
)
def test_a_request_that_comes_to_nothing_says_why(seen: Found, said: str) -> None:
    with pytest.raises(Problem, match=said):
        verdict(seen, REQUEST)


def test_while_it_waits_it_says_what_for() -> None:
    step = {
        "action": "switch over to demo-1",
        "refusedBy": "no_other_operation",
        "why": "a roll is under way",
    }
    waiting = valkey(next=[step, {"action": "nothing held back"}])
    assert list(progress(waiting, REQUEST)) == [
        "switch over to demo-1 is held back by no_other_operation: a roll is under way"
    ]
    under_way = answered("UnderWay", operation={"kind": "Switchover", "step": "writes are paused"})
    assert list(progress(under_way, REQUEST)) == ["writes are paused"]


@pytest.mark.parametrize("words", ["--timeout=0", "--timeout=soon", "--to"])
def test_a_wrong_usage_ends_with_two(words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["switchover", "demo", words])
    assert ended.value.code == 2


def test_it_waits_unless_told_otherwise() -> None:
    def parsed(*words: str) -> argparse.Namespace:
        return parser().parse_args(["switchover", "demo", *words])

    assert parsed().wait
    assert not parsed("--no-wait").wait
    assert parsed("--timeout=90s").timeout == 90.0

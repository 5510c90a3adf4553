"""What `kubectl valkey reshard` and `cancel` make of what a ValkeyCluster says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from valkey_operator.api.deployments import ValkeyClusterStatus
from valkey_operator.api.requests import STOP_RESHARDING
from valkey_operator.cli import cancel, reshard
from valkey_operator.cli.command import Answer
from valkey_operator.cli.main import parser
from valkey_operator.cli.paint import WIDTH
from valkey_operator.decide.resharding import BY_HAND

Found = dict[str, Any]
EVEN = ("0-5461", "5462-10922", "10923-16383")
MEBIBYTE = 1 << 20


def grid(shards: int = 3, owned: tuple[str, ...] = EVEN, stopped: str = "", **status: Any) -> Found:
    each = [
        {
            "shardIndex": index, "primary": f"grid-{index}-0", "ready": True, "slots": slots,
            "usedBytes": 100 * MEBIBYTE, "maxBytes": 400 * MEBIBYTE,
        }
        for index, slots in enumerate(owned)
    ]  # fmt: skip
    told = {"formed": True, "shards": each, **status}
    ValkeyClusterStatus.model_validate(told)
    return {
        "metadata": {
            "name": "grid", "namespace": "prod",
            **({"annotations": {STOP_RESHARDING: stopped}} if stopped else {}),
        },
        "spec": {"shards": shards, "replicas": 2},
        "status": told,
    }  # fmt: skip


def text(found: Found, wished: int) -> str:
    return reshard.shown(found, wished, reshard.plan(found, wished), as_json=False).text


def test_a_plan_names_every_move_and_changes_nothing() -> None:
    shown = text(grid(), 4)
    assert shown.splitlines() == [
        "ValkeyCluster prod/grid: 3 shards own slots, 4 are to",
        "  shard 0 to 3      1366 slots, about 25.0 MiB: 4096-5461",
        "  shard 1 to 3      1365 slots, about 25.0 MiB: 9558-10922",
        "  shard 2 to 3      1365 slots, about 25.0 MiB: 15019-16383",
        "  Every slot of a shard is taken for as large as its others. The operator counts",
        "  their keys first: where these lie unevenly, it moves other slots, of the same",
        "  size in all.",
        "4096 slots move; nothing was changed.",
    ]


def test_the_same_plan_for_programs() -> None:
    found = grid(owned=("0-8191", "8192-16383"))
    answer = reshard.shown(found, 3, reshard.plan(found, 3), as_json=True)
    said = json.loads(answer.text)
    assert (answer.code, said["shards"], said["slots"]) == (0, {"now": 2, "wanted": 3}, 5461)
    assert [(each["from"], each["to"], each["count"]) for each in said["moves"]] == [
        (0, 2, 2730),
        (1, 2, 2731),
    ]


def test_what_is_even_needs_no_move() -> None:
    assert text(grid(), 3).splitlines()[-1] == "Nothing is to move; nothing was changed."


def test_what_does_not_fit_is_said_as_the_operator_would_say_it() -> None:
    full = grid()
    for each in full["status"]["shards"]:
        each["usedBytes"] = 390 * MEBIBYTE
    fourth = {"shardIndex": 3, "primary": "grid-3-0", "ready": False, "usedBytes": 300 * MEBIBYTE}
    full["status"]["shards"].append({**fourth, "maxBytes": 400 * MEBIBYTE})
    planned = reshard.plan(full, 4)
    answer = reshard.shown(full, 4, planned, as_json=False)
    assert answer.code == 1
    assert "! it would be refused: shard 3 has a maxmemory of 400.0 MiB" in answer.text
    assert max(map(len, answer.text.splitlines())) <= WIDTH


def test_slots_without_a_primary_are_left_alone() -> None:
    assert "5461 slots have no primary; they are left alone." in text(grid(owned=(EVEN[0], "", EVEN[2])), 3)


@pytest.mark.parametrize(
    ("found", "wished", "why"),
    [
        (grid(), 2, "spec.shards: "),
        (grid(), 501, "spec.shards: "),
        (grid(formed=False), 4, "grid has not been formed yet: there is nothing to move"),
        (grid(), 4, ""),
    ],
)
def test_a_wish_that_cannot_be_is_refused_before_anything_is_written(
    found: Found, wished: int, why: str
) -> None:
    said = reshard.obstacle(found, wished)
    assert said.startswith(why)
    assert bool(said) is bool(why)


def test_a_shard_without_a_primary_is_named() -> None:
    found = grid()
    del found["status"]["shards"][1]["primary"]
    assert reshard.obstacle(found, 4) == "shard 1 of grid has no primary: nothing moves until it has one"


def test_only_what_differs_is_written() -> None:
    assert reshard.changed(grid(), 3) == {}
    assert reshard.changed(grid(), 4) == {"spec": {"shards": 4}}
    go_on = {"metadata": {"annotations": {STOP_RESHARDING: None}}}
    assert reshard.changed(grid(stopped="3"), 3) == go_on
    assert reshard.changed(grid(stopped="3"), 4) == {"spec": {"shards": 4}, **go_on}


HALF = ("0-4095", "5462-10922", "10923-16383", "4096-5461")
HELD = {"action": "move slots", "refusedBy": BY_HAND, "why": "it was stopped"}


def test_it_has_stopped_when_the_operator_says_so() -> None:
    operation = {"kind": "Scaling", "step": "2730 slots are still to move"}
    assert cancel.verdict(grid(4, HALF, operation=operation)) is None
    assert cancel.verdict(grid(4, HALF, operation=operation, next=[HELD])) is None
    assert cancel.verdict(grid(4, HALF, next=[HELD])) == Answer(
        "stopped, 2730 slots have not moved; `kubectl valkey reshard grid` goes on, with --shards N to another number"
    )


def test_who_stops_too_late_is_told() -> None:
    assert cancel.verdict(grid()) == Answer("every slot of grid had moved before it could be stopped")


@pytest.mark.parametrize("words", [["reshard", "grid", "--shards=few"], ["reshard"], ["cancel"]])
def test_a_wrong_usage_ends_with_two(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2

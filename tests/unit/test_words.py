"""Words that people and scripts look for: each is in one place, some code gives it, and nothing gives another one."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

import valkey_operator
from valkey_operator.api.events import EventReason
from valkey_operator.api.guards import Guard, named
from valkey_operator.api.reasons import ConditionType, Reason, Word
from valkey_operator.api.status import State
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.actions import Why

SOURCE = Path(valkey_operator.__file__).parent
ENUMS: tuple[type[Word], ...] = (ConditionType, EventReason, Guard, Reason, State, Why)
GIVEN: tuple[type[Word], ...] = (ConditionType, EventReason, Guard, Reason, Why)


@functools.cache
def nodes() -> tuple[tuple[Path, ast.AST], ...]:
    """Of all code but the generated."""
    files = [file for file in sorted(SOURCE.rglob("*.py")) if "v1" not in file.parts]
    return tuple((file, node) for file in files for node in ast.walk(ast.parse(file.read_text())))


def taken(enum: type[Word]) -> set[str]:
    """Members that code takes, such as `Guard.A_SERVER_RUNS`."""
    return {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == enum.__name__
    }  # fmt: skip


def named_functions() -> list[str]:
    """Functions that are given as guards, by their own names."""
    return [
        argument.id
        for _, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "named"
        for argument in node.args
        if isinstance(argument, ast.Name)
    ]


@pytest.mark.parametrize("enum", GIVEN)
def test_every_word_is_given_by_some_code(enum: type[Word]) -> None:
    given = taken(enum) | ({name.upper() for name in named_functions()} if enum is Guard else set())
    assert set(enum.__members__) - given == set()


@pytest.mark.parametrize("enum", ENUMS)
def test_no_word_is_there_twice(enum: type[Word]) -> None:
    assert len(enum.__members__) == len(set(enum)) == len({str(word).lower() for word in enum})


@pytest.mark.parametrize("word", [word for enum in ENUMS for word in enum], ids=repr)
def test_a_word_has_a_sentence_that_goes_into_a_longer_one(word: Word) -> None:
    said = [word.sentence, *([word.remedy] if isinstance(word, Guard) else [])]
    for sentence in said:
        assert sentence[0].islower() or sentence[0] == "`", sentence
        assert not sentence.endswith("."), sentence


def test_a_guard_is_called_as_it_is_written() -> None:
    for guard in Guard:
        assert guard.name.lower() == guard.value == f"{guard}"
    assert contract.Outcome(guard=Guard.A_SERVER_RUNS).guard == "a_server_runs"


def test_a_function_that_is_no_guard_cannot_be_named_one() -> None:
    def nobody_knows_this() -> str:
        return ""

    with pytest.raises(KeyError, match="NOBODY_KNOWS_THIS"):
        named(nobody_knows_this)


def test_no_guard_is_written_as_a_bare_string() -> None:
    guards = {str(guard) for guard in Guard}
    found = {
        (file.name, node.value)
        for file, node in nodes()
        if isinstance(node, ast.Constant) and node.value in guards and file.name != "guards.py"
    }
    assert not found


def test_events_are_told_in_one_way_only() -> None:
    found = [
        file.name
        for file, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "event"
    ]
    assert found == ["world.py"]

"""A changed schema is told what stored objects it would refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tools.compatibility import breaks
from valkey_operator.api.crd import structural
from valkey_operator.api.deployments import ValkeySpec
from valkey_operator.api.reasons import ConditionType, Reason

OLD = structural(ValkeySpec)


def _after(change: Callable[[dict[str, Any]], object]) -> list[str]:
    new = copy.deepcopy(OLD)
    change(new)
    return list(breaks(OLD, new, "spec"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["properties"].pop("image"), "spec.image is gone"),
        (lambda s: s.update(required=["image"]), "spec.image becomes required"),
        (lambda s: s["properties"]["replicas"].update(minimum=1), "spec.replicas: minimum goes from 0 to 1"),
        (lambda s: s["properties"]["replicas"].update(maximum=5), "spec.replicas: maximum goes from 20 to 5"),
        (
            lambda s: s["properties"]["paused"].update(type="string"),
            "spec.paused: type goes from boolean to string",
        ),
        (
            lambda s: s["properties"]["imagePullPolicy"].update(enum=["Always"]),
            "spec.imagePullPolicy: enum goes from",
        ),
        (
            lambda s: s["properties"]["image"].update(pattern="^x$"),
            "spec.image: pattern goes from None to ^x$",
        ),
        (lambda s: s["x-kubernetes-validations"].append({"rule": "false"}), "spec: a new rule, false"),
        (
            lambda s: s["properties"]["tolerations"]["items"]["properties"].pop("key"),
            "spec.tolerations[].key is gone",
        ),
    ],
)
def test_a_change_that_refuses_stored_objects_is_named(
    change: Callable[[dict[str, Any]], object], said: str
) -> None:
    (found,) = _after(change)
    assert found.startswith(said)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["properties"].update(new={"type": "string"}),
        lambda s: s["properties"]["replicas"].update(maximum=100),
        lambda s: s["properties"]["imagePullPolicy"]["enum"].append("Later"),
        lambda s: s["properties"]["image"].update(description="other words"),
        lambda s: s["x-kubernetes-validations"].pop(),
    ],
)
def test_a_change_that_only_takes_more_passes(change: Callable[[dict[str, Any]], object]) -> None:
    assert _after(change) == []


def test_every_reason_and_condition_has_its_sentence() -> None:
    for word in [*ConditionType, *Reason]:
        assert word.sentence
        assert word.value.isalpha()
        assert f"{word}" == word.value

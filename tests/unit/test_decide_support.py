"""What the operator refuses to act on, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from valkey_operator.api import layers
from valkey_operator.api.reasons import Reason
from valkey_operator.decide.support import refusal
from valkey_operator.model.deployment import Deployment


def deployment(**spec: Any) -> Deployment:
    return Deployment("Valkey", "demo", "prod", "uid", layers.effective("Valkey", spec).values)


def test_a_plain_one_is_taken() -> None:
    assert refusal(deployment()) is None
    assert refusal(deployment(replicas=1)) is None


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"tls": {"enabled": True}}, "spec.tls"),
        ({"auth": {"password": {"secret": {"name": "a", "key": "b"}}}}, "spec.auth"),
    ],
)
def test_what_cannot_be_done_yet_is_said_and_not_ignored(spec: dict[str, Any], named: str) -> None:
    refused = refusal(deployment(**spec))
    assert refused is not None
    assert refused.reason is Reason.NOT_YET
    assert named in refused.message
    assert "nothing was changed" in refused.message


def test_values_that_cannot_work_are_named_with_their_field() -> None:
    refused = refusal(deployment(config={"no-such-directive": "1"}))
    assert refused is not None
    assert refused.reason is Reason.INVALID_SPEC
    assert "spec.config" in refused.message

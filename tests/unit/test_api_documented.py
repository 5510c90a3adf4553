"""What people read about defaults is what they get."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from valkey_operator.api.crd import structural
from valkey_operator.api.layers import APPLIES, effective

# Said in words, because the value follows from something else.
IN_WORDS = {"image", "persistence.rdb.enabled", "tls.protocols", "terminationGracePeriodSeconds", "quorum"}


def _said(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every field whose description names its default, and the word it names."""
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        words = part.get("description", "")
        if (found := re.search(r"; default (\S+?)[.;,)]?(?:\s|$)", words)) or (
            found := re.search(r"(\S+) \(default\)", words)
        ):
            yield here, found[1]
        yield from _said(part, here)


def _value(values: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(values, dict) or part not in values:
            return None
        values = values[part]
    return values


@pytest.mark.parametrize("kind", ["ValkeyCluster", "Valkey", "Sentinel"])
def test_a_default_that_is_described_is_the_one_in_force(kind: str) -> None:
    values = effective(kind, APPLIES[kind]().dump()).values
    compared = 0
    for path, word in _said(structural(APPLIES[kind])):
        got = _value(values, path)
        if path in IN_WORDS or got is None or isinstance(got, dict | list):
            continue
        shown = {True: "true", False: "false"}[got] if isinstance(got, bool) else str(got)
        assert shown.lower() == word.strip("`").lower(), path
        compared += 1
    assert compared >= 20

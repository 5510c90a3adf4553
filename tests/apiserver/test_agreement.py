"""The types and the API server refuse the same: generated manifests, each judged by both.

Without this, values that only the layers bring together would meet other rules than those people are told.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.apiserver.conftest import Try, manifest
from valkey_operator.api.crd import structural
from valkey_operator.api.kinds import KINDS, Kind

# Words that fields of some form take, and words that none does.
WORDS = ["a", "x-1", "default", "90d", "5s", "0 4 * * *", "9.1", "64mb", "+@all ~*", ">pw", "TLSv1.3",
         "valkey/valkey:9.1", "https://store", "1Gi", "Not A Name", "", "valkey-operator"]  # fmt: skip
AMOUNTS = [0, 1, -1, "0", "1Gi", "250m", "lots", "30000", "5s"]
# Free-form parts, where the types say nothing on purpose.
FREE = {"config", "podTemplate"}
EXAMPLES = int(os.environ.get("AGREEMENT_EXAMPLES", "60"))


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values for a schema: mostly right, wrong at the edges."""
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from(AMOUNTS)
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], "Wrong"])
    match schema["type"]:
        case "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1000)
            return st.sampled_from([low - 1, low, low + 1, high, high + 1])
        case "boolean":
            return st.booleans()
        case "string":
            return st.sampled_from(WORDS)
        case "array":
            return st.lists(values(schema["items"]), min_size=0, max_size=2)
    return objects(schema)


def objects(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "properties" not in schema:
        return st.dictionaries(
            st.sampled_from(["a", "memory"]), values(schema["additionalProperties"]), max_size=2
        )
    parts = {name: part for name, part in schema["properties"].items() if name not in FREE}
    required = {name: values(parts[name]) for name in schema.get("required", [])}

    def with_some(names: list[str]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries({**required, **{name: values(parts[name]) for name in names}})

    return st.lists(st.sampled_from(sorted(parts)), max_size=3, unique=True).flatmap(with_some)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_types_and_api_server_refuse_the_same(refusal: Try, kind: Kind) -> None:
    name = "defaults" if kind.name == "ValkeyClusterDefaults" else "x"

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip
    @given(objects(structural(kind.spec)))
    def agree(spec: dict[str, Any]) -> None:
        try:
            kind.spec.model_validate(spec)
            by_types = None
        except ValidationError as error:
            by_types = str(error)
        by_server = refusal(manifest(kind.name, spec, name))
        assert (by_types is None) == (by_server is None), f"types: {by_types}\nserver: {by_server}"

    agree()

"""The types of the API without a cluster: names on the wire, sizes, what cannot become a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from valkey_operator.api.crd import NotStructuralError, definition, structural
from valkey_operator.api.deployments import ShardStatus, ValkeyClusterSpec, ValkeyClusterStatus
from valkey_operator.api.kinds import GROUP, KINDS, Kind
from valkey_operator.api.model import Model, Rule
from valkey_operator.api.status import State


def _cluster_status(shards: int, replicas: int) -> ValkeyClusterStatus:
    name = "a-cluster-with-a-name-that-is-as-long-as-may-be"
    return ValkeyClusterStatus(
        state=State.READY,
        reason="ClusterHealthy",
        message="All shards healthy, all slots assigned",
        total_shards=shards,
        shards=[
            ShardStatus(
                shard_index=shard,
                primary=f"{name}-{shard}-0",
                replicas=[f"{name}-{shard}-{index}" for index in range(1, replicas)],
                slots="0-5461,10923-16383",
                zone="a-region-1a",
                ready=True,
            )
            for shard in range(shards)
        ],
    )


def test_the_status_of_a_hundred_shards_stays_small() -> None:
    assert len(json.dumps(_cluster_status(100, 3).dump())) < 64 * 1024


def test_fields_are_camel_case_on_the_wire_and_unset_ones_stay_away() -> None:
    spec = ValkeyClusterSpec.model_validate({"podManagementType": "statefulset"})
    assert spec.pod_management_type == "statefulset"
    assert spec.dump() == {"podManagementType": "statefulset", "shards": 3, "replicas": 3}


def test_an_unknown_field_is_refused_by_the_types_too() -> None:
    with pytest.raises(ValidationError, match="replcas"):
        ValkeyClusterSpec.model_validate({"replcas": 3})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_becomes_a_definition(kind: Kind) -> None:
    crd = definition(kind)
    assert crd["metadata"]["name"] == f"{kind.plural_name}.{GROUP}"
    version = crd["spec"]["versions"][0]
    assert version["subresources"]["status"] == {}
    assert ("scale" in version["subresources"]) == (kind.scale is not None)
    assert version["additionalPrinterColumns"][-1]["name"] == "Age"


def test_names_of_kinds_never_meet() -> None:
    names = [name for kind in KINDS for name in (kind.plural_name, kind.name.lower(), kind.short)]
    # ValkeyClusterTls and ValkeyClusterDefaults are their own plural.
    assert len(names) - len(set(names)) == 2


def test_a_field_of_two_types_cannot_become_a_schema() -> None:
    class Torn(Model):
        value: int | str

    with pytest.raises(NotStructuralError, match=r"Torn\.value is one of several types"):
        structural(Torn)


def test_a_rule_names_values_by_format_and_escapes_quotes() -> None:
    rule = Rule("true", "it's %d", ("self.x",))
    assert rule.as_schema()["messageExpression"] == r"'it\'s %d'.format([self.x])"


def _lists(schema: dict[str, Any], path: str) -> list[str]:
    found = [path] if schema.get("type") == "array" and "maxItems" not in schema else []
    parts = {
        **schema.get("properties", {}),
        "[]": schema.get("items"),
        "*": schema.get("additionalProperties"),
    }
    return found + [
        deeper
        for name, part in parts.items()
        if isinstance(part, dict)
        for deeper in _lists(part, f"{path}.{name}")
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_list_has_a_largest_size(kind: Kind) -> None:
    """Rules are priced at the largest size; a list without one has no price."""
    schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert _lists(schema, kind.name) == []

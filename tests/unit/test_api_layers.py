"""What a deployment really gets, and where each value comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkey_operator.api.layers import APPLIES, BUILT_IN, Effective, Layer, Path, effective, lines, pinned

OPERATOR = "defaults of the operator"
NAMESPACE = "defaults of namespace payments"


def test_an_empty_spec_gets_the_built_in_values() -> None:
    result = effective("ValkeyCluster", {"shards": 3, "replicas": 3})
    assert result.values["persistence"]["size"] == "10Gi"
    assert result.origins["persistence", "size"] == "built-in"
    assert result.origins["shards",] == "spec"


def test_each_layer_beats_the_one_below() -> None:
    layers = [Layer(OPERATOR, {"image": "a:1", "labels": {"from": "operator", "team": "x"}}),
              Layer(NAMESPACE, {"image": "b:1", "labels": {"team": "payments"}})]  # fmt: skip
    result = effective("Valkey", {"labels": {"own": "yes"}}, layers)
    assert result.values["image"] == "b:1"
    assert result.origins["image",] == NAMESPACE
    assert result.values["labels"] == {"from": "operator", "team": "payments", "own": "yes"}
    assert result.origins["labels", "from"] == OPERATOR
    assert effective("Valkey", {"image": "c:1"}, layers).origins["image",] == "spec"


def test_null_is_nothing() -> None:
    below = [Layer(NAMESPACE, {"image": "a:1", "tls": {"issuerRef": {"name": "i"}}})]
    spec = {"image": None, "persistence": None, "tls": {"policyRef": None}, "update": {"window": None}}
    assert effective("Valkey", spec, below) == effective("Valkey", {}, below)


def test_lists_replace_and_do_not_merge() -> None:
    defaults = [Layer(NAMESPACE, {"tolerations": [{"key": "a"}, {"key": "b"}]})]
    result = effective("Valkey", {"tolerations": [{"key": "c"}]}, defaults)
    assert result.values["tolerations"] == [{"key": "c"}]


def test_a_kind_gets_only_what_it_has() -> None:
    defaults = [
        Layer(
            NAMESPACE,
            {"persistence": {"size": "1Gi"}, "require": {"tls": True}, "cluster": {"nodeTimeout": "9s"}},
        )
    ]
    sentinel = effective("Sentinel", {"replicas": 3}, defaults).values
    assert not sentinel.keys() & {"persistence", "require", "cluster"}
    assert effective("ValkeyCluster", {}, defaults).values["cluster"]["nodeTimeout"] == "9s"


@pytest.mark.parametrize(("replicas", "quorum"), [(1, 1), (3, 2), (4, 3), (5, 3)])
def test_the_quorum_follows_the_number_of_sentinels(replicas: int, quorum: int) -> None:
    result = effective("Sentinel", {"replicas": replicas})
    assert result.values["quorum"] == quorum
    assert result.origins["quorum",] == "from replicas"
    assert effective("Sentinel", {"replicas": 5, "quorum": 5}).values["quorum"] == 5


def test_snapshots_follow_the_volume_unless_somebody_says_otherwise() -> None:
    cache = effective("Valkey", {"persistence": {"enabled": False}})
    assert cache.values["persistence"]["rdb"]["enabled"] is False
    assert effective("Valkey", {}).values["persistence"]["rdb"]["enabled"] is True
    said = effective("Valkey", {"persistence": {"enabled": False, "rdb": {"enabled": True}}})
    assert said.origins["persistence", "rdb", "enabled"] == "spec"


def test_defaults_that_change_do_not_change_what_was_given_at_creation() -> None:
    at_creation = pinned(effective("Valkey", {"persistence": {"size": "1Gi"}}).values)
    assert at_creation == {"podManagementType": "statefulset", "persistence": {"enabled": True}}
    changed = {
        "podManagementType": "deployment",
        "persistence": {"enabled": False, "storageClassName": "fast", "size": "2Gi"},
    }
    result = effective("Valkey", {}, [Layer(NAMESPACE, changed)], at_creation)
    assert pinned(result.values) == at_creation
    assert result.values["persistence"]["rdb"]["enabled"] is True
    assert result.values["persistence"]["size"] == "2Gi"
    assert result.origins["persistence", "enabled"] == "pinned at creation"
    assert _paths(result) == set(result.origins)


def test_a_storage_class_of_creation_stays() -> None:
    at_creation = {"persistence": {"enabled": True, "storageClassName": "fast"}}
    below = [Layer(NAMESPACE, {"persistence": {"storageClassName": "slow"}})]
    assert effective("Valkey", {}, below, at_creation).values["persistence"]["storageClassName"] == "fast"


def test_sentinels_keep_nothing_and_pin_how_they_are_run() -> None:
    assert pinned(effective("Sentinel", {}).values) == {"podManagementType": "statefulset"}


def test_a_policy_drops_everything_else_from_below() -> None:
    below = [Layer(NAMESPACE, {"tls": {"certificateRef": {"name": "c"}, "port": 6380}})]
    result = effective("Valkey", {"tls": {"policyRef": {"name": "p"}}}, below)
    assert set(result.values["tls"]) == {"enabled", "policyRef"}
    assert _paths(result) == set(result.origins)


def test_a_secret_drops_the_issuer_and_what_is_for_the_own_ca_from_below() -> None:
    below = [Layer(NAMESPACE, {"tls": {"issuerRef": {"name": "i"}}})]
    result = effective("Valkey", {"tls": {"certificateRef": {"name": "c"}}}, below)
    assert not result.values["tls"].keys() & {"issuerRef", "validity", "rotateBeforePercent"}
    assert _paths(result) == set(result.origins)


def test_users_by_policy_drop_listed_ones_from_below() -> None:
    below = [Layer(NAMESPACE, {"auth": {"acl": {"users": [{"name": "a"}]}}})]
    result = effective("Valkey", {"auth": {"aclRef": {"name": "company"}}}, below)
    assert "acl" not in result.values["auth"]


def _paths(result: Effective) -> set[Path]:
    def walk(tree: dict[str, Any], path: Path) -> set[Path]:
        found = set()
        for key, value in tree.items():
            here = (*path, key)
            found |= walk(value, here) if isinstance(value, dict) else {here}
        return found

    return walk(result.values, ())


def test_names_with_dots_have_an_origin_too() -> None:
    below = [Layer(NAMESPACE, {"labels": {"team.example/of": "x"}})]
    result = effective("Valkey", {"labels": {"a.b": "1", "a": "2"}, "nodeSelector": {"k8s.io/x": "y"}}, below)
    shown = {path: (value, origin) for path, value, origin in lines(result)}
    assert shown['labels["team.example/of"]'] == ("x", NAMESPACE)
    assert shown['labels["a.b"]'] == ("1", "spec")
    assert shown["labels.a"] == ("2", "spec")
    assert shown['nodeSelector["k8s.io/x"]'] == ("y", "spec")


@pytest.mark.parametrize(("below", "above"), [({"deep": "1"}, "2"), ("1", {"deep": "2"})])
def test_a_value_of_another_sort_replaces_the_one_below_and_its_origins(below: Any, above: Any) -> None:
    result = effective(
        "Valkey", {"config": {"timeout": above}}, [Layer(NAMESPACE, {"config": {"timeout": below}})]
    )
    assert result.values["config"] == {"timeout": above}
    assert [row[1:] for row in lines(result) if row[0].startswith("config")] == [("2", "spec")]


@pytest.mark.parametrize("kind", APPLIES)
def test_what_an_empty_spec_gets_is_valid(kind: str) -> None:
    """The built-in layer itself keeps every rule of the types."""
    APPLIES[kind].model_validate(effective(kind, {}).values)


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from(["a:1", "b:2"]),
        "labels": st.dictionaries(st.sampled_from(["a", "b", "a.b"]), st.sampled_from("xyz")),
        "persistence": st.fixed_dictionaries({}, optional={"size": st.sampled_from(["1Gi", "2Gi"])}),
        "tls": st.sampled_from(
            [{"enabled": True}, {"policyRef": {"name": "p"}}, {"issuerRef": {"name": "i"}}]
        ),
    },
)


@given(SPECS, SPECS, SPECS)
def test_every_value_has_an_origin_and_the_spec_always_wins(
    operator: dict[str, Any], namespace: dict[str, Any], spec: dict[str, Any]
) -> None:
    result = effective("Valkey", spec, [Layer(OPERATOR, operator), Layer(NAMESPACE, namespace)])
    assert _paths(result) == set(result.origins)
    for path, _, origin in lines(result):
        assert origin in {"built-in", OPERATOR, NAMESPACE, "spec", "from persistence.enabled"}, path
    if "image" in spec:
        assert result.values["image"] == spec["image"]


def test_the_built_in_layer_is_never_changed_by_use() -> None:
    before = repr(BUILT_IN)
    effective("Valkey", {"persistence": {"size": "1Gi"}, "tls": {"policyRef": {"name": "p"}}})
    assert repr(BUILT_IN) == before

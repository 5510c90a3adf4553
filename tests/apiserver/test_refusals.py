"""What the API server refuses by itself, and the sentence it says. The cases are in refused.yaml and fixed.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.api import Api, ApiError
from devcluster.cluster import Cluster
from tests.apiserver.conftest import PLURALS, Try, manifest
from valkey_operator.api.kinds import GROUP, VERSION

HERE = Path(__file__).parent
FIXED = yaml.safe_load((HERE / "fixed.yaml").read_text())
CASES = [
    (kind, entry["spec"], entry["says"])
    for entry in yaml.safe_load((HERE / "refused.yaml").read_text())
    for kind in entry["kinds"]
]


def test_the_tables_are_as_long_as_promised() -> None:
    assert len(CASES) + len(FIXED) >= 200


@pytest.mark.parametrize(("kind", "spec", "says"), CASES)
def test_nonsense_is_refused_with_a_sentence(
    refusal: Try, kind: str, spec: dict[str, Any], says: str
) -> None:
    answer = refusal(manifest(kind, spec))
    assert answer is not None, "it was accepted"
    assert says in answer


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (
            "ValkeyCluster",
            "c" * 49,
            "is too long: <name>-<shard>-<index> and what hangs on it must fit 63 letters",
        ),
        ("Valkey", "v" * 53, "so use at most 52"),
        ("ValkeyClusterDefaults", "mine", "the name is mine; defaults count only under the name defaults"),
    ],
)
def test_a_name_that_cannot_work_is_refused(refusal: Try, kind: str, name: str, says: str) -> None:
    answer = refusal(manifest(kind, {}, name))
    assert answer is not None
    assert says in answer


@pytest.mark.parametrize("case", FIXED, ids=lambda case: f"{case['kind']} {case['says']}")
def test_what_cannot_change_is_refused(crds: Cluster, api: Api, namespace: str, case: dict[str, Any]) -> None:
    created = manifest(case["kind"], case["spec"])
    crds.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(created))
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURALS[case['kind']]}/x"
    with pytest.raises(ApiError) as refused:
        api.patch(path, {"spec": case["change"]})
    assert case["says"] in str(refused.value)


def test_what_the_layering_gave_at_creation_cannot_be_overridden(
    crds: Cluster, api: Api, namespace: str
) -> None:
    crds.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest("Valkey", {})))
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/valkeys/x"
    pinned = {
        "podManagementType": "statefulset",
        "persistence": {"enabled": True, "storageClassName": "fast"},
    }
    api.patch(f"{path}/status", {"status": {"pinned": pinned}})
    refusals: list[tuple[dict[str, Any], str]] = [
        (
            {"podManagementType": "deployment"},
            "podManagementType is deployment; it was statefulset at creation",
        ),
        ({"persistence": {"enabled": False}}, "persistence.enabled is false; it was true at creation"),
        ({"persistence": {"storageClassName": "slow"}}, "storageClassName is slow; it was fast at creation"),
    ]
    for change, says in refusals:
        with pytest.raises(ApiError) as refused:
            api.patch(path, {"spec": change})
        assert says in str(refused.value)
    api.patch(path, {"spec": {"podManagementType": "statefulset", "persistence": {"enabled": True}}})


def test_a_storage_class_that_was_not_asked_for_at_creation_is_not_asked_for_later(
    crds: Cluster, api: Api, namespace: str
) -> None:
    """It could not be taken back."""
    crds.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest("Valkey", {})))
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/valkeys/x"
    api.patch(f"{path}/status", {"status": {"pinned": {"persistence": {"enabled": True}}}})
    with pytest.raises(ApiError, match="storageClassName is fast; none was asked for at creation"):
        api.patch(path, {"spec": {"persistence": {"storageClassName": "fast"}}})
    api.patch(path, {"spec": {"persistence": {"enabled": True}}})


def test_a_platform_team_may_lower_a_default_size(crds: Cluster, api: Api, namespace: str) -> None:
    defaults = manifest("ValkeyClusterDefaults", {"persistence": {"size": "20Gi"}}, "defaults")
    crds.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(defaults))
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/valkeyclusterdefaults/defaults"
    changed = api.patch(path, {"spec": {"persistence": {"size": "10Gi"}}})
    assert changed["spec"]["persistence"]["size"] == "10Gi"

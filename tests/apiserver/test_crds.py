"""The CRDs as a cluster sees them: established, explained, scaled, merged, strict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.api import Api
from devcluster.cluster import Cluster
from devcluster.command import CommandFailed
from tests.apiserver.conftest import Try, manifest, samples
from valkey_operator.api.crd import definition
from valkey_operator.api.kinds import CATEGORY, GROUP, KINDS, VERSION, Kind


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.stem)
def test_every_sample_is_accepted(crds: Cluster, sample: Path) -> None:
    crds.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", sample)


def test_every_kind_has_a_sample_unless_the_operator_alone_writes_it() -> None:
    shown = {part["kind"] for path in samples() for part in yaml.safe_load_all(path.read_text())}
    ours = {"ValkeyNode", "ValkeyCA", "ValkeyCertificateBundle", "ValkeyCertificateBinding"}
    assert {kind.name for kind in KINDS} - ours <= shown


def _undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        if not part.get("description", "").strip():
            yield f"{path}.{name}"
        yield from _undescribed(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _undescribed(schema[key], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_is_explained(kind: Kind) -> None:
    schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = {name: schema["properties"][name] for name in ("spec", "status")}
    assert list(_undescribed({"properties": parts}, kind.name)) == []


def test_kubectl_explains_a_field_in_our_words(crds: Cluster) -> None:
    shown = " ".join(crds.kubectl("explain", "valkeycluster.spec.persistence.size").split())
    assert "May grow where the storage class allows it, never shrink." in shown


def test_kubectl_knows_short_names_and_the_category(crds: Cluster) -> None:
    listed = crds.kubectl("api-resources", f"--api-group={GROUP}", "--output=wide", "--no-headers")
    rows = {line.split()[-3]: line.split() for line in listed.splitlines()}
    assert len(rows) == len(KINDS)
    crds.kubectl("get", CATEGORY, "-A")
    for kind in KINDS:
        crds.kubectl("get", kind.short, "-A")


def test_scale_works_on_all_four_deployments(crds: Cluster, namespace: str) -> None:
    specs: dict[str, dict[str, Any]] = {
        "ValkeyCluster": {},
        "Valkey": {},
        "ValkeyPool": {"template": {}},
        "Sentinel": {},
    }
    for kind, spec in specs.items():
        crds.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest(kind, spec, "scaled")))
        crds.kubectl("scale", "-n", namespace, f"{kind.lower()}/scaled", "--replicas=5")
        found = json.loads(crds.kubectl("get", "-n", namespace, f"{kind.lower()}/scaled", "-o", "json"))
        field = "shards" if kind in ("ValkeyCluster", "ValkeyPool") else "replicas"
        assert found["spec"][field] == 5
    with pytest.raises(CommandFailed, match="greater than or equal to 3"):
        crds.kubectl("scale", "-n", namespace, "valkeycluster/scaled", "--replicas=2")


def test_two_managers_own_two_users_of_one_list(crds: Cluster, namespace: str) -> None:
    for manager in ("team-a", "team-b"):
        user = {"name": manager, "permissions": "+@read ~*", "passwordSecret": {"name": "pw", "key": manager}}
        text = json.dumps(manifest("Valkey", {"auth": {"acl": {"users": [user]}}}, "shared"))
        crds.kubectl(
            "apply", "-n", namespace, "--server-side", f"--field-manager={manager}", "-f", "-", stdin=text
        )
    found = json.loads(crds.kubectl("get", "-n", namespace, "valkey/shared", "-o", "json"))
    assert [user["name"] for user in found["spec"]["auth"]["acl"]["users"]] == ["team-a", "team-b"]


def test_an_unknown_field_is_refused_by_name(refusal: Try) -> None:
    said = refusal(manifest("Valkey", {"replcas": 3}))
    assert said is not None
    assert 'unknown field "spec.replcas"' in said


def test_only_the_counts_have_defaults_in_the_schema(api: Api, crds: Cluster, namespace: str) -> None:
    crds.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest("ValkeyCluster", {}, "bare")))
    stored = api.get(f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/valkeyclusters/bare")
    assert stored["spec"] == {"shards": 3, "replicas": 3}

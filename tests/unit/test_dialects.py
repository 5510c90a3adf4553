"""Manifests of other dialects, and what becomes of them: `tests/fixtures/dialects/` and `tests/golden/dialects/`.

After a change that is meant: GOLDEN=write uv run pytest tests/unit/test_dialects.py, and read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from valkey_operator.api.kinds import KINDS
from valkey_operator.cli.main import parser
from valkey_operator.dialects import acceptance
from valkey_operator.dialects.convert import Converted, convert
from valkey_operator.dialects.memory import NOTE
from valkey_operator.dialects.reading import BadManifest, read
from valkey_operator.render.server_config import SHARE_ALONE, SHARE_WITH_COPIES

FIXTURES = Path(__file__).parents[1] / "fixtures" / "dialects"
GOLDEN = Path(__file__).parents[1] / "golden" / "dialects"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.yaml"))
SPECS = {kind.name: kind.spec for kind in KINDS}
DRAFT = {"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster"}
SMOKETURNER = {"apiVersion": "valkey-operator.smoketurner.com/v1alpha1", "kind": "ValkeyCluster"}
Found = dict[str, Any]


def objects(converted: Converted) -> list[Found]:
    return [found for found in yaml.safe_load_all(converted.text) if found]


def turned(top: Found, spec: Any, chosen: str | None = None, **metadata: Any) -> Converted:
    manifest = {**top, "metadata": {"name": "x", **metadata}, "spec": spec}
    return convert(read(json.dumps(manifest), "x.yaml"), chosen)


def spec_of(converted: Converted) -> Found:
    spec: Found = objects(converted)[-1]["spec"]
    return spec


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_becomes_what_a_person_has_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES)
    options = parser().parse_args(["convert", "-f", f"{name}.yaml"])
    answer = options.run(options)
    said = f"{answer.text}\n=== exit code {answer.code}\n{answer.told}".rstrip() + "\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(said)
    assert said == file.read_text()


def test_every_golden_file_has_its_manifest() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_was_converted_is_of_this_api_and_stays_as_it_is(name: str) -> None:
    first = convert(read((FIXTURES / f"{name}.yaml").read_text(), name))
    for found in objects(first):
        if found["apiVersion"] == "valkey.io/v1alpha1":
            SPECS[found["kind"]].model_validate_json(json.dumps(found["spec"]), strict=True)
    again = convert(read(first.text, name), "this")
    assert again.text == first.text
    assert not again.lost


@pytest.mark.parametrize("name", NAMES)
def test_a_password_that_stood_in_a_manifest_is_nowhere_but_in_secrets(name: str) -> None:
    converted = convert(read((FIXTURES / f"{name}.yaml").read_text(), name))
    for part in converted.text.split("\n---\n"):
        assert "inline-" not in part or "kind: Secret" in part
    assert "inline-" not in "".join([*converted.notes, *converted.lost])


@pytest.mark.parametrize(
    ("spec", "moved"),
    [
        ({"masterCount": 3, "acl": {"users": [{"name": "u", "password": "inline-a"}]}}, True),
        ({"masterCount": 3, "acl": {"users": [{"name": "u", "acl": "+@read >inline-a"}]}}, False),
        ({"shards": 3, "users": [{"name": "u", "resetpass": True, "permissions": "+@read >inline-a"}]}, True),
        ({"shards": 3, "users": [], "config": {"requirepass": "inline-a"}}, True),
        ({"shards": 3, "auth": {}, "config": {"requirepass": "inline-a"}}, False),
        ({"shards": 3, "auth": {"acl": {"users": [{"name": "u", "permissions": ">inline-a"}]}}}, False),
    ],
)
def test_a_password_is_moved_to_a_secret_or_told_as_come_from_elsewhere_says(
    spec: Found, *, moved: bool
) -> None:
    converted = turned(DRAFT, spec)
    assert (converted.text != "", bool(converted.lost)) == (moved, not moved)


SECRETS = st.integers(0, 10**6).map(lambda number: f"hush{number}hush")
NOISE = st.sampled_from(["a", "on", "8.1", 3, True, None, ["x"], {"y": 1}])


def draft_specs() -> st.SearchStrategy[Found]:
    users = st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["app", "", "other", "odd name", "app"]),
            "password": SECRETS,
            "acl": st.just("+@read"),
            "pass": SECRETS,
        },
    )
    acl = st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "users": st.lists(users, max_size=4)})
    return st.fixed_dictionaries(
        {"masterCount": st.integers(0, 9)},
        optional={
            "clusterType": st.sampled_from(["cluster", "sentinel", "ring"]),
            "replicasPerMaster": st.integers(0, 3),
            "acl": acl | st.just("policy"),
            "clusterPassword": SECRETS,
            "clusterPasword": SECRETS,
            "tls": NOISE,
            "pvc": NOISE,
            "exporter": NOISE,
            "sidecarImage": NOISE,
        },
    )


def official_specs() -> st.SearchStrategy[Found]:
    users = st.fixed_dictionaries(
        {"name": st.sampled_from(["app", "default", "b c", "valkey-operator"])},
        optional={
            "permissions": SECRETS.map(lambda secret: f"+@read >{secret} ~*")
            | SECRETS.map(lambda secret: f">{secret} >{secret}1 #{secret}"),
            "nopass": st.booleans(),
            "resetpass": st.booleans(),
            "enabled": st.booleans(),
            "password": SECRETS,
        },
    )
    config = st.fixed_dictionaries(
        {},
        optional={
            "requirepass": SECRETS,
            "masterauth": SECRETS,
            "primaryauth": SECRETS,
            "tls-key-file-pass": SECRETS,
            "user": SECRETS.map(lambda secret: f"app on >{secret}"),
            "maxmemory": NOISE,
        },
    )
    return st.fixed_dictionaries(
        {"shards": st.integers(1, 5), "workloadType": NOISE},
        optional={
            "users": st.lists(users, max_size=3),
            "config": config,
            "containers": SECRETS.map(lambda secret: [{"name": "server", "env": [{"value": secret}]}]),
            "exporter": SECRETS.map(lambda secret: {"enabled": True, "args": [secret]}),
            "scheduling": NOISE,
            "networking": NOISE,
        },
    )


def smoketurner_specs() -> st.SearchStrategy[Found]:
    return st.fixed_dictionaries(
        {"masters": st.integers(1, 9)},
        optional={
            "auth": SECRETS.map(lambda secret: {"secretRef": {"name": "pw"}, "password": secret}),
            "metricsExporter": SECRETS.map(lambda secret: {"enabled": True, "extraEnv": {"A": secret}}),
            "password": SECRETS,
            "image": NOISE,
            "tls": NOISE,
        },
    )


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(st.just(DRAFT), draft_specs())
    | st.tuples(st.just(DRAFT), official_specs())
    | st.tuples(st.just(SMOKETURNER), smoketurner_specs())
)
def test_whatever_stands_in_a_manifest_no_password_leaves_the_secrets(drawn: tuple[Found, Found]) -> None:
    top, spec = drawn
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(spec)}
    converted = turned(top, spec, "official", annotations=applied)
    told = "".join([*converted.notes, *converted.lost])
    for part in converted.text.split("\n---\n"):
        assert "hush" not in part or "\nkind: Secret\n" in part
    assert "hush" not in told
    for found in objects(converted):
        if found["kind"] in SPECS:
            SPECS[found["kind"]].model_validate_json(json.dumps(found["spec"]), strict=True)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"shards": 3, "replicas": 1}, "has only fields that both know"),
        ({"shards": 3, "tolerations": [], "config": {}}, "has only fields that both know"),
        ({"shards": 3, "users": [], "auth": {}}, "mixes their fields"),
    ],
)
def test_a_cluster_that_two_could_have_written_is_not_guessed_at(spec: Found, why: str) -> None:
    with pytest.raises(BadManifest) as told:
        turned(DRAFT, spec)
    assert str(told.value) == (
        "x.yaml:1: the ValkeyCluster x may be the official operator's, whose replicas leave the primary out, "
        f"or this one's: it {why}; say --from official or --from this"
    )


def test_who_says_whose_it_is_is_believed() -> None:
    spec = {"shards": 3, "replicas": 1}
    assert spec_of(turned(DRAFT, spec, "official"))["replicas"] == 2
    assert spec_of(turned(DRAFT, spec, "this"))["replicas"] == 1


def test_what_can_be_told_is_told_without_help() -> None:
    assert spec_of(turned(DRAFT, {"shards": 3, "replicas": 3, "auth": {}}, "official"))["replicas"] == 3
    assert spec_of(turned(DRAFT, {"shards": 3, "replicas": 1, "users": []}, "this"))["replicas"] == 2


RACK = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
HOSTS = {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
HOST_IS_TAKEN = (
    "a pod can have one constraint with kubernetes.io/hostname and DoNotSchedule, and there is one already"
)


@pytest.mark.parametrize(
    ("given", "modes", "made", "left_out"),
    [
        ([RACK], {"shard": "Required", "pods": "Required"}, [RACK, {**HOSTS, "maxSkew": 1}], "pods"),
        ([RACK, HOSTS], {"shard": "Required"}, [RACK, HOSTS], "shard"),
    ],
)
def test_a_spread_that_is_there_already_is_left_out_and_the_users_own_are_kept(
    given: list[Found], modes: dict[str, str], made: list[Found], left_out: str
) -> None:
    spread = {dimension: {"mode": mode} for dimension, mode in modes.items()}
    scheduling = {"node": {"spread": spread}, "topologySpreadConstraints": given}
    converted = turned(DRAFT, {"shards": 3, "scheduling": scheduling}, "official")
    assert spec_of(converted)["topologySpreadConstraints"] == made
    place = f"x.yaml:1: ValkeyCluster x: spec.scheduling.node.spread.{left_out}"
    assert converted.lost == [f"{place}: {HOST_IS_TAKEN}"]


def test_spreads_of_another_strictness_stand_beside_each_other() -> None:
    spread = {"shard": {"mode": "Preferred"}, "pods": {"mode": "Required"}}
    scheduling = {"node": {"spread": spread}, "zone": {"spread": spread}}
    converted = turned(DRAFT, {"shards": 3, "scheduling": scheduling}, "official")
    assert len(spec_of(converted)["topologySpreadConstraints"]) == 4
    assert converted.lost == []


@pytest.mark.parametrize(
    ("top", "spec", "guard"),
    [
        (DRAFT, {"shards": 3, "cluster": {}, "tls": {"enabled": "certainly"}}, "tls"),
        (DRAFT, {"shards": 3, "cluster": {}, "auth": {"acl": 3}}, "auth"),
        (DRAFT, {"masterCount": 3, "clusterPassword": True}, "auth"),
        (DRAFT, {"masterCount": 3, "acl": {"enabled": True}}, "auth"),
        (DRAFT, {"masterCount": 3, "tls": 3}, "tls"),
        (DRAFT, {"shards": 3, "workloadType": "StatefulSet", "networking": {"tls": {}}}, "tls"),
        (DRAFT, {"shards": 3, "workloadType": "StatefulSet", "config": {"requirepass": True}}, "auth"),
        (DRAFT, {"shards": 3, "users": [{"name": "valkey-operator"}]}, "auth"),
        (SMOKETURNER, {"tls": {"issuerRef": {"name": "issuer"}}}, "auth"),
        (SMOKETURNER, {"auth": {"secretRef": {"name": "pw"}}}, "tls"),
        (
            {**DRAFT, "kind": "ValkeyPool"},
            {"template": {"replicas": 2, "tls": {"enabled": "certainly", "port": 6380}}},
            "tls",
        ),
    ],
)
def test_a_deployment_that_would_lose_what_keeps_strangers_out_is_not_made(
    top: Found, spec: Found, guard: str
) -> None:
    converted = turned(top, spec)
    assert converted.text == ""
    assert converted.lost[-1].endswith(f"spec.{guard}: nothing was made: without it strangers could get in")


def test_what_is_less_than_nothing_is_no_count() -> None:
    converted = turned(DRAFT, {"masterCount": 3, "replicasPerMaster": -1})
    assert spec_of(converted)["replicas"] == 2
    assert converted.lost == [
        "x.yaml:1: ValkeyCluster x: spec.replicasPerMaster: it has to be a whole number"
    ]


def test_an_amount_too_large_for_us_is_left_out_and_told() -> None:
    required = {"tls": {"issuerRef": {"name": "i"}}, "auth": {"secretRef": {"name": "pw"}}}
    converted = turned(SMOKETURNER, {"masters": 600, **required})
    assert "shards" not in spec_of(converted)
    assert (
        "x.yaml:1: ValkeyCluster x: spec.shards: Input should be less than or equal to 500" in converted.lost
    )


@pytest.mark.parametrize(
    ("replicas", "written", "least", "told"),
    [(1, 0, 1, True), (0, 0, 0, False), (1, 1, 1, False), (2, 2, 2, False), (1, None, 1, False)],
)
def test_writes_that_wait_for_a_replica_at_smoketurners_wait_here_too(
    replicas: int, written: int | None, least: int, *, told: bool
) -> None:
    required = {"tls": {"issuerRef": {"name": "i"}}, "auth": {"secretRef": {"name": "pw"}}}
    replication = {"minReplicasToWrite": written}
    converted = turned(SMOKETURNER, {"replicasPerMaster": replicas, "replication": replication, **required})
    assert spec_of(converted)["replication"]["minReplicasToWrite"] == least
    assert any("minReplicasToWrite was 0, which is 1 there" in note for note in converted.notes) == told
    assert converted.lost == []


@pytest.mark.parametrize(
    ("limits", "config", "told"),
    [
        ({"memory": "1Gi"}, {}, True),
        ({"memory": "1Gi"}, {"maxmemory-policy": "allkeys-lru"}, True),
        ({"memory": "1Gi"}, {"maxmemory": "900mb"}, False),
        ({"cpu": "1"}, {}, False),
    ],
)
def test_a_memory_limit_that_sets_maxmemory_only_here_is_noted(
    limits: Found, config: Found, *, told: bool
) -> None:
    spec = {"shards": 3, "resources": {"limits": limits}, "config": config}
    converted = turned(DRAFT, spec, "official")
    assert any("the memory limit sets maxmemory here" in note for note in converted.notes) == told
    assert converted.lost == []


def test_the_shares_of_the_memory_limit_in_the_note_are_those_that_are_rendered() -> None:
    assert f"{SHARE_WITH_COPIES:.0%} of it ({SHARE_ALONE:.0%} of".replace("%", " %") in NOTE


def test_two_objects_of_one_name_do_not_share_a_secret() -> None:
    spec = {"masterCount": 1, "clusterPassword": "one"}
    manifests = [
        {**DRAFT, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
        for kind in ("ValkeyCluster", "ValkeySentinel")
    ]
    text = "\n---\n".join(map(json.dumps, manifests))
    names = [
        found["metadata"]["name"] for found in objects(convert(read(text, "x"))) if found["kind"] == "Secret"
    ]
    assert names == ["x-passwords", "x-passwords-2"]


@pytest.mark.parametrize(
    ("top", "spec", "path"),
    [
        (DRAFT, {"masterCount": "9" * 5000}, "spec.masterCount"),
        (
            DRAFT,
            {"masterCount": 3, "backup": {"database": {"save": f"{'9' * 5000} 1"}}},
            "spec.backup.database.save",
        ),
        (
            SMOKETURNER,
            {
                "tls": {"issuerRef": {"name": "i"}},
                "auth": {"secretRef": {"name": "pw"}},
                "persistence": {"rdb": {"saveRules": [f"{'9' * 5000} 1"]}},
            },
            "spec.persistence.rdb.saveRules",
        ),
    ],
)
def test_a_number_of_thousands_of_digits_is_none(top: Found, spec: Found, path: str) -> None:
    assert [line.split(": ")[2] for line in turned(top, spec).lost] == [path]


@pytest.mark.parametrize("block", ["persistence", "tls", "auth", "resources"])
def test_a_block_of_ours_that_was_left_empty_is_none(block: str) -> None:
    text = f"apiVersion: valkey.io/v1alpha1\nkind: Valkey\nmetadata: {{name: x}}\nspec:\n  {block}:"
    converted = convert(read(text, "x.yaml"))
    assert (converted.text, converted.lost) == (text, [])


def test_a_value_whose_name_has_dots_is_taken_out_alone() -> None:
    spec: dict[str, Any] = {
        "labels": {"valkey.io/role": "replica", "team": "a"},
        "resources": {"limits": {"example.com/gpu": "99Ei", "memory": "1Gi"}},
    }
    can_be_made, told = acceptance.trim("Valkey", "demo", spec)
    assert can_be_made
    assert spec == {"labels": {"team": "a"}, "resources": {"limits": {"memory": "1Gi"}}}
    assert sorted(path for path, _ in told) == [
        "spec.labels.valkey.io/role",
        "spec.resources.limits.example.com/gpu",
    ]

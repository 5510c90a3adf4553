"""Nothing of a manifest is dropped in silence, and nothing that it does not say is written without a comment.

Whatever stands in it, something else must come out when it is taken away: another manifest, a note, or a line about
what could not be carried over. So no list of what each dialect does with each field is needed, which could be wrong.
"""

from __future__ import annotations

import copy
import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from valkey_operator.api.deployments import SentinelSpec
from valkey_operator.dialects.convert import Converted, convert
from valkey_operator.dialects.reading import read

Found = dict[str, Any]
Path = tuple[str | int, ...]

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "dialects"
# Manifests that say as much as they can.
FULL = (
    "smoketurner-everything",
    "smoketurner-upgrade-elsewhere",
    "official-everything",
    "draft-everything",
    "draft-tls-policy",
    "draft-certificates",
)
MANIFESTS: dict[str, Found] = {
    name: read((FIXTURES / f"{name}.yaml").read_text(), name)[0].content for name in FULL
}
for kind in ("ValkeyStandalone", "ValkeySentinel", "ValkeyOperatorDefaults"):
    MANIFESTS[kind] = {**MANIFESTS["draft-everything"], "kind": kind}

GONE = object()
WORDS = st.integers(10, 99).map(lambda number: f"a{number}")
SCALARS = WORDS | st.integers(-1, 99) | st.sampled_from(["0", 0, True, False])
NOISE = (
    SCALARS
    | st.lists(SCALARS, min_size=1, max_size=2)
    | st.dictionaries(WORDS, SCALARS, min_size=1, max_size=1)
)
# What is so without being said; the counts are those of a ValkeyStandalone.
USUAL = {
    "scheduling.spreadMasters": ("True",),
    "image.allowDowngrade": ("False",),
    "auth.acl.enabled": ("False",),
    "users.enabled": ("True",),
    "users.nopass": ("False",),
    "users.resetpass": ("False",),
    "clusterType": ("cluster",),
    "acl.enabled": ("True", "False"),
    "masterCount": ("1",),
    "replicasPerMaster": ("0",),
}
# Blocks that are called otherwise here: one that is refused as a whole is told by this name.
BLOCKS = {
    "pvc": "persistence", "backup": "persistence", "acl": "auth", "users": "auth", "networking": "tls",
    "metricsExporter": "exporter", "sidecarImage": "sidecar", "operatorMtls": "sidecar",
    "nodeAffinity": "affinity", "podAffinity": "affinity", "podAntiAffinity": "affinity",
}  # fmt: skip


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def at(spec: Any, path: Path) -> Any:
    for part in path:
        spec = spec[part]
    return spec


def leaves(spec: Found) -> list[Path]:
    """Where something is said that is not so anyhow, and that is not said twice."""
    found = {
        path: str(value) for path in places(spec) if not isinstance(value := at(spec, path), dict | list)
    }
    times = Counter(value for value in found.values() if value not in ("True", "False"))
    return [
        path
        for path, value in found.items()
        if value not in ("", "None", *USUAL.get(named(path), ())) and times[value] < 2
    ]


def named(path: Path) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def changed(spec: Found, path: Path, value: Any = GONE) -> Found:
    spec = copy.deepcopy(spec)
    if value is GONE:
        del at(spec, path[:-1])[path[-1]]
    else:
        at(spec, path[:-1])[path[-1]] = value
    return spec


def turned(manifest: Found, spec: Found) -> Converted:
    return convert(read(json.dumps({**manifest, "spec": spec}), "x.yaml"), "official")


def made(converted: Converted) -> list[Any]:
    return [without_empty(found) for found in yaml.safe_load_all(converted.text)]


def without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [part for item in value if (part := without_empty(item)) not in ({}, [])]
    if isinstance(value, dict):
        return {key: part for key, item in value.items() if (part := without_empty(item)) not in ({}, [])}
    return value


def is_listed(leaf: Path, lost: set[str]) -> bool:
    """By itself, or as a part of something; a block of ours that is refused as a whole has our name for it."""
    block = BLOCKS.get(str(leaf[0]), leaf[0])
    paths = [f"spec.{block}", f"spec.template.{block}", "spec"]
    for part in leaf:
        paths.append(f"{paths[-1]}[{part}]" if isinstance(part, int) else f"{paths[-1]}.{part}")
    return not lost.isdisjoint(paths)


def is_dropped(manifest: Found, spec: Found, leaf: Path) -> bool:
    """In silence: neither what is made nor what is told knows of it, or of the whole that it is a part of."""
    whole = turned(manifest, spec)
    if not whole.text or is_listed(leaf, {line.split(": ")[2] for line in whole.lost}):
        return False
    for end in range(len(leaf), 0, -1):
        without = turned(manifest, changed(spec, leaf[:end]))
        if made(without) != made(whole):
            return end < len(leaf)
        if without != whole:
            return False
    return True


@pytest.mark.parametrize("name", MANIFESTS)
def test_everything_that_a_manifest_says_is_carried_over_or_told(name: str) -> None:
    manifest = MANIFESTS[name]
    spec = manifest["spec"]
    assert [leaf for leaf in leaves(spec) if is_dropped(manifest, spec, leaf)] == []


@st.composite
def manifests(draw: st.DrawFn) -> tuple[Found, Found, Path]:
    """With fields missing, and of the wrong type; and something that is still said in it."""
    manifest = MANIFESTS[draw(st.sampled_from(sorted(MANIFESTS)))]
    spec = manifest["spec"]
    for _ in range(draw(st.integers(1, 4))):
        if found := list(places(spec)):
            spec = changed(spec, draw(st.sampled_from(found)), draw(st.just(GONE) | NOISE))
    left = leaves(spec)
    assume(left)
    return manifest, spec, draw(st.sampled_from(left))


@settings(max_examples=200, deadline=None)
@given(manifests())
def test_whatever_a_manifest_says_nothing_is_dropped_in_silence(drawn: tuple[Found, Found, Path]) -> None:
    assert not is_dropped(*drawn)


def unexplained(manifest: Found, spec: Found) -> list[str]:
    """Lines with a value that the source does not say, and no comment above them or above what they are in."""
    said = {
        manifest["metadata"]["name"],
        "true",
        *(word for path in places(spec) for word in words(at(spec, path))),
    }
    lines: list[str] = []
    for part in turned(manifest, spec).text.split("\n---\n"):
        explained, before = 0, ""
        for line in part.partition("\nspec:\n")[2].splitlines():
            depth = len(line) - len(line.lstrip())
            if before.lstrip().startswith("#"):
                explained = depth
            elif depth <= explained:
                explained = 0
            value = line.partition(": ")[2] or line.partition("- ")[2]
            if not explained and not line.lstrip().startswith("#") and not said.issuperset(words(value)):
                lines.append(line)
            before = line
    return lines


def words(value: Any) -> list[str]:
    """Unquoted, `no` is false in YAML."""
    return ["false", "no"] if value is False else re.findall(r"[^\s:,'\"{}\[\]]+", str(value).lower())


@settings(max_examples=60, deadline=None)
@given(manifests())
def test_what_a_manifest_does_not_say_is_never_written_without_a_comment(
    drawn: tuple[Found, Found, Path],
) -> None:
    manifest, spec, _ = drawn
    assert unexplained(manifest, spec) == []


NEEDED = {"tls": {"issuerRef": {"name": "issuer"}}, "auth": {"secretRef": {"name": "pw"}}}


def lost(name: str, spec: Found) -> list[str]:
    return [line.removeprefix("x.yaml:1: ValkeyCluster x: ") for line in turned(MANIFESTS[name], spec).lost]


@pytest.mark.parametrize(
    ("name", "spec", "told"),
    [
        (
            "smoketurner-everything",
            {**NEEDED, "image": {"pullSecrets": "registry"}},
            ["spec.image.pullSecrets: it has to be a list"],
        ),
        (
            "smoketurner-everything",
            {**NEEDED, "metricsExporter": {"extraEnv": False}},
            ["spec.metricsExporter.extraEnv: the exporter has no variables of yours here"],
        ),
        (
            "official-everything",
            {"shards": 3, "nodeSelector": {"a": "1"}, "scheduling": {"nodeSelector": {"b": "2"}}},
            ["spec.nodeSelector: scheduling.nodeSelector says it too, and is taken"],
        ),
        (
            "official-everything",
            {"shards": 3, "scheduling": {"topologySpreadConstraints": "zones"}},
            ["spec.topologySpreadConstraints: Input should be a valid array"],
        ),
        (
            "official-everything",
            {"shards": 3, "scheduling": {"zone": {"spread": {"pods": {"mode": "Maybe"}}}}},
            ["spec.scheduling.zone.spread.pods.mode: it is Disabled, Preferred, Required"],
        ),
        (
            "official-everything",
            {
                "shards": 3,
                "networking": {"tls": {"certificates": {"server": {"secretName": "new"}}}},
                "tls": {"certificate": {"secretName": "old"}},
            },
            ["spec.tls: networking.tls says it too, and its Secret is taken"],
        ),
        (
            "official-everything",
            {"shards": 3, "users": [{"name": "a", "passwordSecret": {"keys": "pw"}}]},
            ["spec.users[0].passwordSecret.keys: it has to be a list"],
        ),
        (
            "draft-everything",
            {"masterCount": 3, "valkeyImage": {"name": "v", "imagePullSecrets": [["a"]]}},
            ["spec.valkeyImage.imagePullSecrets[0].name: it has to be text; put it in quotes"],
        ),
        (
            "draft-everything",
            {"masterCount": 3, "acl": {"enabled": False, "users": [{"password": "hush"}]}},
            ["spec.acl.enabled: the password of the user without a name is asked for all the same"],
        ),
    ],
)
def test_what_has_no_right_form_or_is_said_twice_is_listed(name: str, spec: Found, told: list[str]) -> None:
    assert lost(name, spec) == told


def test_a_nought_that_was_written_is_what_it_was_there() -> None:
    """Where there are replicas, smoketurner takes 0 for 1."""
    spec = {**NEEDED, "replication": {"minReplicasToWrite": 0}}
    converted = turned(MANIFESTS["smoketurner-everything"], spec)
    (cluster,) = made(converted)
    assert cluster["spec"]["replication"]["minReplicasToWrite"] == 1
    assert any("minReplicasToWrite was 0" in note for note in converted.notes)


def test_how_many_replicas_have_to_follow_goes_into_its_field_or_is_told() -> None:
    config = {"min-slaves-to-write": "1", "min-replicas-max-lag": 7, "hz": 20}
    spec = {"shards": 3, "replicas": 2, "persistence": {"size": "1Gi"}, "config": config}
    converted = turned(MANIFESTS["official-everything"], spec)
    (cluster,) = made(converted)
    assert cluster["spec"]["replication"] == {"minReplicasToWrite": 1, "minReplicasMaxLag": 7}
    assert cluster["spec"]["config"] == {"hz": 20}
    assert "# was config.min-slaves-to-write" in converted.text
    assert lost("official-everything", {**spec, "config": {"min-replicas-to-write": "some"}}) == [
        "spec.config.min-replicas-to-write: min-replicas-to-write is the operator's: use replication.minReplicasToWrite"
    ]
    (told,) = lost("official-everything", {**spec, "config": {"min-replicas-to-write": 200}})
    assert told == "spec.replication.minReplicasToWrite: Input should be less than or equal to 100"


def test_a_key_that_was_not_written_is_explained() -> None:
    auth = {**NEEDED["auth"], "acl": {"enabled": True, "configSecretRef": {"name": "rules"}}}
    text = turned(MANIFESTS["smoketurner-everything"], {**NEEDED, "auth": auth}).text
    assert (
        "# the key is the default there\n      configSecretRef:\n        name: rules\n        key: password"
        in text
    )


@pytest.mark.parametrize(
    "left_out", [None, "podAntiAffinity", "clusterPassword", "acl", "tls", "nodeSelector"]
)
def test_what_is_said_of_servers_is_said_of_their_sentinels_or_told(left_out: str | None) -> None:
    manifest = MANIFESTS["ValkeySentinel"]
    spec = {key: value for key, value in manifest["spec"].items() if key != left_out}
    converted = turned(manifest, {**spec, "masterCount": 1, "replicasPerMaster": 2})
    server, sentinel = (found["spec"] for found in made(converted) if found["kind"] != "Secret")
    told = " ".join(
        [*converted.notes, *(line for line in converted.lost if "affinity of x-sentinel" in line)]
    )
    both = SentinelSpec.model_json_schema(by_alias=True)["properties"].keys() & server.keys()
    assert {"auth", "nodeSelector", "affinity", "annotations", "resources"} - {left_out} <= both
    assert [field for field in both - sentinel.keys() if field not in told] == []
    assert server.get("auth") == sentinel.get("auth")


def test_a_sentinel_that_would_lose_what_keeps_strangers_out_is_not_made() -> None:
    manifest = {"apiVersion": "valkey.io/v1alpha1", "kind": "Sentinel", "metadata": {"name": "x"}}
    converted = turned(manifest, {"replicas": 3, "tls": {"enabled": "certainly"}})
    assert converted.text == ""
    assert converted.lost[-1].endswith("spec.tls: nothing was made: without it strangers could get in")

"""How manifests are read: lines for who looks for a mistake, and scalars as they were written."""

from __future__ import annotations

import pytest

from valkey_operator.dialects.block import dump
from valkey_operator.dialects.convert import convert
from valkey_operator.dialects.reading import BadManifest, read

SELF = "this is no YAML: an anchor is referred to inside of what it names"
NUMBER = "this is no YAML: a whole number of at most 1000 digits has to stand here"
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("8.10", "8.10"), ("1e3", "1e3"), ("010", "010"), ("0x1f", "0x1f"), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"), ("7", 7), ("-7", -7), ("0", 0), ("true", True), ("no", False), ("~", None),
        ("", None), ("'7'", "7"), (".inf", ".inf"),
    ],
)  # fmt: skip
def test_a_scalar_is_what_was_written(written: str, meant: object) -> None:
    (found,) = read(f"{HEAD}data: {{a: {written}}}\n", "x")
    assert found.content["data"]["a"] == meant


@pytest.mark.parametrize(
    "text",
    [
        "y", "Y", "n", "N", "yes", "off", "true", "null", "~", "=", "<<", ".inf", "-.INF", ".nan",
        "7", "-7", "1e3", "12345e6", "1E+3", "1e-3", ".5", "-.5", ".5e3", "5.", "0891234", "08", "007",
        "1_000", "1_e3", "-_5", "0o17", "-0o17", "0O17", "0x1f", "0X1F", "0_x1f", "0b1", "0B1", "12:30",
        "2026-01-01", "2026-1-2", "2026-1-2T1:2:3Z",
    ],
)  # fmt: skip
def test_text_that_kubernetes_would_take_for_something_else_is_printed_in_quotes(text: str) -> None:
    """Held against kubectl, which reads `12345e6` without quotes as a number."""
    assert dump({text: text}) == f"'{text}': '{text}'"


@pytest.mark.parametrize("text", ["1.2.3", "100m", "1Gi", "v1", "123abc", "0x", "1e", "yn", "1.2e", "0o8"])
def test_other_text_is_printed_as_people_write_it(text: str) -> None:
    assert dump({"a": text}) == f"a: {text}"


def test_numbers_and_booleans_are_printed_as_such() -> None:
    printed = dump({"a": [7, -7, 0, True, False, None]})
    assert printed == "a:\n  - 7\n  - -7\n  - 0\n  - true\n  - false\n  - null"


def test_labels_and_passwords_stay_text() -> None:
    labels = 'canary: "y", commit: "12345e6"'
    users = '[{name: app, permissions: ">0891234 +@all", resetpass: true}]'
    head = f"apiVersion: valkey.io/v1alpha1\nkind: ValkeyCluster\nmetadata: {{name: a, labels: {{{labels}}}}}"
    lines = convert(read(f"{head}\nspec: {{shards: 3, users: {users}}}\n", "x")).text.splitlines()
    assert {"    canary: 'y'", "    commit: '12345e6'", "  app: '0891234'"} <= set(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}data: [1\n", "x.yaml:5: this is no YAML: expected ',' or ']', but got '<stream end>'"),
        (f"{HEAD}---\na: b\n c: d\n", "x.yaml:6: this is no YAML: mapping values are not allowed here"),
        (f"{HEAD}data: {{a: 1}}\ndata: {{}}\n", "x.yaml:5: this is no YAML: data is there twice"),
        (f"{HEAD}? [a]\n: b\n", "x.yaml:4: this is no YAML: a key is not text"),
        (f"{HEAD}---\n\n# only\nhello\n", "x.yaml:7: this is no object: it has no apiVersion and kind"),
        ("- a\n", "x.yaml:1: this is no object: it has no apiVersion and kind"),
        ("a: \x01\n", "x.yaml:1: this is no YAML: unacceptable character #x0001: special characters are not "
                      'allowed in "<unicode string>", position 3'),
        ("a: &a [*a]\n", f"x.yaml:1: {SELF}"),
        ("&a {apiVersion: v1, kind: X, me: *a}\n", f"x.yaml:1: {SELF}"),
        ("&a {apiVersion: v1, kind: List, items: [*a]}\n", f"x.yaml:1: {SELF}"),
        (f"{HEAD}data: !!map [a]\n", "x.yaml:4: this is no YAML: a mapping has to stand here"),
        (f"{HEAD}data: {{a: !!bool perhaps}}\n", "x.yaml:4: this is no YAML: true or false has to stand here"),
        (f"{HEAD}data: {{a: !!int abc}}\n", f"x.yaml:4: {NUMBER}"),
        (f"{HEAD}data: {{a: {'9' * 5000}}}\n", f"x.yaml:4: {NUMBER}"),
        (f"{HEAD}data: {{a: -{'9' * 5000}}}\n", f"x.yaml:4: {NUMBER}"),
        ("[" * 5000 + "]" * 5000, "x.yaml:1: this is no manifest: it is nested too deep"),
        ("apiVersion: v1\nkind: List\nitems: 5\n", "x.yaml:1: the items of the List are no list"),
        ("apiVersion: v1\nkind: PodList\nitems: {a: b}\n", "x.yaml:1: the items of the PodList are no list"),
        ("apiVersion: v1\nkind: List\nitems: [1]\n", "x.yaml:1: the List has an item that is no object"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_and_line(text: str, said: str) -> None:
    with pytest.raises(BadManifest) as told:
        read(text, "x.yaml")
    assert str(told.value) == said


@pytest.mark.parametrize(
    "value",
    [
        "!foo x",
        "!!binary aGVsbG8=",
        "!!float 1.5",
        "!!set {a}",
        "!!timestamp x",
        "!!python/object/apply:os.system [ls]",
    ],
)
def test_a_tag_that_nothing_in_a_manifest_has_is_told(value: str) -> None:
    with pytest.raises(BadManifest) as told:
        read(f"{HEAD}data: {{a: {value}}}\n", "x.yaml")
    tag = value.split(maxsplit=1)[0]
    assert (
        str(told.value)
        == f"x.yaml:4: this is no YAML: the tag {tag} means nothing in a manifest; leave it out"
    )


def test_what_anchors_make_too_deep_is_told_when_it_is_converted() -> None:
    parts = [
        f"a{level}: &a{level} {'[' * 100}{f'*a{level - 1}' if level else ''}{']' * 100}"
        for level in range(20)
    ]
    text = "\n".join(
        ["apiVersion: valkey.io/v1alpha1\nkind: Valkey\nmetadata: {name: x}", *parts, "spec: {a: *a19}\n"]
    )
    with pytest.raises(BadManifest, match=r"^x:1: this is no manifest: it is nested too deep$"):
        convert(read(text, "x"))


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("apiVersion: valkey.io/v1alpha1\nkind: ValkeyThing\n", "valkey.io/v1alpha1 has no kind ValkeyThing"),
        ("apiVersion: valkey.io/v9\nkind: Valkey\n", "there is no version v9 of valkey.io"),
        (
            "apiVersion: valkey-operator.smoketurner.com/v1alpha1\nkind: ValkeyUser\n",
            "valkey-operator.smoketurner.com has no kind ValkeyUser",
        ),
    ],
)
def test_a_kind_that_nobody_knows_is_told_with_file_and_line(head: str, said: str) -> None:
    with pytest.raises(BadManifest) as told:
        convert(read(f"# first\n---\n{head}metadata: {{name: x}}\n", "x.yaml"))
    assert str(told.value) == f"x.yaml:3: {said}"


def test_an_object_of_ours_needs_a_name() -> None:
    with pytest.raises(BadManifest, match=r"^x:1: the Valkey has no name$"):
        convert(read("apiVersion: valkey.io/v1alpha1\nkind: Valkey\n", "x"))


@pytest.mark.parametrize("kind", ["valkey.io/v1alpha1\nkind: ValkeyCluster", "v1\nkind: Secret"])
@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ("{name: a, namespace: [b]}", "namespace"),
        ("{name: a, namespace: {b: c}}", "namespace"),
        ("{name: a, namespace: 12}", "namespace"),
        ("{name: [a]}", "name"),
        ("{name: true}", "name"),
    ],
)
def test_a_name_or_a_namespace_that_is_no_text_is_told(kind: str, metadata: str, key: str) -> None:
    spec = "spec: {shards: 3, users: [{name: app, permissions: '>secret', resetpass: true}]}"
    text = f"# first\napiVersion: {kind}\nmetadata: {metadata}\n{spec}\n"
    with pytest.raises(BadManifest) as told:
        convert(read(text, "x.yaml"), "official")
    said = f"metadata.{key} of the {kind.rpartition(' ')[2]} has to be text; put it in quotes"
    assert str(told.value) == f"x.yaml:2: {said}"


def test_documents_keep_their_lines_and_their_text() -> None:
    text = f"# why\n{HEAD}---\n---\n# nothing\n--- # with a comment\n{HEAD}# end\n"
    first, second = read(text, "x")
    assert (first.place, second.place) == ("x:2", "x:9")
    assert first.text == f"# why\n{HEAD}".rstrip("\n")
    assert convert(read(text, "x")).text.count("kind: ConfigMap") == 2


def test_anchors_and_merges_are_followed() -> None:
    text = "apiVersion: v1\nkind: X\nmetadata: {name: x}\nbase: &base {a: 1}\ndata: {<<: *base, b: 2}\n"
    assert read(text, "x")[0].content["data"] == {"a": 1, "b": 2}


def test_what_is_merged_in_gives_way_to_what_stands_there() -> None:
    base = "apiVersion: v1\nkind: X\nmetadata: {name: x}\none: &one {a: 1, b: 1}\ntwo: &two {a: 2, c: 2}\n"
    (found,) = read(f"{base}data: {{a: 0, <<: [*one, *two], d: 0}}\n", "x")
    assert found.content["data"] == {"a": 0, "b": 1, "c": 2, "d": 0}
    with pytest.raises(BadManifest, match=r"^x:6: this is no YAML: a is there twice$"):
        read(f"{base}data: {{<<: *one, a: 2, a: 3}}\n", "x")

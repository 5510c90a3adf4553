"""The operator may watch exactly what it watches, and every right that it has was used in a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.audit import Request
from tools import chart, rights
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.resources import LEASES
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.world import MANAGER, caches
from valkey_operator.settings.operator import OperatorSettings

TESTS = Path(__file__).parents[1]
# A namespace, empty for all of them, and a resource as the API names it.
Watched = tuple[str, str]
SERVER = access.Access("https://nobody.invalid")


def watched(namespaces: tuple[str, ...]) -> set[Watched]:
    """What the operator's caches watch, and its part in the Lease."""
    client = Client(SERVER)
    runtime = Runtime(client)
    settings = OperatorSettings(chart.NAMESPACE, "one_127.0.0.1_x", "image", namespaces=namespaces)
    caches(runtime, settings)
    Leadership(client, Key(chart.NAMESPACE, MANAGER), "one")
    return {
        (reflection.namespace, str(informer.resource))
        for informer in runtime._informers
        for reflection in informer._reflections
    } | {(chart.NAMESPACE, str(LEASES))}


def may(namespaces: tuple[str, ...], *verbs: str) -> set[Watched]:
    setting = {"crds": {"install": False}, "watch": {"namespaces": list(namespaces)}}
    made = [each for each in yaml.safe_load_all(chart.rendered(setting)) if each]
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in made if "roleRef" in each}
    roles = [each for each in made if "rules" in each]
    assert bound == {(each["kind"], each["metadata"]["name"]) for each in roles}
    return {found for role in roles for found in _resources(role, verbs)}


def _resources(role: dict[str, Any], verbs: tuple[str, ...]) -> Iterator[Watched]:
    place = role["metadata"].get("namespace", "")
    for rule in role["rules"]:
        if set(verbs) <= set(rule["verbs"]):
            for group in rule.get("apiGroups", ()):
                yield from ((place, f"{name}.{group}" if group else name) for name in rule["resources"])


@pytest.mark.parametrize("namespaces", [(), ("team-a", "team-b"), ("team-a", chart.NAMESPACE)])
def test_it_may_watch_exactly_what_it_watches(namespaces: tuple[str, ...]) -> None:
    wanted = watched(namespaces)
    if not namespaces:  # who may watch all of them, may watch those of one namespace
        wanted = {(place, name) for place, name in wanted if not place or ("", name) not in wanted}
    assert may(namespaces, "list", "watch") == wanted


def test_for_some_namespaces_it_may_only_see_machines_elsewhere_and_whether_these_are_there() -> None:
    everywhere = {name for place, name in may(("team-a",)) if not place}
    assert everywhere == {"nodes", "namespaces"}
    assert {name for place, name in may(("team-a",), "list") if not place} == {"nodes"}
    assert ("", "namespaces") not in may(())
    setting = {"crds": {"install": False}, "watch": {"namespaces": ["team-a", "123"]}}
    rules = [
        rule for each in yaml.safe_load_all(chart.rendered(setting)) if each for rule in each.get("rules", ())
    ]
    (of_namespaces,) = [rule for rule in rules if "namespaces" in rule.get("resources", ())]
    assert (of_namespaces["resourceNames"], of_namespaces["verbs"]) == (["team-a", "123"], ["get"])


def test_it_may_do_the_same_in_both_scopes_where_valkey_runs() -> None:
    for verb in ("get", "list", "watch", "create", "patch", "update", "delete"):
        of_all = {name for place, name in may((), verb) if not place} - {"nodes"}
        assert of_all == {name for place, name in may(("team-a",), verb) if place == "team-a"}, verb


def test_every_right_has_a_test_that_used_it() -> None:
    shown = rights.table(rights.PAGE.read_text())
    assert set(shown) == rights.granted(), "run `uv run python -m tools.rights` after the end-to-end tests"
    tests = {right: re.fullmatch(r"`(\w+\.py)` (\w+)", seen) for right, seen in shown.items()}
    unseen = {right for right, named in tests.items() if named is None}
    assert {shown[right] for right in unseen} == set(rights.UNSEEN.values())
    for named in filter(None, tests.values()):
        (file,) = TESTS.rglob(named[1])
        assert f"def {named[2]}(" in file.read_text()


POD, NODES = rights.Right(rights.THERE, "pods", "delete"), rights.Right("", "nodes", "list")
OF_PODS, OF_NODES = "`test_pods.py` test_a", "`test_nodes.py` test_b"


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({}, OF_PODS),
        ({"tests/e2e/test_nodes.py::test_b": {NODES}}, OF_PODS),
        ({"tests/e2e/test_pods.py::test_a[1]": {POD}, "tests/e2e/test_also.py::test_c": {POD}}, OF_PODS),
        (
            {"tests/e2e/test_pods.py::test_a": set(), "tests/e2e/test_also.py::test_c": {POD}},
            "`test_also.py` test_c",
        ),
        ({"tests/e2e/test_pods.py::test_a": {NODES}}, ""),
        ({"tests/e2e/test_pods.py::test_a[1]": set(), "tests/e2e/test_pods.py::test_a[2]": set()}, ""),
    ],
    ids=["nothing ran", "another ran", "still used", "used elsewhere", "no longer used", "in no case used"],
)
def test_a_right_stays_on_the_page_until_its_test_ran_without_it(
    record: dict[str, set[rights.Right]], shown: str
) -> None:
    assert rights.shown({POD}, record, {POD: OF_PODS, NODES: OF_NODES}) == {POD: shown}


def test_a_test_that_runs_again_notes_only_what_it_used_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "NOTED", tmp_path / "build" / "rights.json")
    deleted = Request("operator", "delete", "pods", "team-a", "name", 200)
    listed = Request("operator", "list", "nodes", "", "", 200)
    rights.note([deleted, listed], "test_pods.py::test_a")
    rights.note([listed], "test_nodes.py::test_b")
    rights.note([listed], "test_pods.py::test_a")
    assert rights.noted() == {"test_pods.py::test_a": {NODES}, "test_nodes.py::test_b": {NODES}}


def test_what_requests_need() -> None:
    def request(verb: str, resource: str, namespace: str, code: int) -> Request:
        return Request("operator", verb, resource, namespace, "name", code)

    seen = [
        request("watch", "nodes", "", 200),
        request("list", "pods", "", 200),
        request("get", "namespaces", "team-a", 404),
        request("patch", "services", "team-a", 201),
        request("get", "secrets", "valkey-system", 404),
        request("delete", "pods", "team-a", 403),
    ]
    assert rights.used(seen) == {
        ("", "nodes", "watch"),
        ("", "namespaces", "get"),
        ("where Valkey runs", "pods", "list"),
        ("where Valkey runs", "services", "patch"),
        ("where Valkey runs", "services", "create"),
        ("its own", "secrets", "get"),
    }

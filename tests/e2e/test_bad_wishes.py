"""Wishes that cannot be granted: they are refused with a sentence, and whoever is served already is looked after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devcluster.command import CommandFailed
from devcluster.faults import Faults
from tests.e2e.conftest import PLACE, Place
from tests.e2e.test_one_node import SPEC

PAIR = {**SPEC, "replicas": 2}


def said(place: Place, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = place.get(kind, name).get("status", {})
    return found


def patch(place: Place, spec: dict[str, Any]) -> None:
    place.kubectl("patch", "valkey", "pair", "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def fails_over(place: Place, faults: Faults) -> None:
    """To whoever has the data: a server that is back at once may be the one."""
    before = said(place, "valkey", "pair")
    first = before["primary"]
    [second] = {"pair-0", "pair-1"} - {first}
    assert place.valkey(f"{first}-0", "SET", "told", "1") == "OK"
    # For a second after its first copy a replica is online and gets nothing: its primary waits for a word of it.
    place.eventually(lambda: place.valkey(f"{second}-0", "GET", "told") == "1")
    faults.kill(f"{place.namespace}/{first}-0", "valkey")

    def has_failed_over() -> bool:
        now = said(place, "valkey", "pair")
        if now["primaryEpoch"] <= before["primaryEpoch"]:
            return False
        try:
            return place.valkey(f"{now['primary']}-0", "ROLE").startswith("master")
        except CommandFailed:  # it starts
            return False

    place.eventually(has_failed_over)
    pod = f"{said(place, 'valkey', 'pair')['primary']}-0"
    assert place.valkey(pod, "GET", "told") == "1"
    place.eventually(lambda: place.valkey(pod, "SET", "told", "2") == "OK", 30)
    role = ("get", "pod", pod, r"--output=jsonpath={.metadata.labels.valkey\.io/role}")
    place.eventually(lambda: place.kubectl(*role) == "primary", 30)


@pytest.fixture
def pair(place: Place) -> Place:
    place.apply("Valkey", "pair", PAIR)
    place.is_ready("pair")
    return place


def test_a_refused_wish_does_not_keep_the_primary_from_being_replaced(pair: Place, faults: Faults) -> None:
    patch(pair, {"config": {"dir": "/tmp"}, "replicas": 3})  # noqa: S108 - a directive, not a file of ours
    pair.eventually(lambda: said(pair, "valkey", "pair")["reason"] == "InvalidSpec")
    fails_over(pair, faults)
    assert said(pair, "valkey", "pair")["reason"] == "InvalidSpec"
    # Nor for those who were not there when the wishes before it were accepted.
    pair.cluster.kubectl("delete", "pods", "--all", "--namespace", PLACE, "--grace-period=1")
    pair.eventually(lambda: said(pair, "valkey", "pair")["readyReplicas"] == 2, 60)
    fails_over(pair, faults)
    pair.eventually(lambda: said(pair, "valkey", "pair")["readyReplicas"] == 2, 60)
    nodes = pair.kubectl("get", "valkeynodes", "--output=name").split()
    assert len(nodes) == 2, f"a refused wish has changed something: {nodes}"
    patch(pair, {"config": None})
    pair.is_ready("pair")
    assert len(pair.kubectl("get", "valkeynodes", "--output=name").split()) == 3


def test_what_the_api_server_denies_is_told_and_keeps_nobody_from_being_looked_after(
    place: Place, faults: Faults
) -> None:
    place.kubectl("create", "quota", "none", "--hard=count/poddisruptionbudgets.policy=0")
    quota = "jsonpath={.status.hard}"
    place.eventually(lambda: bool(place.kubectl("get", "quota", "none", f"--output={quota}")))
    place.apply("Valkey", "pair", PAIR)
    place.is_ready("pair")
    place.eventually(lambda: "exceeded quota: none" in said(place, "valkey", "pair")["message"])
    fails_over(place, faults)
    place.kubectl("delete", "quota", "none")
    place.eventually(lambda: "quota" not in said(place, "valkey", "pair")["message"], 120)
    place.kubectl("get", "poddisruptionbudget", "pair")


@pytest.mark.parametrize(("kind", "name"), [("ValkeyCluster", "pair"), ("Valkey", "pair-1")])
def test_a_second_deployment_that_would_share_names_is_refused_and_takes_nothing(
    pair: Place, kind: str, name: str
) -> None:
    before = pair.kubectl("get", "services,secrets,poddisruptionbudgets,valkeynodes", "--output=name")
    uids = [each["metadata"]["uid"] for each in pods(pair)]
    pair.apply(kind, name, {**PAIR, **({"shards": 3} if kind == "ValkeyCluster" else {})})
    pair.eventually(lambda: said(pair, kind, name).get("reason") == "NameConflict")
    told = said(pair, kind, name)["message"]
    assert "belongs to Valkey" in told
    assert "another name" in told
    pair.kubectl("delete", kind, name)
    assert pair.kubectl("get", "services,secrets,poddisruptionbudgets,valkeynodes", "--output=name") == before
    assert [each["metadata"]["uid"] for each in pods(pair)] == uids
    assert said(pair, "valkey", "pair")["state"] == "Ready"


@pytest.mark.parametrize(
    "taken", ["secret/pair-connection", "secret/pair-system-users", "configmap/pair-0-config"]
)
def test_what_somebody_else_has_made_is_left_alone_and_told(place: Place, taken: str) -> None:
    kind, _, name = taken.partition("/")
    form = ("generic", name) if kind == "secret" else (name,)
    place.kubectl("create", kind, *form, "--from-literal=precious=1")
    before = place.get(kind, name)
    place.apply("Valkey", "pair", PAIR)
    place.eventually(lambda: f"{name} is there already" in told(place))
    assert place.get(kind, name) == before
    place.kubectl("delete", kind, name)
    place.is_ready("pair")
    assert "is there already" not in told(place)


def told(place: Place) -> str:
    """By the deployment, or by the node that it is about."""
    nodes = json.loads(place.kubectl("get", "valkeynodes", "--output=json"))["items"]
    found = [said(place, "valkey", "pair"), *(each.get("status", {}) for each in nodes)]
    return " ".join(each.get("message", "") for each in found)


def pods(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(place.kubectl("get", "pods", "--output=json"))["items"]
    return found


def test_defaults_that_change_take_nobodys_volume_away(pair: Place) -> None:
    pods = pair.kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.uid}")
    pinned = {
        "podManagementType": "statefulset",
        "persistence": {"enabled": True, "storageClassName": "standard"},
    }
    assert said(pair, "valkey", "pair")["pinned"] == pinned
    changed = {
        "podManagementType": "deployment",
        "persistence": {"enabled": False},
        "service": {"annotations": {"seen": "yes"}},
    }
    pair.apply("ValkeyClusterDefaults", "defaults", changed)
    pair.eventually(lambda: "seen" in pair.get("service", "pair")["metadata"].get("annotations", {}))
    pair.is_ready("pair")
    assert said(pair, "valkey", "pair")["pinned"] == pinned
    assert pair.kubectl("get", "pods", "--output=jsonpath={.items[*].metadata.uid}") == pods
    assert pair.kubectl("get", "deployments", "--output=name") == ""
    with pytest.raises(CommandFailed, match=r"persistence\.enabled is false; it was true at creation"):
        patch(pair, {"persistence": {"enabled": False}})
    pair.kubectl("delete", "valkeyclusterdefaults", "defaults")

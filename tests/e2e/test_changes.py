"""Changes of a running Valkey: what is brought into the pod as it is, and what costs a restart."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.conftest import Place, by_name
from tests.e2e.test_one_node import POD, SPEC
from valkey_operator.api.quantity import quantity_bytes

IN_MEMORY = {**SPEC, "persistence": {"enabled": False, "rdb": {"enabled": False}}}


def made(place: Place, spec: dict[str, Any]) -> str:
    """A Valkey that serves; the UID of its pod."""
    place.apply("Valkey", "one", spec)
    place.is_ready("one")
    return uid(place)


def uid(place: Place) -> str:
    return str(place.get("pod", POD)["metadata"]["uid"])


def setting(place: Place, name: str) -> str:
    lines = place.valkey(POD, "CONFIG", "GET", name).splitlines()
    return lines[1] if len(lines) > 1 else ""


def server(place: Place) -> dict[str, Any]:
    return by_name(place.get("pod", POD)["status"]["containerStatuses"])["valkey"]


def test_configuration_changes_within_seconds_and_without_a_restart(place: Place) -> None:
    before = made(place, SPEC)
    place.apply("Valkey", "one", {**SPEC, "config": {"hz": 50, "maxmemory-policy": "allkeys-lru"}})
    begun = time.monotonic()
    place.eventually(lambda: setting(place, "hz") == "50", 20)
    assert time.monotonic() - begun < 10
    assert setting(place, "maxmemory-policy") == "allkeys-lru"
    place.apply("Valkey", "one", SPEC)
    place.eventually(lambda: setting(place, "hz") == "10", 20)
    assert setting(place, "maxmemory-policy") == "noeviction"
    assert (uid(place), server(place)["restartCount"]) == (before, 0)


def test_memory_grows_in_place_and_the_server_uses_it_afterwards(place: Place) -> None:
    before = made(place, {**SPEC, "resources": {"limits": {"memory": "64Mi"}}})
    assert setting(place, "maxmemory") == str(int(2**26 * 0.7))
    place.apply("Valkey", "one", {**SPEC, "resources": {"limits": {"memory": "128Mi"}}})
    place.eventually(lambda: setting(place, "maxmemory") == str(int(2**27 * 0.7)), 30)
    assert quantity_bytes(server(place)["resources"]["limits"]["memory"]) == 2**27
    assert (uid(place), server(place)["restartCount"]) == (before, 0)
    assert place.get("valkeynode", "one-0")["status"]["needsRestart"] is False


def test_memory_that_no_machine_has_is_not_used_and_said(place: Place) -> None:
    before = made(place, {**IN_MEMORY, "resources": {"limits": {"memory": "64Mi"}}})
    place.apply("Valkey", "one", {**IN_MEMORY, "resources": {"limits": {"memory": "64Ti"}}})
    place.eventually(lambda: "all data would be lost" in place.get("valkey", "one")["status"]["message"], 30)
    assert "cannot be changed in place" in place.get("valkeynode", "one-0")["status"]["needsRestartReason"]
    assert int(setting(place, "maxmemory")) <= 2**26
    assert uid(place) == before


def test_a_volume_grows_where_its_class_lets_it(place: Place) -> None:
    before = made(place, SPEC)
    place.apply("Valkey", "one", {**SPEC, "persistence": {"size": "96Mi", "storageClassName": "standard"}})
    place.eventually(lambda: place.get("pvc", "one-0-data")["status"]["capacity"]["storage"] == "96Mi", 60)
    assert uid(place) == before


def test_a_volume_that_cannot_grow_is_said_and_nothing_else_changes(place: Place) -> None:
    small = {"size": "64Mi", "storageClassName": "pinned"}
    before = made(place, {**SPEC, "persistence": small})
    place.apply("Valkey", "one", {**SPEC, "persistence": {**small, "size": "96Mi"}, "config": {"hz": 50}})
    place.eventually(lambda: "cannot grow to 96Mi" in place.get("valkey", "one")["status"]["message"], 30)
    place.eventually(lambda: setting(place, "hz") == "50", 20)
    assert place.get("pvc", "one-0-data")["spec"]["resources"]["requests"]["storage"] == "64Mi"
    assert uid(place) == before


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_a_volume_goes_with_its_deployment_or_stays(place: Place, policy: str, stays: bool) -> None:
    other = {"Delete": "Retain", "Retain": "Delete"}[policy]
    volume = {"size": "64Mi", "storageClassName": "standard"}
    made(place, {**SPEC, "persistence": {**volume, "reclaimPolicy": other}})
    place.apply("Valkey", "one", {**SPEC, "persistence": {**volume, "reclaimPolicy": policy}})
    place.eventually(
        lambda: bool(place.get("pvc", "one-0-data")["metadata"].get("ownerReferences")) is not stays, 20
    )
    place.kubectl("delete", "valkey", "one")
    place.eventually(lambda: place.kubectl("get", "pods", "--output=name") == "", 60)
    left = "persistentvolumeclaim/one-0-data" if stays else ""
    place.eventually(lambda: place.kubectl("get", "pvc", "--output=name").strip() == left, 60)


def test_what_only_a_new_pod_has_costs_one_clean_restart_and_no_data(place: Place) -> None:
    before = made(place, SPEC)
    assert place.valkey(POD, "SET", "a", "1") == "OK"
    place.apply("Valkey", "one", {**SPEC, "terminationGracePeriodSeconds": 60})
    place.eventually(
        lambda: (
            place.kubectl("get", "pod", POD, "--ignore-not-found", "--output=name") == ""
            or uid(place) != before
        )
    )
    place.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=60s")
    after = uid(place)
    assert place.valkey(POD, "GET", "a") == "1"
    assert place.get("pod", POD)["spec"]["terminationGracePeriodSeconds"] == 60
    place.eventually(lambda: place.get("valkeynode", "one-0")["status"]["podUID"] == after, 20)
    assert place.get("valkeynode", "one-0")["status"]["needsRestart"] is False
    time.sleep(3)
    assert uid(place) == after


def test_a_restart_that_would_lose_data_is_a_persons_to_order(place: Place) -> None:
    before = made(place, IN_MEMORY)
    place.apply("Valkey", "one", {**IN_MEMORY, "terminationGracePeriodSeconds": 60})
    place.eventually(lambda: "all data would be lost" in place.get("valkey", "one")["status"]["message"], 20)
    assert uid(place) == before
    place.kubectl("delete", "pod", POD)
    place.eventually(lambda: "would be lost" not in place.get("valkey", "one")["status"]["message"], 60)

"""A Valkey of one pod, from its manifest to a server that survives what happens to it."""

from __future__ import annotations

import subprocess
import time

import pytest

from devcluster.cluster import EmbeddedCluster
from devcluster.faults import Faults
from devcluster.problem import Problem
from tests.e2e.conftest import Place

SPEC = {
    "image": "valkey-operator/valkey:9.1",
    "imagePullPolicy": "Never",
    "replicas": 1,
    "persistence": {"size": "64Mi", "storageClassName": "standard"},
}
AOF_ALWAYS = {**SPEC, "persistence": {**SPEC["persistence"], "aof": {"enabled": True, "fsync": "always"}}}  # type: ignore[dict-item]
POD = "one-0-0"


@pytest.mark.parametrize("version", ["8.0", "8.1", "9.1"])
def test_a_valkey_of_one_pod_comes_up_and_serves(place: Place, version: str) -> None:
    place.apply("Valkey", "one", {**SPEC, "image": f"valkey-operator/valkey:{version}"})
    assert place.is_ready("one") < 20
    # The first moments of a Service are kube-proxy's.
    place.eventually(lambda: _answers(place, "-h", "one"))
    assert place.valkey(POD, "-h", "one", "SET", "a", "1") == "OK"
    status = place.get("valkey", "one")["status"]
    assert (status["totalReplicas"], status["readyReplicas"]) == (1, 1)
    assert (status["primary"], status["primaryEpoch"]) == ("one-0", 1)


def test_a_deleted_pod_stops_cleanly_and_comes_back_with_its_data(place: Place) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    assert place.valkey(POD, "SET", "a", "1") == "OK"
    old = place.get("pod", POD)["metadata"]["uid"]
    following = subprocess.Popen(
        place.command("logs", "--follow", POD, "--container=sidecar"), stdout=subprocess.PIPE, text=True
    )
    place.kubectl("delete", "pod", POD)
    said, _ = following.communicate(timeout=60)
    assert "the server was stopped cleanly" in said
    place.eventually(lambda: place.get("pod", POD)["metadata"]["uid"] != old)
    place.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=60s")
    assert place.valkey(POD, "GET", "a") == "1"


def test_a_pod_that_is_deleted_without_a_sidecar_stops_in_good_order(place: Place, faults: Faults) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    assert place.valkey("one-0-0", "SET", "k", "v") == "OK"
    first = place.get("pod", "one-0-0")["metadata"]["uid"]
    faults.kill_container(f"{place.namespace}/one-0-0", "sidecar")
    place.kubectl("delete", "pod", "one-0-0", "--wait=false")
    # Long before the end of its grace, at which it would be killed.
    place.eventually(lambda: place.get("pod", "one-0-0")["metadata"]["uid"] != first, 45)
    place.is_ready("one")
    assert place.valkey("one-0-0", "GET", "k") == "v"


def test_a_killed_server_loses_no_acknowledged_write_with_aof_always(place: Place, faults: Faults) -> None:
    place.apply("Valkey", "one", AOF_ALWAYS)
    place.is_ready("one")
    for n in range(20):
        assert place.valkey(POD, "SET", f"k{n}", str(n)) == "OK"
        if n % 5 == 0:
            faults.kill(f"{place.namespace}/{POD}", "valkey")
            place.eventually(lambda: _answers(place), 10)
    assert int(place.valkey(POD, "DBSIZE")) == 20


def test_a_server_killed_while_the_sidecar_is_frozen_does_not_start(place: Place, faults: Faults) -> None:
    place.apply("Valkey", "one", AOF_ALWAYS)
    place.is_ready("one")
    with faults.pause(f"{place.namespace}/{POD}", "sidecar"):
        faults.kill(f"{place.namespace}/{POD}", "valkey")
        place.eventually(lambda: place.is_at_the_gate(POD))
        for _ in range(5):
            assert not _answers(place)
    place.eventually(lambda: _answers(place))


def test_a_change_by_hand_is_undone_and_told(place: Place) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    place.kubectl(
        "patch", "service", "one-0", "--type=merge", '--patch={"spec":{"publishNotReadyAddresses":false}}'
    )
    place.eventually(lambda: place.get("service", "one-0")["spec"].get("publishNotReadyAddresses") is True)
    place.eventually(lambda: "publishNotReadyAddresses" in place.kubectl("get", "events"))


def test_at_rest_the_operator_writes_nothing_but_its_lease(
    place: Place, embedded_cluster: EmbeddedCluster
) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    place.eventually(lambda: _is_quiet(embedded_cluster))


def _is_quiet(cluster: EmbeddedCluster) -> bool:
    """No write of the operator within five seconds."""
    cluster.audit.mark()
    audit = cluster.audit
    time.sleep(5)
    writes = [
        request
        for request in audit.requests()
        if request.is_write and request.user.endswith(":valkey-operator") and request.resource != "leases"
    ]
    return not writes


def _answers(place: Place, *options: str) -> bool:
    try:
        return place.valkey(POD, *options, "PING") == "PONG"
    except Problem:
        return False


def test_what_cannot_be_done_is_said_in_status_and_changes_nothing(place: Place) -> None:
    place.apply("Valkey", "one", {**SPEC, "tls": {"enabled": True}})
    place.eventually(lambda: place.get("valkey", "one").get("status", {}).get("reason") == "NotYetSupported")
    status = place.get("valkey", "one")["status"]
    assert status["state"] == "Failed"
    assert "spec.tls" in status["message"]
    assert place.kubectl("get", "valkeynodes,statefulsets,pods", "--output=name") == ""


def test_a_node_that_nobody_asked_for_is_left_alone(place: Place) -> None:
    place.apply("ValkeyNode", "stray", {"type": "valkey"})
    place.eventually(lambda: place.get("valkeynode", "stray").get("status", {}).get("reason") == "NotManaged")
    assert place.kubectl("get", "statefulsets,services,pods", "--output=name") == ""

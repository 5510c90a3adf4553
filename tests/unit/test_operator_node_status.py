"""What a node reports of its pod and its server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import ManagedMetadata, Metadata
from valkey_operator.operator.node import config_in_force, current_pod
from valkey_operator.operator.node_status import Findings, full_volume, status
from valkey_operator.operator.seen import (
    ContainerState,
    ContainerStatus,
    Custom,
    Pod,
    PodCondition,
    PodStatus,
    Terminated,
    Waiting,
)

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def node(**known: Any) -> Custom:
    return Custom(ManagedMetadata(name="demo-0", namespace="prod", generation=3), {}, known)


def pod(uid: str = "u1", ready: bool = True, going: bool = False) -> Pod:
    condition = PodCondition(
        "Ready", "True" if ready else "False", message="" if ready else "containers unready"
    )
    metadata = Metadata(name="demo-0-0", uid=uid, deletion_timestamp="now" if going else None)
    return Pod(metadata, status=PodStatus("Running", "10.0.0.1", conditions=(condition,)))


def observation(**more: Any) -> contract.Observation:
    server = contract.Server(answers=True, version="9.1.0", role=contract.ROLE_REPLICA)
    server.replication.primary_address = "demo-1.prod.svc:6379"
    server.replication.offset = 1000
    return contract.Observation(server=server, sidecar_version="1", pod_uid="u1", **more)


def test_a_server_that_serves() -> None:
    after = status(
        node(), Findings(pod(), 0, observation(fingerprints=contract.Fingerprints(config="f"))), NOW
    )
    assert after["ready"] is True
    assert (after["podName"], after["podUID"], after["podIP"]) == ("demo-0-0", "u1", "10.0.0.1")
    assert (after["observedRole"], after["observedReplicaOf"]) == ("replica", "demo-1")
    assert (after["valkeyVersion"], after["sidecarVersion"], after["configFingerprint"]) == (
        "9.1.0",
        "1",
        "f",
    )
    assert after["needsRestart"] is False


def test_a_primary_follows_nobody_any_more() -> None:
    seen = observation()
    seen.server.role = contract.ROLE_PRIMARY
    seen.server.replication.primary_address = ""
    after = status(node(observedRole="replica", observedReplicaOf="demo-1"), Findings(pod(), 0, seen), NOW)
    assert after["observedRole"] == "primary"
    assert "observedReplicaOf" not in after


def test_what_was_known_is_kept_while_nobody_says_anything() -> None:
    known = {"observedRole": "primary", "valkeyVersion": "9.1.0", "podUID": "u1", "needsRestart": True}
    after = status(node(**known, needsRestartReason="hz"), Findings(pod()), NOW)
    assert (after["observedRole"], after["valkeyVersion"]) == ("primary", "9.1.0")
    assert (after["needsRestart"], after["needsRestartReason"]) == (True, "hz")


def test_a_new_pod_needs_no_restart_for_what_its_predecessor_needed_one() -> None:
    after = status(node(podUID="u0", needsRestart=True, needsRestartReason="hz"), Findings(pod()), NOW)
    assert after["needsRestart"] is False
    assert "needsRestartReason" not in after


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Findings(None), "the pod is not there yet"),
        (Findings(pod(going=True)), "the pod is being stopped"),
        (Findings(pod(ready=False)), "containers unready"),
        (Findings(pod(ready=False), 1), "there are 2 pods of this node: one must go"),
        (
            Findings(pod(ready=False), 0, observation(gate=contract.Gate(waits_for="waits for b"))),
            "waits for b",
        ),
        (Findings(pod(ready=False), 0, observation(not_ready="out of sync")), "out of sync"),
        (Findings(pod(), 0, None, (), ("the volume grows",)), "the server serves; the volume grows"),
    ],
)
def test_the_sentence(found: Findings, message: str) -> None:
    assert status(node(), found, NOW)["message"] == message


def _holds(after: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in after["conditions"]}


def test_a_node_can_be_waited_for() -> None:
    assert _holds(status(node(), Findings(pod()), NOW))["Ready"] == ("True", "ServerServes")
    assert _holds(status(node(), Findings(None), NOW))["Ready"] == ("False", "ServerAway")


@pytest.mark.parametrize(
    ("configuration", "holds", "reason"),
    [
        ({"mounted": "f"}, "True", "ConfigInForce"),
        ({"mounted": "before"}, "False", "ConfigOnItsWay"),
        ({"mounted": "f", "refused": "maxmemory lots"}, "False", "ConfigRefused"),
    ],
)
def test_whether_what_is_asked_for_is_in_force(configuration: Any, holds: str, reason: str) -> None:
    seen = observation(configuration=contract.Configuration(**configuration))
    found = Findings(pod(), 0, seen, config=config_in_force(seen, "f"))
    after = status(node(), found, NOW)
    assert _holds(after)["ConfigApplied"] == (holds, reason)
    unheard = Findings(pod(), config=config_in_force(None, "f"))
    if holds == "True":
        replaced = config_in_force(seen, "f", is_replaced=True)
        assert replaced is not None
        assert (replaced.holds, replaced.reason) == (False, "ConfigOnItsWay")
        waits = config_in_force(None, "f", ["hz can be set at the server's start only", "another image"])
        assert waits is not None
        assert (waits.holds, waits.reason) == (False, "RestartNeeded")
        assert waits.message == "hz can be set at the server's start only; another image"
    known = status(node(podUID="u1", conditions=after["conditions"]), unheard, NOW)
    assert _holds(known)["ConfigApplied"] == (holds, reason), "while nobody says anything"
    of_another = status(node(podUID="u0", conditions=after["conditions"]), unheard, NOW)
    assert _holds(of_another)["ConfigApplied"] == ("True", "ConfigInForce")


def test_a_load_is_not_told_in_percent() -> None:
    seen = observation(not_ready="the server is loading its data, 37 %")
    seen.server.is_loading = True
    assert (
        status(node(), Findings(pod(ready=False), 0, seen), NOW)["message"]
        == "the server is loading its data"
    )


def test_the_operator_stays_with_the_first_pod_until_it_is_gone() -> None:
    first, second = pod("u1", going=True), pod("u2")
    assert current_pod(node(podUID="u1"), [second, first]) is first
    assert current_pod(node(podUID="u1"), [second]) is second
    assert current_pod(node(), [first, second]) is second
    assert current_pod(node(), [pod("u2"), pod("u3")]) is None
    assert current_pod(node(), [first]) is first
    assert current_pod(node(), [first, pod("u3", going=True)]) is None


LOG = """\
12:C 15 Nov 2026 18:12:01.123 * oO0OoO0OoO0Oo Valkey is starting oO0OoO0OoO0Oo
12:M 15 Nov 2026 18:12:01.130 # Can't load module from /no.so: server aborting
"""
WRONG = """\
12:C 15 Nov 2026 18:12:01.123 * oO0OoO0OoO0Oo Valkey is starting oO0OoO0OoO0Oo

*** FATAL CONFIG FILE ERROR (Version 9.1.0) ***
Reading the configuration file, at line 3
>>> 'port no-number'
argument couldn't be parsed into an integer
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        (LOG, "Can't load module from /no.so: server aborting"),
        (
            WRONG,
            "FATAL CONFIG FILE ERROR (Version 9.1.0) *** Reading the configuration file, at line 3 "
            ">>> 'port no-number' argument couldn't be parsed into an integer",
        ),
    ],
)
def test_the_last_words_of_a_server_that_does_not_start(log: str, words: str) -> None:
    ended = ContainerState(terminated=Terminated("Error", log))
    found = replace(
        pod(ready=False).status, container_statuses=(ContainerStatus("valkey", last_state=ended),)
    )
    assert Pod(Metadata(name="demo-0-0"), status=found).last_words == words


def test_a_container_that_was_out_of_memory_says_so() -> None:
    state = ContainerState(Waiting("CrashLoopBackOff", "back-off 10s"))
    ended = ContainerState(terminated=Terminated("OOMKilled"))
    found = PodStatus(container_statuses=(ContainerStatus("valkey", state=state, last_state=ended),))
    assert Pod(Metadata(name="demo-0-0"), status=found).fault == (
        "container valkey waits: CrashLoopBackOff back-off 10s (last time: OOMKilled)"
    )


def test_a_full_volume_is_named_with_what_to_do() -> None:
    asked = Custom(ManagedMetadata(name="demo-0"), {"persistence": {"enabled": True}}, {})
    seen = observation(disk=contract.Disk(is_full=True, size_bytes=60 << 20))
    assert full_volume(asked, seen) == "its volume demo-0-data of 60 MiB is full: grow spec.persistence.size"
    seen.server.persistence.last_write_failed = True
    assert "cannot save its data, so that a primary refuses writes" in full_volume(asked, seen)
    assert full_volume(node(), seen).startswith("the disk of its machine is full")
    seen.disk.is_full = False
    assert full_volume(asked, seen) == ""

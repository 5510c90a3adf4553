"""What `kubectl valkey status` says, compared with files that a person has read: `tests/golden/status/`.

After a change that is meant: GOLDEN=write uv run pytest tests/unit/test_cli_look.py, and read the difference.
"""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from valkey_operator.api.deployments import ValkeyClusterStatus, ValkeyStatus
from valkey_operator.api.node import ValkeyNodeStatus
from valkey_operator.cli.look import Look, shown
from valkey_operator.cli.paint import WIDTH, Paint, span

GOLDEN = Path(__file__).parents[1] / "golden" / "status"
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
Found = dict[str, Any]
MEBIBYTE = 1 << 20


def valkey(generation: int = 4, replicas: int = 3, **status: Any) -> Found:
    """Only what the API has: the type refuses the rest."""
    ValkeyStatus.model_validate(status)
    metadata = {"name": "demo", "namespace": "prod", "generation": generation, "uid": "uid-1"}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


def node(index: int, role: str = "replica", **status: Any) -> Found:
    known = {
        "ready": True,
        "observedRole": role,
        "valkeyVersion": "9.1.2",
        "configFingerprint": "c1",
        "certificateFingerprint": f"t{index}",
        **({"observedReplicaOf": "demo-0"} if role == "replica" else {}),
        **status,
    }
    ValkeyNodeStatus.model_validate(known)
    return {"metadata": {"name": f"demo-{index}"}, "status": known}


def event(reason: str, note: str, at: str, name: str = "demo", kind: str = "Normal") -> Found:
    return {
        "reason": reason, "note": note, "eventTime": f"2026-11-15T{at}Z", "type": kind,
        "regarding": {"kind": "Valkey", "name": name},
    }  # fmt: skip


def said_nodes(*roles: str, away: tuple[int, ...] = ()) -> list[Found]:
    return [
        {"name": f"demo-{index}", "role": role, "ready": index not in away}
        for index, role in enumerate(roles)
    ]


def condition(kind: str, status: str, reason: str, message: str) -> Found:
    at = "2026-11-15T11:00:00Z"
    return {
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at,
    }  # fmt: skip


BINDING = {
    "status": {
        "active": [
            {"purpose": "mtls", "thumbprint": f"t{index}", "expiresAt": f"2027-01-1{4 + index}T12:00:00Z"}
            for index in range(3)
        ]
    }
}
HEALTHY: Found = {
    "state": "Ready", "reason": "AllNodesHealthy", "message": "all servers are healthy",
    "observedGeneration": 4, "primary": "demo-0", "primaryEpoch": 4, "totalReplicas": 3, "readyReplicas": 3,
    "promotable": ["demo-1", "demo-2"], "nodes": said_nodes("primary", "replica", "replica"),
}  # fmt: skip
PLANNED: Found = {
    "at": "2026-11-15T09:56:40Z", "from": "demo-1", "to": "demo-0", "planned": True, "reason": "Switchover",
    "epoch": 4, "writePauseMs": 212, "lossBound": {"bytes": 0, "seconds": 0},
}  # fmt: skip
ALL = (node(0, "primary"), node(1), node(2))

SHARDED: Found = {
    "state": "Reconciling", "reason": "InOperation", "message": "it serves, and is being changed",
    "observedGeneration": 4, "totalShards": 3, "readyShards": 2, "totalReplicas": 6, "readyReplicas": 5,
    "slotsAssigned": 16384, "slotsUnassigned": 0, "formed": True,
    "shards": [
        {"shardIndex": 0, "primary": "demo-0-0", "replicas": ["demo-0-1"], "slots": "0-5461", "ready": True},
        {"shardIndex": 1, "primary": "demo-1-1", "replicas": ["demo-1-0"], "slots": "5462-10922", "ready": False},
        {
            "shardIndex": 2, "primary": "demo-2-0", "replicas": ["demo-2-1"],
            "slots": "10923-11000,11002-11005,11100,11200-16383", "ready": True,
        },
    ],
    "operation": {
        "kind": "RollingUpdate", "step": "demo-1-0 is restarted", "startedAt": "2026-11-15T11:59:20Z", "done": 2,
        "total": 6,
    },
}  # fmt: skip


def cluster(**status: Any) -> Found:
    ValkeyClusterStatus.model_validate(status)
    metadata = {"name": "demo", "namespace": "prod", "generation": 4, "uid": "uid-1"}
    return {
        "kind": "ValkeyCluster",
        "metadata": metadata,
        "spec": {"shards": 3, "replicas": 2},
        "status": status,
    }


def shard_nodes() -> tuple[Found, ...]:
    primaries = {(0, 0), (1, 1), (2, 0)}
    found = []
    for shard in range(3):
        for index in range(2):
            away = (
                {"ready": False, "message": "the replica copies the data of its primary"}
                if (shard, index) == (1, 0)
                else {}
            )
            each = node(index, "primary" if (shard, index) in primaries else "replica", **away)
            found.append({**each, "metadata": {"name": f"demo-{shard}-{index}"}})
    return tuple(found)


SCALING: Found = SHARDED | {
    "lagging": [{"name": "demo-2-1", "bytes": 1024 * MEBIBYTE}],
    "totalShards": 4, "readyShards": 2, "totalReplicas": 6, "readyReplicas": 6,
    "message": "it serves, and is being changed; 2731 slots (61.5 MiB) are still to move",
    "shards": [
        {
            "shardIndex": 0, "primary": "demo-0-0", "replicas": ["demo-0-1"], "slots": "0-4095", "ready": True,
            "zone": "zone-a", "replicaZones": ["zone-b"], "usedBytes": 700 * MEBIBYTE, "maxBytes": 1024 * MEBIBYTE,
        },
        {
            "shardIndex": 1, "primary": "demo-1-1", "replicas": ["demo-1-0"], "slots": "5462-10922", "ready": False,
            "zone": "zone-b", "usedBytes": 90 * MEBIBYTE, "maxBytes": 1024 * MEBIBYTE, "behind": ["demo-1-0"],
        },
        {
            "shardIndex": 2, "primary": "demo-2-0", "replicas": ["demo-2-1"], "slots": "10923-16383", "ready": True,
            "zone": "zone-c", "usedBytes": 90 * MEBIBYTE,
        },
    ],
    "operation": {
        "kind": "Scaling", "startedAt": "2026-11-15T11:59:20Z", "done": 1365, "total": 4096,
        "step": "2731 slots (61.5 MiB) are still to move; now slots 9557-10922 from shard 1 to shard 3",
        "eta": "2026-11-15T12:01:20Z",
    },
}  # fmt: skip

LOOKS = {
    "cluster-scaling": Look(cluster(**SCALING), shard_nodes(), BINDING, ()),
    "cluster-rolling": Look(cluster(**SHARDED), shard_nodes(), BINDING, ()),
    "healthy": Look(
        valkey(
            **HEALTHY, lastFailover=PLANNED,
            exporter={"enabled": True, "metricsEndpoint": "http://demo-metrics.prod.svc:9121/metrics"},
            disruption={
                "mode": "Budget",
                "message": "one pod at a time may be evicted; Guarded acts as Budget until it is built",
            },
        ),
        ALL, BINDING, [event("Promoted", "demo-0 is the primary of epoch 4", "09:56:40.123456")],
    ),
    "failing-over": Look(
        valkey(
            **HEALTHY | {
                "state": "Reconciling", "reason": "FailingOver", "primary": "demo-1", "primaryEpoch": 5,
                "message": "demo-0 died: demo-1 is being made the primary", "readyReplicas": 2,
                "nodes": said_nodes("unknown", "replica", "replica", away=(0,)),
            },
            operation={
                "kind": "Failover", "step": "promoting demo-1", "done": 2, "total": 4,
                "startedAt": "2026-11-15T11:59:59Z",
            },
            lastFailover={
                "at": "2026-11-15T11:59:59Z", "from": "demo-0", "to": "demo-1", "planned": False,
                "reason": "ServerDied", "epoch": 5, "lossBound": {"bytes": 1536, "seconds": 1},
            },
        ),
        (node(0, "unknown", ready=False, message="the server has ended"), node(1), node(2)),
        BINDING,
        [event("ServerDied", "the server has ended; proof: its process", "11:59:59.000000", "demo-0", "Warning")],
    ),
    "rolling": Look(
        valkey(
            **HEALTHY | {"state": "Reconciling", "reason": "RollingUpdate", "message": "1 of 3 servers is new"},
            lagging=[{"name": "demo-2", "bytes": 16 * MEBIBYTE}],
            operation={
                "kind": "RollingUpdate", "step": "waiting for demo-2 to be in sync", "done": 1, "total": 3,
                "startedAt": "2026-11-15T11:58:20Z", "eta": "2026-11-15T12:03:00Z",
            },
            next=[
                {
                    "action": "hand over from demo-0 to demo-2", "refusedBy": "replica_is_caught_up_before_switchover",
                    "why": "demo-2 is 17 MiB behind",
                },
                {"action": "restart demo-1", "refusedBy": "one_pod_of_a_shard_at_a_time"},
            ],
        ),
        (
            node(0, "primary", needsRestart=True, needsRestartReason="the pod was made from another template"),
            node(1, needsRestart=True, needsRestartReason="the pod was made from another template"),
            node(2, valkeyVersion="9.1.3", certificateFingerprint="older"),
        ),
        BINDING, None,
    ),
    "degraded": Look(
        valkey(
            **HEALTHY | {
                "state": "Degraded", "reason": "ReplicaMissing", "readyReplicas": 2, "promotable": ["demo-1"],
                "message": "demo-2 is not there: it serves with one replica less than it should",
                "nodes": said_nodes("primary", "replica", "unknown", away=(2,)),
            },
            conditions=[
                condition("Ready", "False", "ReplicaMissing", "demo-2 is not there"),
                condition("Replicated", "False", "ReplicaMissing", "1 of 2 replicas follows demo-0"),
                condition("Warning", "True", "NoZones", "all servers are in one zone"),
                condition("ConfigApplied", "True", "Applied", "all servers have it"),
            ],
        ),
        (
            node(0, "primary"), node(1, configFingerprint="c0"),
            node(
                2, "unknown", ready=False, valkeyVersion="",
                message="0/3 nodes are available: 3 node(s) had untolerated taint {dedicated: others}. preemption: "
                "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
        ),
        {"status": {"active": [{"purpose": "mtls", "thumbprint": "t0", "expiresAt": "2026-11-14T10:00:00Z"}]}},
        [],
    ),
    "refused": Look(
        valkey(
            **HEALTHY,
            lastSwitchover={
                "id": "1", "result": "Refused",
                "message": "replica_is_caught_up_before_switchover: demo-1 is 12 MB behind",
            },
        ),
        ALL, BINDING, [],
    ),
    "suspended": Look(
        valkey(
            5, 0, state="Suspended", reason="Suspended", observedGeneration=5, primary="demo-0", primaryEpoch=4,
            message="it has no pods because replicas is 0; its volumes are kept",
        ),
    ),
    "not-seen": Look(valkey(generation=5, **HEALTHY), ALL, BINDING, []),
    "new": Look({"metadata": {"name": "demo", "namespace": "prod", "generation": 1}, "spec": {"replicas": 3}}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_what_is_shown_is_what_was_read(name: str) -> None:
    file, text = GOLDEN / f"{name}.txt", shown(LOOKS[name], NOW, Paint()) + "\n"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("name", LOOKS)
def test_nothing_is_wider_than_a_terminal_and_nothing_hangs_over(name: str) -> None:
    lines = shown(LOOKS[name], NOW, Paint()).splitlines()
    assert [line for line in lines if len(line) > WIDTH or line != line.rstrip()] == []


@pytest.mark.parametrize("name", LOOKS)
def test_colours_add_nothing_but_colours(name: str) -> None:
    coloured = shown(LOOKS[name], NOW, Paint(is_on=True))
    for code in ("0", "1", "2", "31", "32", "33"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == shown(LOOKS[name], NOW, Paint())


@pytest.mark.parametrize(
    ("name", "well"),
    [("healthy", True), ("refused", True), ("suspended", True), ("rolling", False), ("failing-over", False),
     ("degraded", False), ("not-seen", False), ("new", False)],
)  # fmt: skip
def test_it_is_well_when_it_is_as_it_was_asked_to_be(name: str, well: bool) -> None:
    assert LOOKS[name].is_well is well
    assert json.loads(json.dumps(LOOKS[name].as_json()))["well"] is well


def test_what_a_server_says_cannot_move_the_cursor() -> None:
    said = HEALTHY | {"message": "all\x1b[2Jis \x07well"}
    assert "\x1b" not in shown(Look(valkey(**said)), NOW, Paint())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "is_on"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals(stream: io.StringIO, environment: dict[str, str], is_on: bool) -> None:
    assert Paint.on(stream, environment).is_on is is_on


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (200, "3m20s"), (3600, "1h"), (3660, "1h1m"), (86400 * 60 + 5, "60d"), (-90, "1m30s")],
)  # fmt: skip
def test_a_span_has_at_most_two_units(seconds: float, text: str) -> None:
    assert span(seconds) == text

"""What a ValkeyNode reports: from its pod, from what its sidecar said last, and from what could not be done. Pure.

Nothing in it moves while nothing happens: no offsets, no percentages, no times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.conditions import Condition, conditions
from valkey_operator.operator.seen import Custom, Pod
from valkey_operator.render.pod import claim_name

ROLES = {
    contract.ROLE_PRIMARY: "primary",
    contract.ROLE_REPLICA: "replica",
    contract.ROLE_SENTINEL: "sentinel",
}
# Kept as they were while nobody can say how they are.
OBSERVED = (
    "observedRole", "observedReplicaOf", "nodeId", "valkeyVersion", "sidecarVersion", "configFingerprint",
    "certificateFingerprint",
)  # fmt: skip
LONGEST = 1024
MEBIBYTE = 1024 * 1024
# In what a sidecar says of a server that ends again and again; see `sidecar.pod`.
FAILED_START = "before it served"


IN_FORCE = Condition(
    ConditionType.CONFIG_APPLIED, True, Reason.CONFIG_IN_FORCE, Reason.CONFIG_IN_FORCE.sentence
)


@dataclass(frozen=True)
class Findings:
    """What came of one look at the node."""

    pod: Pod | None
    others: int = 0
    observation: contract.Observation | None = None
    # Why a new pod, or a new start of the server, is needed.
    restarts: Sequence[str] = ()
    # What is not as it was asked for, and does not stop the server.
    notes: Sequence[str] = ()
    # Whether what is asked for is in force; None where nobody can say.
    config: Condition | None = None


def status(node: Custom, found: Findings, now: datetime) -> dict[str, Any]:
    pod, name = found.pod, node.metadata.name
    is_ready = pod is not None and pod.is_ready and not pod.metadata.deletion_timestamp
    said = "the server serves" if is_ready else _why_not(found)
    reason = Reason.SERVER_SERVES if is_ready else Reason.SERVER_AWAY
    holds = [
        Condition(ConditionType.READY, is_ready, reason, said),
        found.config or _known_config(node, found),
    ]
    after: dict[str, Any] = {
        "state": State.READY if is_ready else State.INITIALIZING,
        "reason": reason,
        "conditions": conditions(node.status, holds, node.metadata.generation, now),
        "message": "; ".join([said, *found.notes])[:LONGEST],
        "observedGeneration": node.metadata.generation,
        "serviceName": name,
        "managedResourceName": name,
        "managedResourceKind": "Deployment" if is_deployment(node) else "StatefulSet",
        "ready": is_ready,
        **_observed(node, found.observation),
        **_restart(node, found),
    }
    if node.spec.get("persistence", {}).get("enabled"):
        after["pvcName"] = claim_name(name)
    if pod is not None:
        after |= {"podName": pod.metadata.name, "podUID": pod.metadata.uid}
        after |= {"podIP": pod.status.pod_ip} if pod.status.pod_ip else {}
    return after


def is_deployment(node: Custom) -> bool:
    return bool(node.spec.get("podManagementType") == "deployment")


def _is_known(node: Custom, found: Findings) -> bool:
    """What was known of this very pod holds as long as its sidecar says nothing else."""
    pod = found.pod
    return found.observation is None and pod is not None and node.status.get("podUID") == pod.metadata.uid


def _known_config(node: Custom, found: Findings) -> Condition:
    """A server that nobody has heard yet starts with what is mounted."""
    for each in node.status.get("conditions") or () if _is_known(node, found) else ():
        if each["type"] == ConditionType.CONFIG_APPLIED:
            holds = each["status"] == "True"
            return Condition(ConditionType.CONFIG_APPLIED, holds, each["reason"], each["message"])
    return IN_FORCE


def _restart(node: Custom, found: Findings) -> dict[str, Any]:
    reasons = "; ".join(found.restarts)
    if not reasons and _is_known(node, found):
        reasons = node.status.get("needsRestartReason", "")
    if not reasons:
        return {"needsRestart": False}
    return {"needsRestart": True, "needsRestartReason": reasons[:LONGEST]}


def _observed(node: Custom, observation: contract.Observation | None) -> dict[str, str]:
    before = {field: node.status[field] for field in OBSERVED if field in node.status}
    if observation is None:
        return before
    server, prints = observation.server, observation.fingerprints
    now = {
        "observedRole": ROLES.get(server.role, "unknown"),
        "nodeId": server.cluster.node_id,
        "valkeyVersion": server.version,
        "sidecarVersion": observation.sidecar_version,
        "configFingerprint": prints.config,
        "certificateFingerprint": prints.server_certificate or prints.sidecar_certificate,
    }
    after = before | {field: value for field, value in now.items() if value}
    after.pop("observedReplicaOf", None)
    followed = server.replication.primary_address.partition(":")[0].partition(".")[0]
    return {**after, "observedReplicaOf": followed} if followed else after


def _why_not(found: Findings) -> str:
    pod, seen = found.pod, found.observation
    if pod is None:
        return "the pod is not there yet" if not found.others else _too_many(found.others)
    if pod.metadata.deletion_timestamp:
        return "the pod is being stopped"
    if found.others:
        return _too_many(found.others + 1)
    if pod.fault or pod.unplaced:
        return pod.fault or pod.unplaced
    if seen is not None and (seen.gate.waits_for or seen.not_ready):
        is_loading = seen.server.is_loading
        said = "the server is loading its data" if is_loading else seen.gate.waits_for or seen.not_ready
        return f"{said}: {pod.last_words}" if FAILED_START in said and pod.last_words else said
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status != "True" and condition.message:
            return condition.message
    return f"the pod is {pod.status.phase or 'Pending'}"


def full_volume(node: Custom, seen: contract.Observation | None) -> str:
    """What is full, what that means, and what to do; empty while there is room."""
    if seen is None or not seen.disk.is_full:
        return ""
    kept = seen.server.persistence
    is_refusing = kept.last_write_failed or kept.last_save_failed
    meaning = ", and the server cannot save its data, so that a primary refuses writes" if is_refusing else ""
    if not node.spec.get("persistence", {}).get("enabled"):
        return f"the disk of its machine is full{meaning}: make room there, or give it a volume (spec.persistence)"
    size = f"{seen.disk.size_bytes // MEBIBYTE} MiB"
    return f"its volume {node.metadata.name}-data of {size} is full{meaning}: grow spec.persistence.size"


def _too_many(count: int) -> str:
    return f"there are {count} pods of this node: one must go"

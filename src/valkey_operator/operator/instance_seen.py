"""A Valkey with its nodes as decisions see it: from caches, from what sidecars said, and from memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from valkey_operator.api.guards import Guard
from valkey_operator.api.requests import ALLOW_DATA_LOSS, SWITCHOVER, SwitchoverRequest
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.keeping import keeps_data
from valkey_operator.decide.succession import FENCED_AFTER_GRANT
from valkey_operator.decide.window import is_open
from valkey_operator.kube.objects import Key
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.gate import Disk, Record
from valkey_operator.model.instance import (
    LastFailover,
    LastWord,
    Lease,
    Loss,
    NodeRecord,
    Said,
    SeenInstance,
    SeenNode,
    SeenPod,
    SeenServer,
    TakenOver,
    Wish,
)
from valkey_operator.model.times import read
from valkey_operator.operator.machines import Machines
from valkey_operator.operator.memory import Memory, Remembered
from valkey_operator.operator.node import current_pod
from valkey_operator.operator.node_status import FAILED_START
from valkey_operator.operator.seen import Custom, Pod, is_of, sidecar_image
from valkey_operator.operator.world import BY_DEPLOYMENT, BY_NODE, World
from valkey_operator.render import marks
from valkey_operator.render.pod import claim_name

Answered = Mapping[str, bool]
# The gate's rule by which a second pod of a node waits for the first.
HELD = Guard.A_NODE_HAS_ONE_POD


class Sight:
    """Of every Valkey."""

    def __init__(self, world: World, memory: Memory) -> None:
        self._world, self._memory = world, memory
        self.machines = Machines(world.caches.machines, memory.now)

    def nodes(self, key: Key) -> list[Custom]:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, key.name)
        return sorted(
            (node for node in found if node.metadata.namespace == key.namespace and is_of(node, "Valkey")),
            key=lambda node: _index(node.metadata.name),
        )

    def pod(self, node: Custom) -> Pod | None:
        found = self._world.caches.pods.store.by(BY_NODE, node.metadata.name)
        return current_pod(node, [pod for pod in found if pod.metadata.namespace == node.metadata.namespace])

    def see(
        self, item: Custom, deployment: Deployment, lease: Lease, answered: Answered | None = None
    ) -> SeenInstance:
        status = item.status
        record = Record(int(status.get("primaryEpoch", 0)), str(status.get("primary", "")))
        return SeenInstance(
            deployment.name,
            _wish(item, deployment, datetime.now(UTC), self._memory),
            record,
            tuple(status.get("promotable") or ()),
            _last_failover(status),
            self.leads_to(deployment),
            tuple(self._node(node, record.primary, answered or {}) for node in self.nodes(item.key)),
            lease,
            (status.get("operation") or {}).get("kind", ""),
            self._memory.quiet_for(item.key),
            self._memory.moved_for(item.key),
            self._memory.handover_failed(item.key, record.epoch),
        )

    def leads_to(self, deployment: Deployment) -> str:
        """The node to which its Service sends clients; empty where there is none."""
        found = self._world.caches.services.store.get(Key(deployment.namespace, deployment.name))
        return found.metadata.annotations.get(marks.LEADS_TO, "") if found else ""

    def _node(self, node: Custom, primary: str, answered: Answered) -> SeenNode:
        known, pod = self._memory.of(node.key), self.pod(node)
        now = self._memory.now()
        name = node.metadata.name
        said = self._said(node, pod, known)
        if pod is not None and said is not None and said.server is not None:
            known.machine, known.placed_uid = pod.spec.node_name, pod.metadata.uid
        heard = known.heard_at
        is_behind = node.status.get("observedGeneration") != node.metadata.generation
        # What is said there of an older spec, or of the pod before, is no reason to restart this one.
        is_told = not is_behind and pod is not None and node.status.get("podUID") == pod.metadata.uid
        return SeenNode(
            name,
            _index(name),
            is_being_deleted=bool(node.metadata.deletion_timestamp),
            has_volume=self.has_volume(node),
            spec=_spec(node),
            pod=pod_of(pod, known, now, said.gate_waits_for if said is not None else "", sidecar_image(node)),
            said=said,
            unheard_for=None if heard is None else now - heard,
            answered=answered.get(name),
            has_not_answered=known.has_not_answered,
            # A pod that is there may start another server unseen.
            was_seen_dying=pod is None and known.died_at is not None,
            dead_for=0.0 if known.died_at is None else now - known.died_at,
            may_have_a_twin=self._may_have_a_twin(node, pod, known),
            was_in_sync=self._was_in_sync(node, known, primary),
            last_up=last_word(known, now),
            needs_restart=node.status.get("needsRestartReason", "") if is_told else "",
            is_behind=is_behind,
        )

    def _may_have_a_twin(self, node: Custom, pod: Pod | None, known: Remembered) -> bool:
        """Where the volume came to another machine, the earlier pod gets no lease any more, and is soon fenced."""
        if self._seen(node, pod).gate.waits_for.startswith(HELD):
            return True
        elsewhere, now = self.elsewhere(node, pod, known), self._memory.now()
        if not self.has_volume(node):
            return bool(elsewhere)
        return any(now - since < FENCED_AFTER_GRANT for since in elsewhere.values())

    def elsewhere(self, node: Custom, pod: Pod | None, known: Remembered) -> dict[str, float]:
        """Machines on which an earlier pod of this node may still run its server, and since when: it was taken away by
        force, and cut off it serves on. That its volume is here says nothing: some storage gives it to two machines."""
        self._account_for(node, pod, known)
        is_unheard = pod is not None and known.pod_uid not in ("", pod.metadata.uid)
        return known.lost | ({known.machine: self._memory.now()} if is_unheard and known.was_up else {})

    def _account_for(self, node: Custom, pod: Pod | None, known: Remembered) -> None:
        """What is known by now of the end of earlier pods: once is enough, for a fenced machine comes back without."""
        if known.placed_uid == known.pod_uid and self.machines.why_gone(known.machine):
            known.ended_uid = known.pod_uid
        known.lost = {each: since for each, since in known.lost.items() if not self.machines.why_gone(each)}
        if pod is not None and self._holds_its_volume(node, pod):
            known.lost.pop(pod.spec.node_name, None)

    def _holds_its_volume(self, node: Custom, pod: Pod) -> bool:
        """Its sidecar got the lock, which of two pods on one machine only one gets: before that no server starts, and
        the gate gives no other reason."""
        seen = self._seen(node, pod)
        reason = seen.gate.waits_for.partition(":")[0]
        has_run = seen.HasField("server") or seen.HasField("last_word")
        return self.has_volume(node) and (has_run or (reason in set(Guard) and reason != HELD))

    def _seen(self, node: Custom, pod: Pod | None) -> contract.Observation:
        """The last word of this very pod's sidecar; an empty one when it said nothing yet."""
        heard = self._world.observations.get(node.key)
        is_its_own = heard is not None and pod is not None and heard.observation.pod_uid == pod.metadata.uid
        return heard.observation if heard is not None and is_its_own else contract.Observation()

    def _was_in_sync(self, node: Custom, known: Remembered, primary: str) -> bool | None:
        if known.in_sync is not None:
            return known.in_sync
        return False if self._memory.has_seen_in_office(Key(node.metadata.namespace, primary)) else None

    def _said(self, node: Custom, pod: Pod | None, known: Remembered) -> Said | None:
        heard = self._world.observations.get(node.key)
        if heard is None or pod is None or heard.observation.pod_uid != pod.metadata.uid:
            return None
        seen, now = heard.observation, self._memory.now()
        return Said(
            now - heard.at,
            _server(seen.server) if seen.HasField("server") else None,
            seen.gate.is_asked,
            seen.gate.waits_for,
            disk_of(seen.disk),
            Record(seen.record.epoch, seen.record.primary),
            now - known.noted_at.get(seen.record.epoch, now),
            seen.is_fenced,
            seen.disk.is_full,
            taken_over(seen),
        )

    def has_volume(self, node: Custom) -> bool:
        claim = self._world.caches.claims.store.get(
            Key(node.metadata.namespace, claim_name(node.metadata.name))
        )
        return claim is not None and bool(claim.status.capacity)


def switchover_request(item: Custom) -> SwitchoverRequest | None:
    """One that was not taken up yet, or is under way."""
    request = SwitchoverRequest.read(item.metadata.annotations.get(SWITCHOVER, ""))
    last = item.status.get("lastSwitchover") or {}
    if request is None or (last.get("id") == request.id and last.get("result") != "UnderWay"):
        return None
    return request


def given_up(item: Custom) -> frozenset[str]:
    """Nodes whose data a person has given up."""
    names = (each.strip() for each in item.metadata.annotations.get(ALLOW_DATA_LOSS, "").split(","))
    return frozenset(filter(None, names))


def asked(item: Custom, memory: Memory) -> tuple[str, float]:
    """The id of the request, and for how many seconds it is known."""
    request = switchover_request(item)
    return ("", 0.0) if request is None else (request.id, memory.asked_for(item.key, request.id))


def _wish(item: Custom, deployment: Deployment, now: datetime, memory: Memory) -> Wish:
    request = switchover_request(item)
    identity, asked_for = asked(item, memory)
    is_taken_up = (item.status.get("lastSwitchover") or {}).get("id") == identity
    return Wish(
        deployment.value("replicas", 1),
        bool(deployment.value("paused")),
        keeps_data(deployment),
        deployment.value("replication.minReplicasToWrite", 0) or 0,
        deployment.value("update.strategy", "Rolling") == "Rolling",
        bool(deployment.value("update.supervised")),
        is_open(deployment.value("update.window", ""), deployment.value("update.windowDuration", "1h"), now),
        given_up(item),
        None if request is None else request.to,
        identity,
        0.0 if is_taken_up else asked_for,
    )


def _last_failover(status: Mapping[str, Any]) -> LastFailover | None:
    last = status.get("lastFailover")
    if not last or "epoch" not in last:
        return None
    return LastFailover(
        last["epoch"], last["from"], last["to"], last["planned"], last["reason"], read(last["at"]),
        "writePauseMs" in last, _loss(last.get("lossBound") or {}),
    )  # fmt: skip


def _loss(bound: Mapping[str, Any]) -> Loss:
    return Loss(bound.get("bytes"), bound.get("seconds"), bound.get("isUnknown", False))


def _spec(node: Custom) -> NodeRecord:
    config = node.spec.get("valkeyConfig", {})
    name = node.metadata.name
    return NodeRecord(
        config.get("epoch", 0), config.get("replicaOf", name), tuple(config.get("members", [name]))
    )


def taken_over(seen: contract.Observation) -> TakenOver | None:
    said = seen.taken_over
    return TakenOver(said.former, said.epoch, said.is_under_way) if seen.HasField("taken_over") else None


def last_word(known: Remembered, now: float) -> LastWord | None:
    if known.last_up_at is None:
        return None
    return LastWord(known.last_offset, now - known.last_up_at, known.was_final)


def _server(seen: contract.Server) -> SeenServer:
    link = seen.replication
    return SeenServer(
        seen.answers,
        seen.answers and seen.role == contract.ROLE_PRIMARY,
        seen.answers and seen.role == contract.ROLE_REPLICA,
        seen.is_loading,
        link.primary_address.partition(".")[0],
        link.link_is_up,
        link.sync_in_progress,
        link.history,
        link.offset,
        seen.keys,
        link.silent_seconds,
        link.cut_off > 0,
    )


def disk_of(seen: contract.Disk) -> Disk:
    return Disk(
        seen.has_data, seen.was_stopped_cleanly, seen.is_synced_always, seen.has_append_only_file, seen.history,
        seen.offset,
    )  # fmt: skip


def pod_of(
    pod: Pod | None, known: Remembered, now: float, gate_waits_for: str, sidecar: str
) -> SeenPod | None:
    """`sidecar` is the image that its sidecar is to have."""
    if pod is None:
        return None
    is_placed = bool(pod.spec.node_name)
    if is_placed:
        known.unplaced_since = None
    elif known.unplaced_since is None:
        known.unplaced_since = now
    fault = pod.fault or _failed_start(gate_waits_for, pod.last_words)
    # Kubernetes writes there when it has to be gone.
    stopping = pod.metadata.deletion_timestamp
    ends_at = read(stopping) if stopping else None
    return SeenPod(
        pod.metadata.uid,
        # One that its Deployment is about to end is away for whoever would be next.
        pod.is_ready and marks.MAY_GO not in pod.metadata.annotations,
        ends_at is not None,
        ends_at,
        is_placed,
        0.0 if known.unplaced_since is None else now - known.unplaced_since,
        has_run=pod.status.phase not in ("", "Pending"),
        fault=fault,
        trouble=fault or pod.unplaced,
        # Where it is elsewhere in the pod, as in those of an earlier build, the pod is restarted as a whole.
        has_old_sidecar=pod.sidecar_image not in ("", sidecar),
        sidecar_is_changing=pod.sidecar_is_changing,
    )


def _failed_start(gate_waits_for: str, last_words: str) -> str:
    """The sidecar's word on a server that ends before it serves, and what the server itself said last."""
    if FAILED_START not in gate_waits_for:
        return ""
    return f"{gate_waits_for}: {last_words}" if last_words else gate_waits_for


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])

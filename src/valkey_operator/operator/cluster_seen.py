"""A ValkeyCluster with its nodes as decisions see it: from caches, from what sidecars said, and from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from valkey_operator.api.requests import STOP_RESHARDING
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.keeping import keeps_data
from valkey_operator.decide.shard_moves import SCALING
from valkey_operator.decide.window import is_open
from valkey_operator.kube.objects import Key
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import ClusterWish, Progress, SeenSharded, ShardNode
from valkey_operator.operator import cluster_view
from valkey_operator.operator.instance_seen import Sight, disk_of, pod_of, switchover_request
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.seen import Custom, Pod
from valkey_operator.operator.world import BY_DEPLOYMENT, World

NEVER = float("inf")


class ClusterSight:
    """Of every ValkeyCluster."""

    def __init__(self, world: World, memory: Memory, sight: Sight) -> None:
        self._world, self._memory, self._sight = world, memory, sight

    def nodes(self, key: Key) -> list[Custom]:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, key.name)
        own = (node for node in found if node.metadata.namespace == key.namespace and _is_of_a_cluster(node))
        return sorted(own, key=lambda node: place_of(node.metadata.name))

    def pod(self, node: Custom) -> Pod | None:
        return self._sight.pod(node)

    def see(self, item: Custom, deployment: Deployment, answered: Mapping[str, bool]) -> SeenSharded:
        return SeenSharded(
            deployment.name,
            _wish(item, deployment),
            tuple(self._node(node, answered) for node in self.nodes(item.key)),
            bool(item.status.get("formed")),
            (item.status.get("operation") or {}).get("kind", ""),
            _progress(item),
        )

    def _node(self, node: Custom, answered: Mapping[str, bool]) -> ShardNode:
        known, pod, name = self._memory.of(node.key), self.pod(node), node.metadata.name
        now = self._memory.now()
        heard = self._world.observations.get(node.key)
        if heard is not None and (pod is None or heard.observation.pod_uid != pod.metadata.uid):
            heard = None
        seen = heard.observation if heard is not None else contract.Observation()
        is_told = node.status.get("observedGeneration") == node.metadata.generation
        server = seen.server
        found = cluster_view.node(name, *place_of(name), server, known.node_id)
        known.node_id = found.id
        has_run = pod is not None and pod.status.phase not in ("", "Pending")
        return ShardNode(
            replace(found, may_hold_data=has_run or self._sight.has_volume(node)),
            is_being_deleted=bool(node.metadata.deletion_timestamp),
            pod=pod_of(pod, known, now, seen.gate.waits_for),
            is_heard=heard is not None,
            age=now - heard.at if heard is not None else NEVER,
            is_dead=heard is not None and not seen.HasField("server"),
            dead_for=0.0 if known.died_at is None else now - known.died_at,
            disk=disk_of(seen.disk),
            offset=server.replication.offset,
            unlinked_for=0.0 if known.link_lost_at is None else now - known.link_lost_at,
            major_version=int(server.version.partition(".")[0] or 0),
            used_bytes=server.memory.used_bytes,
            max_bytes=server.memory.max_bytes,
            answered=answered.get(name),
            needs_restart=node.status.get("needsRestartReason", "") if is_told else "",
        )  # fmt: skip


def place_of(name: str) -> tuple[int, int]:
    """Its shard and its number there."""
    rest, _, index = name.rpartition("-")
    return int(rest.rpartition("-")[2]), int(index)


def _is_of_a_cluster(node: Custom) -> bool:
    return any(owner.kind == "ValkeyCluster" for owner in node.metadata.owner_references)


def _wish(item: Custom, deployment: Deployment) -> ClusterWish:
    request = switchover_request(item)
    now = datetime.now(UTC)
    return ClusterWish(
        deployment.value("shards", 3),
        deployment.value("replicas", 3),
        bool(deployment.value("paused")),
        keeps_data(deployment),
        deployment.value("update.strategy", "Rolling") == "Rolling",
        bool(deployment.value("update.supervised")),
        is_open(deployment.value("update.window", ""), deployment.value("update.windowDuration", "1h"), now),
        deployment.value("update.maxParallelShards", 1),
        None if request is None else request.to,
        item.metadata.annotations.get(STOP_RESHARDING) == str(deployment.value("shards", 3)),
    )


def _progress(item: Custom) -> Progress | None:
    """As it was told last, of the wish as it is now."""
    told = item.status.get("operation") or {}
    is_same_wish = item.status.get("observedGeneration") == item.metadata.generation
    if told.get("kind") != SCALING or not is_same_wish or "total" not in told:
        return None
    return Progress(told.get("done", 0), told["total"])

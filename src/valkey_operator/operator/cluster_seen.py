"""A ValkeyCluster with its nodes as decisions see it: from caches, from what sidecars said, and from memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from valkey_operator.api.requests import ALLOW_DATA_LOSS, ALLOW_TAKEOVER, STOP_RESHARDING, shards_named
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import apart
from valkey_operator.decide.formation import awaited
from valkey_operator.decide.keeping import keeps_data
from valkey_operator.decide.shard_moves import SCALING
from valkey_operator.decide.sharded import RECENT
from valkey_operator.decide.window import is_open
from valkey_operator.kube.objects import Key
from valkey_operator.model.cluster import Pair, SeenCluster
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import POD_ENDED, Change, ClusterWish, Progress, SeenSharded, ShardNode
from valkey_operator.operator import cluster_view
from valkey_operator.operator.instance_seen import (
    HELD,
    Sight,
    asked,
    disk_of,
    last_word,
    pod_of,
    switchover_request,
    taken_over,
)
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.seen import Custom, Pod, is_of, sidecar_image
from valkey_operator.operator.world import BY_DEPLOYMENT, World
from valkey_operator.render import marks

NEVER = float("inf")

# Of a machine, as providers of clusters set it.
ZONE = "topology.kubernetes.io/zone"


class ClusterSight:
    """Of every ValkeyCluster."""

    def __init__(self, world: World, memory: Memory, sight: Sight) -> None:
        self._world, self._memory, self._sight = world, memory, sight
        self._primaries: dict[Key, dict[int, str]] = {}
        # Shards of which this process has seen who is in office.
        self._seen: dict[Key, set[int]] = {}
        # When a cluster was looked at, and since when two of its nodes have not heard each other.
        self._apart: dict[Key, tuple[float, dict[Pair, float]]] = {}
        # In each slot, by deployment, while they are being moved.
        self._keys: dict[Key, dict[int, int]] = {}

    def nodes(self, key: Key) -> list[Custom]:
        found = self._world.caches.nodes.store.by(BY_DEPLOYMENT, key.name)
        own = (
            node
            for node in found
            if node.metadata.namespace == key.namespace and is_of(node, "ValkeyCluster")
        )
        return sorted(own, key=lambda node: place_of(node.metadata.name))

    def are_all_heard(self, key: Key) -> bool:
        """Every server has said what it knows of its cluster."""
        heard = (self._world.observations.get(node.key) for node in self.nodes(key))
        return all(each is not None and each.observation.server.HasField("cluster") for each in heard)

    def pod(self, node: Custom) -> Pod | None:
        return self._sight.pod(node)

    def zones(self, key: Key) -> dict[str, str]:
        """By node; those whose machine is in one."""
        placed = [(node, pod) for node in self.nodes(key) if (pod := self.pod(node)) is not None]
        machines = [
            (node, self._world.caches.machines.store.get(Key("", pod.spec.node_name))) for node, pod in placed
        ]
        return {
            node.metadata.name: machine.metadata.labels[ZONE]
            for node, machine in machines
            if machine is not None and machine.metadata.labels.get(ZONE)
        }

    def see(self, item: Custom, deployment: Deployment, answered: Mapping[str, bool]) -> SeenSharded:
        seen = SeenSharded(
            deployment.name,
            _wish(item, deployment, self._memory),
            tuple(self._node(node, answered) for node in self.nodes(item.key)),
            bool(item.status.get("formed")),
            (item.status.get("operation") or {}).get("kind", ""),
            _progress(item),
            gone=dict(self._gone(item.key)),
            primaries=self._known_primaries(item),
            recorded=self._recorded(item),
            slot_keys=self._keys.get(item.key),
        )
        return replace(seen, apart_for=self._apart_for(item.key, seen.remembered(RECENT).cluster))

    def _apart_for(self, key: Key, seen: SeenCluster) -> dict[Pair, float]:
        """Who is not introduced yet, because others start, is not apart; nor is who has not answered of late. Of a time
        in which nobody looked nothing is known: servers suspect each other for a moment now and then."""
        now = self._memory.now()
        looked, before = self._apart.get(key, (now, {}))
        if now - looked > apart.UNSEEN:
            before = {}
        found = () if awaited(seen) else apart.pairs(seen)
        since = {pair: before.get(pair, now) for pair in found}
        self._apart[key] = now, since
        return {pair: now - begun for pair, begun in since.items()}

    def note_primary(self, key: Key, shard: int, node: str) -> None:
        self._primaries.setdefault(key, {})[shard] = node

    def note_seen(self, key: Key, shards: Iterable[int]) -> None:
        self._seen.setdefault(key, set()).update(shards)

    def note_keys(self, key: Key, said: contract.Server) -> None:
        self._keys.setdefault(key, {}).update(cluster_view.slot_keys(said))

    def forget_keys(self, key: Key) -> None:
        self._keys.pop(key, None)

    def forget(self, key: Key) -> None:
        self._primaries.pop(key, None)
        self._seen.pop(key, None)
        self._apart.pop(key, None)
        self.forget_keys(key)

    def _known_primaries(self, item: Custom) -> dict[int, str]:
        """What this process knows is newer than what was told last. A shard without nodes has none: one that is made
        again later begins anew."""
        told = {
            each["shardIndex"]: each["primary"] for each in item.status.get("shards", []) if "primary" in each
        }
        there = {place_of(node.metadata.name)[0] for node in self.nodes(item.key)}
        known = self._primaries.get(item.key, {})
        if item.status.get("formed"):
            known = told | known
        self._primaries[item.key] = {shard: name for shard, name in known.items() if shard in there}
        return dict(self._primaries[item.key])

    def _recorded(self, item: Custom) -> Change | None:
        """It is written before the order is given, and `shards` after it: an operator that was gone in between has not
        seen what came of it, and the next one sees it at its first look, or not at all."""
        last = item.status.get("lastFailover") or {}
        if "shard" not in last or last["shard"] in self._seen.get(item.key, ()):
            return None
        return Change(last["shard"], last["from"], last["to"], last["planned"])

    def on(self, machine: str) -> list[Key]:
        """ValkeyClusters with a node whose server was last heard there, or may still run there."""
        return [
            Key(node.metadata.namespace, node.metadata.labels[marks.CLUSTER])
            for node in self._world.caches.nodes.store
            if is_of(node, "ValkeyCluster") and self._memory.of(node.key).is_known_on(machine)
        ]

    def _gone(self, key: Key) -> Iterator[tuple[str, str]]:
        """Servers that cannot run any more, by id, as Kubernetes knows it. That it does not see where they are is no
        reason to think so."""
        for node in self.nodes(key):
            known, pod = self._memory.of(node.key), self.pod(node)
            # A later pod may have started the same server again, unheard; or an earlier one runs it still, unseen.
            is_later = pod is not None and _has_run(pod) and pod.metadata.uid != known.placed_uid
            may_run = is_later or bool(self._sight.elsewhere(node, pod, known))
            for ended in known.ended - ({known.node_id} if may_run else set()):
                yield ended, POD_ENDED
            if may_run or not known.node_id:
                continue
            if why := self._sight.machines.why_gone(known.machine):
                yield known.node_id, why

    def _node(self, node: Custom, answered: Mapping[str, bool]) -> ShardNode:
        known, pod, name = self._memory.of(node.key), self.pod(node), node.metadata.name
        now = self._memory.now()
        heard = self._world.observations.get(node.key)
        if heard is not None and (pod is None or heard.observation.pod_uid != pod.metadata.uid):
            heard = None
        seen = heard.observation if heard is not None else contract.Observation()
        is_same_pod = pod is None or node.status.get("podUID") == pod.metadata.uid
        is_behind = node.status.get("observedGeneration") != node.metadata.generation or not is_same_pod
        server, has_volume = seen.server, self._sight.has_volume(node)
        elsewhere = self._sight.elsewhere(node, pod, known)
        found = cluster_view.node(
            name, *place_of(name), server, known.node_id or node.status.get("nodeId", "")
        )
        known.node_id = found.id
        has_run = pod is not None and _has_run(pod)
        if pod is not None and (found.view is not None or (has_run and not known.machine)):
            known.machine, known.placed_uid = pod.spec.node_name, pod.metadata.uid
        return ShardNode(
            replace(found, may_hold_data=has_run or has_volume),
            is_being_deleted=bool(node.metadata.deletion_timestamp),
            pod=pod_of(pod, known, now, seen.gate.waits_for, sidecar_image(node)),
            is_heard=heard is not None,
            age=now - heard.at if heard is not None else NEVER,
            is_dead=heard is not None and not seen.HasField("server"),
            is_loading=server.is_loading or server.is_starting,
            dead_for=0.0 if known.died_at is None else now - known.died_at,
            is_alone=not elsewhere and _is_alone(seen, has_volume=has_volume),
            may_run_elsewhere=bool(elsewhere),
            last_up=last_word(known, now),
            disk=disk_of(seen.disk),
            volume_is_full=seen.disk.is_full,
            offset=server.replication.offset,
            unlinked_for=0.0 if known.link_lost_at is None else now - known.link_lost_at,
            was_linked=known.was_linked,
            is_at_the_gate=seen.gate.is_asked,
            major_version=int(server.version.partition(".")[0] or 0),
            used_bytes=server.memory.used_bytes,
            max_bytes=server.memory.max_bytes,
            answered=answered.get(name),
            needs_restart="" if is_behind else node.status.get("needsRestartReason", ""),
            is_behind=is_behind,
            machine=min(filter(None, elsewhere), default=known.machine),
            taken_over=taken_over(seen),
        )  # fmt: skip


def _has_run(pod: Pod) -> bool:
    return pod.status.phase not in ("", "Pending")


def _is_alone(seen: contract.Observation, *, has_volume: bool) -> bool:
    """The sidecar has itself seen the server end; or it holds the volume, which no other pod on this machine can have
    then. Of an earlier pod elsewhere neither says anything."""
    return seen.HasField("last_word") or (has_volume and not seen.gate.waits_for.startswith(HELD))


def place_of(name: str) -> tuple[int, int]:
    """Its shard and its number there."""
    rest, _, index = name.rpartition("-")
    return int(rest.rpartition("-")[2]), int(index)


def _wish(item: Custom, deployment: Deployment, memory: Memory) -> ClusterWish:
    request = switchover_request(item)
    identity, asked_for = asked(item, memory)
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
        allows_takeover=allowed(item, ALLOW_TAKEOVER) - used(item, "takeover"),
        allows_data_loss=allowed(item, ALLOW_DATA_LOSS) - used(item, "dataLoss"),
        request=identity,
        asked_for=asked_for,
    )


def _progress(item: Custom) -> Progress | None:
    """As it was told last, of the wish as it is now."""
    told = item.status.get("operation") or {}
    is_same_wish = item.status.get("observedGeneration") == item.metadata.generation
    if told.get("kind") != SCALING or not is_same_wish or "total" not in told:
        return None
    return Progress(told.get("done", 0), told["total"])


def allowed(item: Custom, annotation: str) -> frozenset[int]:
    """Shards that a person has named."""
    return shards_named(item.metadata.annotations.get(annotation, ""))


def used(item: Custom, which: str) -> frozenset[int]:
    return frozenset((item.status.get("allowancesUsed") or {}).get(which) or ())

"""What is known of a cluster's servers beside what they say: where they ran, and whether they can run still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tests.unit.test_operator_memory import Clock
from valkey_operator.api.guards import Guard
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.succession import FENCED_AFTER_GRANT
from valkey_operator.kube.objects import Key, ManagedMetadata, Metadata, OwnerReference
from valkey_operator.kube.store import Store
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.instance import Lease, TakenOver
from valkey_operator.model.sharded import Change, SeenSharded, ShardNode
from valkey_operator.operator.cluster_seen import ClusterSight
from valkey_operator.operator.instance_seen import Sight
from valkey_operator.operator.machines import SURELY
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.observations import Observations
from valkey_operator.operator.seen import (
    OUT_OF_SERVICE,
    Claim,
    ClaimStatus,
    ContainerState,
    ContainerStatus,
    Custom,
    Machine,
    MachineSpec,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    Terminated,
)
from valkey_operator.operator.world import BY_DEPLOYMENT, BY_NODE
from valkey_operator.render import marks
from valkey_operator.render.pod import SERVER

NODE = Key("prod", "g-0-0")
WAITS = f"{Guard.A_LIVING_MEMBER_GOES_FIRST}: g-0-1 runs"
HELD = f"{Guard.A_NODE_HAS_ONE_POD}: another pod of this node holds its volume"
IMAGES: dict[str, Any] = {"podTemplate": {"spec": {}}}


class Cache:
    """Of one kind; it may be in trouble."""

    def __init__(self) -> None:
        self.store: Store[Any] = Store()
        self.why: str | None = None

    def trouble(self) -> str | None:
        return self.why


class Ground:
    """One node of a cluster, its pods, its volume and the machines, as the caches tell of them."""

    def __init__(self) -> None:
        self.clock, self.version = Clock(), 0
        kinds = ("nodes", "pods", "machines", "claims", "services")
        self.caches = SimpleNamespace(**{kind: Cache() for kind in kinds})
        self.caches.nodes.store.add_index(BY_DEPLOYMENT, lambda _node: ["g"])
        self.caches.pods.store.add_index(
            BY_NODE, lambda pod: [pod.metadata.labels.get(marks.NODE, NODE.name)]
        )
        world: Any = SimpleNamespace(caches=self.caches, observations=Observations(self.clock))
        self.memory = Memory(lambda _node: None, self.clock)
        world.observations.on_change(self.memory.hear)
        self.world = world
        self.sight = ClusterSight(world, self.memory, Sight(world, self.memory))
        self.put_node("ValkeyCluster")
        self.put(
            "claims", Claim(self.named(ManagedMetadata, "g-0-0-data"), status=ClaimStatus({"storage": "1Gi"}))
        )
        for machine in ("m1", "m2"):
            self.put_machine(machine)

    def named(self, kind: type[Metadata], name: str, **more: Any) -> Any:
        self.version += 1
        return kind(name, "prod", resource_version=str(self.version), **{"uid": name, **more})

    def put(self, kind: str, item: Any) -> None:
        getattr(self.caches, kind).store.put(item)

    def put_node(self, kind: str, name: str = NODE.name) -> None:
        marked = {"owner_references": (OwnerReference("v1", kind, "g", "u"),), "labels": {marks.CLUSTER: "g"}}
        self.put("nodes", Custom(self.named(ManagedMetadata, name, **marked), IMAGES))

    def put_machine(self, name: str, *taints: str) -> None:
        self.version += 1
        metadata = Metadata(name, uid=name, resource_version=str(self.version))
        self.put("machines", Machine(metadata, MachineSpec(tuple(map(Taint, taints)))))

    def delete_machine(self, name: str) -> None:
        self.version += 1
        self.caches.machines.store.delete(
            Machine(Metadata(name, uid=name, resource_version=str(self.version)))
        )

    def runs(self, uid: str, machine: str) -> None:
        """The node's pod; one that was there before is gone."""
        for pod in list(self.caches.pods.store):
            self.caches.pods.store.delete(pod)
        labels = {marks.NODE: NODE.name}
        metadata = self.named(Metadata, f"g-0-0-0-{uid}", uid=uid, labels=labels)
        self.put("pods", Pod(metadata, PodSpec(machine), PodStatus("Running")))

    def hears(self, uid: str, **said: Any) -> None:
        self.version += 1
        observation = contract.Observation(pod_uid=uid, sequence=self.version, **said)
        assert self.world.observations.take(NODE, observation) == ""
        self.see()

    def hears_the_gate(self, uid: str, waits_for: str = WAITS) -> None:
        """No server runs in this pod."""
        self.hears(uid, gate=contract.Gate(is_asked=True, waits_for=waits_for))

    def ends(self, uid: str, machine: str) -> None:
        """Its kubelet says so."""
        ended = ContainerStatus(SERVER, state=ContainerState(terminated=Terminated()))
        metadata = self.named(Metadata, f"g-0-0-0-{uid}", uid=uid, deletion_timestamp="2030-01-01T00:00:00Z")
        pod = Pod(metadata, PodSpec(machine), PodStatus("Running", container_statuses=(ended,)))
        assert pod.has_ended_for_good
        self.put("pods", pod)
        self.memory.end(NODE, uid)

    def hears_a_server(self, uid: str, *, link_is_up: bool = False) -> None:
        view = contract.ClusterView(node_id="id")
        replication = contract.Replication(link_is_up=link_is_up)
        self.hears(uid, server=contract.Server(answers=True, cluster=view, replication=replication))

    def see(self, **status: Any) -> SeenSharded:
        item = Custom(ManagedMetadata("g", "prod"), {}, status)
        return self.sight.see(item, Deployment("ValkeyCluster", "g", "prod", "u", {}), {})

    def node(self) -> ShardNode:
        (found,) = self.see().nodes
        return found


@pytest.fixture
def ground() -> Ground:
    """The server of the node was heard on the first machine."""
    made = Ground()
    made.runs("a", "m1")
    made.hears_a_server("a")
    return made


class TestMachines:
    def test_that_a_machine_does_not_answer_is_no_proof(self, ground: Ground) -> None:
        ground.put_machine("m1", "node.kubernetes.io/unreachable")
        assert ground.see().gone == {}

    def test_one_that_was_seen_and_is_deleted_is_proof(self, ground: Ground) -> None:
        ground.delete_machine("m1")
        assert ground.see().gone == {"id": "its machine m1 was deleted"}
        ground.put_machine("m1")
        assert ground.see().gone == {}

    def test_one_that_is_out_of_service_is_proof(self, ground: Ground) -> None:
        ground.put_machine("m1", OUT_OF_SERVICE)
        assert ground.see().gone == {"id": "its machine m1 is out of service"}

    @pytest.mark.parametrize("taints", [None, (OUT_OF_SERVICE,)], ids=["deleted", "out of service"])
    def test_nothing_is_proof_while_the_cache_may_be_behind(
        self, ground: Ground, taints: tuple[str, ...] | None
    ) -> None:
        if taints is None:
            ground.delete_machine("m1")
        else:
            ground.put_machine("m1", *taints)
        ground.caches.machines.why = "watch nodes: the connection was lost"
        assert ground.see().gone == {}
        ground.caches.machines.why = None
        assert list(ground.see().gone) == ["id"]

    def test_one_that_was_never_seen_is_new_rather_than_deleted(self) -> None:
        """Its pod was told of before the machine was."""
        ground = Ground()
        ground.runs("a", "m3")
        ground.hears_a_server("a")
        assert ground.see().gone == {}

    def test_but_not_for_ever(self) -> None:
        """It was deleted before this operator came; kubelets tell of their machines every five minutes."""
        ground = Ground()
        ground.runs("a", "m3")
        ground.hears_a_server("a")
        ground.clock.time += SURELY - 1
        assert ground.see().gone == {}
        ground.caches.machines.why = "watch nodes: the connection was lost"
        ground.clock.time += 2
        assert ground.see().gone == {}, "the time that it could not see does not count"
        ground.caches.machines.why = None
        assert ground.see().gone == {}
        ground.clock.time += SURELY
        assert ground.see().gone == {"id": "its machine m3 was deleted"}


def test_a_server_that_was_let_in_and_has_not_served_yet_loads_and_does_not_hang(ground: Ground) -> None:
    ground.hears("a", server=contract.Server(answers=False, is_starting=True))
    assert ground.node().is_loading
    ground.hears("a", server=contract.Server(answers=False))
    assert not ground.node().is_loading


class TestPodsTakenAwayByForce:
    """Cut off, the first one serves on where it was, while the next one gets its volume on another machine."""

    def test_the_next_one_does_not_speak_for_it(self, ground: Ground) -> None:
        ground.runs("b", "m2")
        assert not ground.node().is_alone, "nothing was heard of it yet"
        ground.hears_the_gate("b")
        found = ground.node()
        assert (found.is_dead, found.is_alone, found.machine) == (True, False, "m1")
        assert found.may_run_elsewhere
        assert ground.see().gone == {}
        ground.hears_a_server("b")
        assert ground.sight.on("m1") == ground.sight.on("m2") == [Key("prod", "g")]

    def test_nor_does_the_end_of_the_next_one_say_anything_of_it(self, ground: Ground) -> None:
        ground.runs("b", "m2")
        ground.hears_a_server("b")
        ground.hears("b", last_word=contract.LastWord(offset=1))
        assert not ground.node().is_alone
        ground.ends("b", "m2")
        ground.put_machine("m2", OUT_OF_SERVICE)
        assert ground.see().gone == {}

    def test_where_its_server_was_heard_to_end_it_does(self, ground: Ground) -> None:
        ground.hears("a", last_word=contract.LastWord(offset=1))
        ground.runs("b", "m2")
        ground.hears_the_gate("b")
        assert ground.node().is_alone

    def test_where_its_kubelet_has_told_its_end_it_does(self, ground: Ground) -> None:
        ground.ends("a", "m1")
        assert ground.see().gone == {"id": "its kubelet has ended its pod for good"}
        ground.runs("b", "m2")
        ground.hears_the_gate("b")
        assert ground.node().is_alone

    @pytest.mark.parametrize("is_heard", [True, False])
    def test_where_its_machine_was_fenced_it_does_also_when_that_is_over(
        self, ground: Ground, is_heard: bool
    ) -> None:
        ground.runs("b", "m2")
        if is_heard:
            ground.hears_the_gate("b")
        ground.put_machine("m1", OUT_OF_SERVICE)
        ground.see()
        ground.put_machine("m1")
        ground.hears_the_gate("b")
        assert ground.node().is_alone
        assert not ground.node().may_run_elsewhere

    def test_where_others_have_voted_for_another_one_it_does(self, ground: Ground) -> None:
        ground.runs("b", "m2")
        ground.hears_a_server("b", link_is_up=True)
        ground.hears("b", last_word=contract.LastWord(offset=1))
        assert ground.node().is_alone

    @pytest.mark.parametrize(
        ("waits_for", "is_alone"), [("", False), ("the gate asks", False), (HELD, False), (WAITS, True)]
    )
    def test_on_one_machine_the_lock_of_the_volume_tells(
        self, ground: Ground, waits_for: str, is_alone: bool
    ) -> None:
        """It is tried for when the server knocks, and before that nobody knows."""
        ground.runs("b", "m1")
        ground.hears_the_gate("b", waits_for)
        assert ground.node().is_alone is is_alone

    def test_an_operator_that_came_later_believes_the_volume(self) -> None:
        ground = Ground()
        ground.runs("b", "m2")
        ground.hears_the_gate("b")
        assert ground.node().is_alone


class TestChangesOfPrimaries:
    """What an operator knew, and what the next one finds in the status."""

    told: ClassVar[dict[str, Any]] = {
        "formed": True,
        "shards": [{"shardIndex": 0, "primary": "g-0-0"}, {"shardIndex": 3, "primary": "g-3-0"}],
        "lastFailover": {"shard": 0, "from": "g-0-0", "to": "g-0-1", "planned": True},
    }

    def test_one_that_was_recorded_counts_until_somebody_is_seen_in_office(self, ground: Ground) -> None:
        """Whoever is in office at the first look came there by it; later the servers may have elected the same one."""
        assert ground.see(**self.told).recorded == Change(0, "g-0-0", "g-0-1", is_planned=True)
        ground.sight.note_seen(Key("prod", "g"), [1])
        assert ground.see(**self.told).recorded is not None
        ground.sight.note_seen(Key("prod", "g"), [0])
        assert ground.see(**self.told).recorded is None
        ground.sight.forget(Key("prod", "g"))
        assert ground.see(**self.told).recorded is not None

    def test_a_shard_that_has_no_nodes_has_no_primary_that_is_remembered(self, ground: Ground) -> None:
        ground.sight.note_primary(Key("prod", "g"), 0, "g-0-1")
        ground.sight.note_primary(Key("prod", "g"), 2, "g-2-0")
        assert ground.see(**self.told).primaries == {0: "g-0-1"}
        ground.caches.nodes.store.delete(ground.caches.nodes.store.get(NODE))
        assert ground.see(**self.told).primaries == {}
        ground.put_node("ValkeyCluster")
        assert ground.see(**self.told).primaries == {0: "g-0-0"}, (
            "what it knew of the shard before is forgotten"
        )


class TestNodesThatDoNotHearEachOther:
    def views(self, ground: Ground, *known: str) -> SeenSharded:
        """Of two nodes: whom the first one knows; the second one knows both."""
        ground.hears("a", server=self.server("id", *known))
        other = Key("prod", "g-0-1")
        ground.version += 1
        said = contract.Observation(
            pod_uid="c", sequence=ground.version, server=self.server("other", "id", "other")
        )
        assert ground.world.observations.take(other, said) == ""
        return ground.see()

    def server(self, own_id: str, *known: str) -> contract.Server:
        nodes = [contract.ClusterNode(id=each, address=f"{each}:1@2", is_connected=True) for each in known]
        return contract.Server(answers=True, cluster=contract.ClusterView(node_id=own_id, nodes=nodes))

    def put_other(self, ground: Ground) -> None:
        ground.put_node("ValkeyCluster", "g-0-1")
        metadata = ground.named(Metadata, "g-0-1-0", uid="c", labels={marks.NODE: "g-0-1"})
        ground.put("pods", Pod(metadata, PodSpec("m1"), PodStatus("Running")))

    def test_the_time_in_which_one_of_them_did_not_answer_does_not_count(self, ground: Ground) -> None:
        """Its machine was away: when it is back they hear each other at once, and nothing is in their way."""
        self.put_other(ground)
        self.views(ground, "id")
        for _ in range(10):
            ground.clock.time += 5
            ground.see()
        assert self.views(ground, "id").apart_for == {("g-0-0", "g-0-1"): 0}

    def test_it_is_known_for_how_long_that_is(self, ground: Ground) -> None:
        self.put_other(ground)
        assert ground.see().apart_for == {}, "one of them was never heard"
        assert self.views(ground, "id").apart_for == {("g-0-0", "g-0-1"): 0}
        for _ in range(4):
            ground.clock.time += 8
            seen = self.views(ground, "id")
        assert seen.cluster.apart_for == {("g-0-0", "g-0-1"): 32}
        assert self.views(ground, "id", "other").apart_for == {}
        assert self.views(ground, "id").apart_for == {("g-0-0", "g-0-1"): 0}
        ground.clock.time += 600
        assert self.views(ground, "id").apart_for == {("g-0-0", "g-0-1"): 0}, "nobody has looked meanwhile"


def test_how_a_primary_came_to_office_is_seen_in_both_kinds(ground: Ground) -> None:
    assert ground.node().taken_over is None
    server, taken = contract.Server(answers=True), contract.TakenOver(former="g-0-1", epoch=7)
    ground.hears("a", server=server, taken_over=taken)
    assert ground.node().taken_over == TakenOver("g-0-1", 7)
    ground.hears("a", server=server, taken_over=contract.TakenOver(former="g-0-1", is_under_way=True))
    assert ground.node().taken_over == TakenOver("g-0-1", is_under_way=True)
    ground.put_node("Valkey")
    deployment, item = Deployment("Valkey", "g", "prod", "u", {}), Custom(ManagedMetadata("g", "prod"))
    (node,) = Sight(ground.world, ground.memory).see(item, deployment, Lease()).nodes
    assert node.said is not None
    assert node.said.taken_over == TakenOver("g-0-1", is_under_way=True)


class TestValkey:
    """There a primary that gets no lease stops writing: an earlier pod is of no weight for longer than that."""

    def has_a_twin(self, ground: Ground) -> bool:
        deployment = Deployment("Valkey", "g", "prod", "u", {})
        item = Custom(ManagedMetadata("g", "prod"))
        ground.put_node("Valkey")
        (node,) = Sight(ground.world, ground.memory).see(item, deployment, Lease()).nodes
        return node.may_have_a_twin

    def test_the_next_pod_does_not_speak_for_the_one_before_until_that_is_fenced(
        self, ground: Ground
    ) -> None:
        ground.runs("b", "m2")
        ground.hears_the_gate("b")
        ground.clock.time += FENCED_AFTER_GRANT - 0.1
        assert self.has_a_twin(ground)
        ground.clock.time += 0.2
        assert not self.has_a_twin(ground)

    def test_on_one_machine_the_lock_of_the_volume_tells(self, ground: Ground) -> None:
        ground.runs("b", "m1")
        ground.hears_the_gate("b", HELD)
        ground.clock.time += 60
        assert self.has_a_twin(ground)
        ground.hears_the_gate("b")
        assert not self.has_a_twin(ground)

    def test_a_pod_whose_end_was_told_is_none(self, ground: Ground) -> None:
        ground.ends("a", "m1")
        ground.runs("b", "m2")
        ground.hears_the_gate("b")
        assert not self.has_a_twin(ground)

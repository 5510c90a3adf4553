"""What is known of a cluster's servers beside what they say: where they ran, and whether they can run still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.test_operator_memory import Clock
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key, ManagedMetadata, Metadata, OwnerReference
from valkey_operator.kube.store import Store
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import SeenSharded, ShardNode
from valkey_operator.operator.cluster_seen import ClusterSight
from valkey_operator.operator.instance_seen import Sight
from valkey_operator.operator.machines import SURELY
from valkey_operator.operator.memory import Memory
from valkey_operator.operator.observations import Observations
from valkey_operator.operator.seen import (
    OUT_OF_SERVICE,
    Claim,
    ClaimStatus,
    Custom,
    Machine,
    MachineSpec,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from valkey_operator.operator.world import BY_DEPLOYMENT, BY_NODE
from valkey_operator.render import marks

NODE = Key("prod", "g-0-0")
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
        self.caches.pods.store.add_index(BY_NODE, lambda _pod: [NODE.name])
        world: Any = SimpleNamespace(caches=self.caches, observations=Observations(self.clock))
        self.memory = Memory(lambda _node: None, self.clock)
        world.observations.on_change(self.memory.hear)
        self.world = world
        self.sight = ClusterSight(world, self.memory, Sight(world, self.memory))
        owner = OwnerReference("v1", "ValkeyCluster", "g", "u")
        self.put("nodes", Custom(self.named(ManagedMetadata, NODE.name, owner_references=(owner,)), IMAGES))
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

    def hears_a_server(self, uid: str, *, link_is_up: bool = False) -> None:
        view = contract.ClusterView(node_id="id")
        replication = contract.Replication(link_is_up=link_is_up)
        self.hears(uid, server=contract.Server(answers=True, cluster=view, replication=replication))

    def see(self) -> SeenSharded:
        item = Custom(ManagedMetadata("g", "prod"))
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

    def test_one_that_was_never_seen_is_new_rather_than_deleted(self, ground: Ground) -> None:
        """Its pod was told of before the machine was."""
        ground.runs("b", "m3")
        ground.hears_a_server("b")
        assert ground.see().gone == {}

    def test_but_not_for_ever(self, ground: Ground) -> None:
        """It was deleted before this operator came; kubelets tell of their machines every five minutes."""
        ground.runs("b", "m3")
        ground.hears_a_server("b")
        ground.clock.time += SURELY - 1
        assert ground.see().gone == {}
        ground.caches.machines.why = "watch nodes: the connection was lost"
        ground.clock.time += 2
        assert ground.see().gone == {}, "the time that it could not see does not count"
        ground.caches.machines.why = None
        assert ground.see().gone == {}
        ground.clock.time += SURELY
        assert ground.see().gone == {"id": "its machine m3 was deleted"}

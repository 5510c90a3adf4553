"""The operator's controllers, cut off before and after every write: they must end in the same world."""

from __future__ import annotations

import asyncio
import json

import pytest

from devcluster.cluster import Cluster
from tests.caches import eventually, running
from tests.sieve import cut_after_every_action
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.runtime import Runtime
from valkey_operator.kube.writer import Writer
from valkey_operator.operator.calls import LastSeen, Sidecars
from valkey_operator.operator.node import NodeController
from valkey_operator.operator.valkey import ValkeyController
from valkey_operator.operator.world import World, caches
from valkey_operator.settings.operator import OperatorSettings

MADE = "valkeynodes,statefulsets,services,configmaps,secrets,persistentvolumeclaims"
SPEC = {
    "image": "valkey-operator/valkey:9.1",
    "nodeSelector": {"no": "where"},  # nothing is to run here
    "persistence": {"size": "64Mi", "storageClassName": "standard"},
}


async def converge(way: Access, namespace: str) -> None:
    """Run the controllers until nothing is left to do."""
    async with Client(way, limit=2) as client:
        runtime = Runtime(client)
        settings = OperatorSettings(namespace, "test", "valkey-operator/operator:dev", (namespace,))
        writer = Writer(client, "valkey-operator")
        world = World(settings, client, caches(runtime, settings), writer, Recorder(client, "test", "test"))
        nodes = NodeController(world, LastSeen(), Sidecars(lambda: None, "valkey.io"))
        controllers = [nodes.controller, ValkeyController(world).controller]
        for controller in controllers:
            runtime.add(controller)
        async with running(runtime.run()):
            quiet = 0
            while quiet < 10:
                await asyncio.sleep(0.05)
                reported = any("observedGeneration" in each.status for each in world.caches.valkeys.store)
                at_work = any(len(each.queue) or each._working or each.queue._failing for each in controllers)
                quiet = quiet + 1 if reported and not at_work else 0


@pytest.mark.usefixtures("crds")
async def test_a_valkey_is_made_the_same_wherever_the_operator_was_cut_off(
    cluster: Cluster, namespace: str
) -> None:
    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return cluster.kubectl("--namespace", namespace, *arguments, stdin=stdin)

    async def reset() -> None:
        kubectl("delete", "valkeys", "--all")
        kubectl("delete", "persistentvolumeclaims", "--all", "--wait=false")
        await eventually(lambda: not made())
        head = {"apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"}}
        kubectl("apply", "-f", "-", stdin=json.dumps({**head, "spec": SPEC}))

    def made() -> list[str]:
        names = kubectl("get", MADE, "--output=name", "--selector=valkey.io/cluster").split()
        return sorted(names)

    async def check() -> object:
        users = json.loads(kubectl("get", "secret", "demo-system-users", "--output=json"))["data"]
        assert set(users) == {"users.acl", "sidecar-password", "replication-password"}
        return made()

    writes = await cut_after_every_action(
        cluster.kubeconfig, lambda way: converge(way, namespace), check, reset
    )
    assert len(writes) >= 8
    assert await check() == [
        "configmap/demo-0-config",
        "persistentvolumeclaim/demo-0-data",
        "secret/demo-system-users",
        "service/demo",
        "service/demo-0",
        "statefulset.apps/demo-0",
        "valkeynode.valkey.io/demo-0",
    ]

"""The node controller against a real API server: pods that nobody runs, and a sidecar that says what the test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from devcluster.cluster import Cluster
from tests.apiserver.test_operator_cuts import SPEC
from tests.caches import eventually, running
from valkey_operator.contract.channel import Unanswered
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.certificates import CertificateController
from valkey_operator.operator.node import NodeController
from valkey_operator.operator.roots import RootController
from valkey_operator.operator.seen import Custom, Pod
from valkey_operator.operator.valkey import ValkeyController
from valkey_operator.operator.world import World
from valkey_operator.settings.operator import OperatorSettings
from valkey_operator.valkey import config_file

RUNNING = {
    "phase": "Running",
    "podIP": "198.18.99.99",
    "conditions": [{"type": "Ready", "status": "True"}],
}
MEMORY = 2**20


class Sidecar:
    """Of the only pod; silent until it is told what to say."""

    def __init__(self) -> None:
        self.says: contract.Observation | None = None
        self.asked = 0

    async def observe(
        self,
        _node: Custom,
        pod: Pod,
        limit: float = 1.0,  # noqa: ARG002
        *,
        slot_keys: bool = False,  # noqa: ARG002
    ) -> contract.Observation:
        self.asked += 1
        if self.says is None:
            raise Unanswered("no answer")
        self.says.pod_uid = pod.metadata.uid
        self.says.sequence += 1
        return self.says

    async def act(self, _node: Custom, _pod: Pod, order: contract.Order) -> contract.Outcome:
        raise Unanswered(f"nobody carries out {order.WhichOneof('order')}")


class Place:
    """One Valkey in a namespace of its own, and the controllers that look after it."""

    def __init__(self, cluster: Cluster, namespace: str, world: World, sidecar: Sidecar) -> None:
        self._cluster, self._namespace = cluster, namespace
        self.world, self.sidecar = world, sidecar
        self.heard = 0
        self.nodes = NodeController(world, sidecar)
        roots = RootController(world)
        self.certificates = CertificateController(world, roots)
        made = (self.nodes, ValkeyController(world, sidecar), roots, self.certificates)
        self.controllers = [each.controller for each in made]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("--namespace", self._namespace, *arguments, stdin=stdin)

    def wish(self, **more: Any) -> None:
        head = {"apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"}}
        self.kubectl("apply", "-f", "-", stdin=json.dumps({**head, "spec": {**SPEC, **more}}))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    def status(self) -> dict[str, Any]:
        node = self.world.caches.nodes.store.get(Key(self._namespace, "demo-0"))
        return node.status if node is not None else {}

    def says(self, kind: str = "valkeynode", name: str = "demo-0") -> str:
        return str(self.get(kind, name).get("status", {}).get("message", ""))

    async def has_pod(self) -> None:
        """The StatefulSet has made its pod, and it runs as far as the API server knows."""
        key = Key(self._namespace, "demo-0-0")
        await eventually(lambda: key in self.world.caches.pods.store)
        self.kubectl(
            "patch", "pod", "demo-0-0", "--subresource=status", f"--patch={json.dumps({'status': RUNNING})}"
        )
        await eventually(lambda: self.status().get("ready") is True)

    def mounted(self) -> str:
        text = self.get("configmap", "demo-0-config")["data"]["valkey.conf"]
        return config_file.fingerprint(config_file.parse(text))

    def hear(self, observation: contract.Observation) -> None:
        """As a heartbeat would bring it."""
        observation.pod_uid = self.get("pod", "demo-0-0")["metadata"]["uid"]
        self.heard += 1
        observation.run = self.heard
        self.sidecar.says = observation
        key = Key(self._namespace, "demo-0")
        self.world.observations.take(key, observation)
        self.nodes.controller.wake(key)


@asynccontextmanager
async def looked_after(cluster: Cluster, namespace: str) -> AsyncIterator[Place]:
    way = access.from_kubeconfig(str(cluster.kubeconfig))
    async with Client(way) as client:
        runtime = Runtime(client)
        settings = OperatorSettings(namespace, "test", "valkey-operator/operator:dev", (namespace,))
        world = World.of(settings, client, runtime, Recorder(client, "test", "test"), lambda: 0.0)
        place = Place(cluster, namespace, world, Sidecar())
        for controller in place.controllers:
            runtime.add(controller)
        async with running(runtime.run()):
            yield place


@pytest.fixture
async def place(crds: Cluster, namespace: str, no_operator: None) -> AsyncIterator[Place]:  # noqa: ARG001
    async with looked_after(crds, namespace) as made:
        yield made


def observation(mounted: str, in_force: str = "", **more: Any) -> contract.Observation:
    server = contract.Server(answers=True, version="9.1.0", role=contract.ROLE_PRIMARY)
    prints = contract.Fingerprints(config=in_force or mounted)
    config = contract.Configuration(mounted=mounted, **more)
    return contract.Observation(server=server, sidecar_version="1", fingerprints=prints, configuration=config)


async def test_what_the_sidecar_says_is_in_the_status_and_then_nothing_is_written(place: Place) -> None:
    place.wish()
    await place.has_pod()
    place.hear(observation(place.mounted()))
    await eventually(lambda: place.status().get("configFingerprint") == place.mounted())
    status = place.status()
    assert (status["observedRole"], status["valkeyVersion"]) == ("primary", "9.1.0")
    assert status["podUID"] == place.get("pod", "demo-0-0")["metadata"]["uid"]
    # The last that is told of it, by Kubernetes and by another controller of ours.
    await eventually(lambda: place.get("statefulset", "demo-0")["status"].get("availableReplicas") == 1)
    await eventually(
        lambda: place.get("pod", "demo-0-0")["metadata"]["labels"].get("valkey.io/role") == "primary"
    )
    before = [version(place.get(*each)) for each in KNOWN]
    asked = place.sidecar.asked
    for _ in range(5):
        place.nodes.controller.wake(Key(place.get("pod", "demo-0-0")["metadata"]["namespace"], "demo-0"))
        await asyncio.sleep(0.1)
    assert [version(place.get(*each)) for each in KNOWN] == before
    assert place.sidecar.asked == asked


def version(found: dict[str, Any]) -> object:
    """Changes with whatever is written; of a pod with all but its status, which the operator has no right to write."""
    metadata = found["metadata"]
    if found["kind"] != "Pod":
        return metadata["resourceVersion"]
    del metadata["resourceVersion"]
    return metadata, found["spec"]


KNOWN = [
    ("valkeynode", "demo-0"), ("pod", "demo-0-0"), ("configmap", "demo-0-config"), ("statefulset", "demo-0"),
    ("pvc", "demo-0-data"),
]  # fmt: skip


async def test_the_kubelet_is_told_once_to_bring_a_changed_configuration(place: Place) -> None:
    place.wish(update={"strategy": "OnDelete"})
    await place.has_pod()
    old = place.mounted()
    place.hear(observation(old))
    place.wish(config={"databases": 5}, update={"strategy": "OnDelete"})
    await eventually(lambda: place.mounted() != old)
    new = place.mounted()

    def inputs() -> str:
        return str(place.get("pod", "demo-0-0")["metadata"]["annotations"].get("valkey.io/inputs", ""))

    await eventually(lambda: inputs() == new)
    assert place.status()["needsRestart"] is False
    place.hear(observation(new, old, needs_restart=["databases"]))
    await eventually(lambda: place.status()["needsRestart"])
    assert "databases can be set at the server's start only" in place.status()["needsRestartReason"]


async def test_memory_is_taken_from_a_pod_only_when_the_server_uses_less(place: Place) -> None:
    place.wish(resources={"limits": {"memory": "512Mi"}})
    await place.has_pod()
    place.wish(resources={"limits": {"memory": "256Mi"}})
    await eventually(lambda: "is not known" in place.says())
    seen = observation(place.mounted())
    lower = int(256 * MEMORY * 0.70)
    seen.server.memory.MergeFrom(contract.Memory(used_bytes=300 * MEMORY, max_bytes=lower))
    place.hear(seen)
    await eventually(lambda: "more than the" in place.says())
    assert _limit(place) == "512Mi"
    seen.server.memory.used_bytes = 100 * MEMORY
    place.hear(seen)
    await eventually(lambda: _limit(place) == "256Mi")
    assert _uid(place) == place.status()["podUID"]


def _uid(place: Place) -> str:
    return place.kubectl(
        "get", "pod", "demo-0-0", "--ignore-not-found", "--output=jsonpath={.metadata.uid}"
    ).strip()


def _limit(place: Place) -> str:
    containers = {each["name"]: each for each in place.get("pod", "demo-0-0")["spec"]["containers"]}
    return str(containers["valkey"]["resources"]["limits"]["memory"])

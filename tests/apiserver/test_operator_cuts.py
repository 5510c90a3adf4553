"""The operator's controllers, cut off at every write: they must end in the same world.

`CUTS=all` (`make chaos`) cuts before and after each, and loses the answer; otherwise it is one of them in turn.
"""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from devcluster.cluster import Cluster
from tests.caches import eventually, running
from tests.sieve import cut_after_every_action, each_way, ways_in_turn
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator import certificates
from valkey_operator.operator.calls import Sidecars
from valkey_operator.operator.hearing import Hearing
from valkey_operator.operator.main import controllers
from valkey_operator.operator.world import World
from valkey_operator.settings.operator import OperatorSettings

MADE = (
    "valkeynodes,statefulsets,services,configmaps,secrets,persistentvolumeclaims,"
    "valkeycertificatebundles,valkeycertificatebindings"
)
CUTS = each_way if os.environ.get("CUTS") == "all" else ways_in_turn
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
        world = World.of(settings, client, runtime, Recorder(client, "test", "test"), lambda: 0.0)
        leadership = Leadership(client, Key(namespace, "test"), "test")
        hearing = Hearing(world, leadership)
        made = controllers(world, hearing, Sidecars(lambda: None, settings.trust_domain, leadership))
        for controller in made:
            runtime.add(controller)
        async with running(runtime.run()):
            quiet = 0
            while quiet < 10:
                await asyncio.sleep(0.05)
                reported = any("observedGeneration" in each.status for each in world.caches.valkeys.store)
                at_work = any(len(each.queue) or each._working or each.queue._failing for each in made)
                quiet = quiet + 1 if reported and not at_work else 0


@pytest.mark.usefixtures("crds", "no_operator")
async def test_a_valkey_is_made_the_same_wherever_the_operator_was_cut_off(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "QUIET", 0.0)

    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return cluster.kubectl("--namespace", namespace, *arguments, stdin=stdin)

    async def reset() -> None:
        kubectl("delete", "valkeys,valkeycas", "--all")
        kubectl("delete", "secrets", "--all")
        kubectl("delete", "persistentvolumeclaims", "--all", "--wait=false")
        await eventually(
            lambda: not made(), 180
        )  # the controller manager lags behind where the API was cut before
        head = {"apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "metadata": {"name": "demo"}}
        kubectl("apply", "-f", "-", stdin=json.dumps({**head, "spec": SPEC}))

    def made() -> list[str]:
        names = kubectl("get", MADE, "--output=name", "--selector=valkey.io/cluster").split()
        return sorted(names)

    async def check() -> object:
        users = json.loads(kubectl("get", "secret", "demo-system-users", "--output=json"))["data"]
        assert set(users) == {"users.acl", "sidecar-password", "replication-password", "exporter.json"}
        for name in ("demo-0-mtls", "valkey-operator-mtls"):
            shown = json.loads(kubectl("get", "secret", name, "--output=json"))["data"]
            assert set(shown) == {"tls.crt", "tls.key", "ca.crt"}
        return made()

    writes = await cut_after_every_action(
        cluster.kubeconfig, lambda way: converge(way, namespace), check, reset, cuts=CUTS
    )
    assert len(writes) >= 8
    assert await check() == [
        "configmap/demo-0-config",
        "persistentvolumeclaim/demo-0-data",
        "secret/demo-0-mtls",
        "secret/demo-connection",
        "secret/demo-mtls-ca",
        "secret/demo-system-users",
        "service/demo",
        "service/demo-0",
        "service/demo-headless",
        "statefulset.apps/demo-0",
        "valkeycertificatebinding.valkey.io/demo-cert-binding",
        "valkeycertificatebundle.valkey.io/demo-cert-bundle",
        "valkeynode.valkey.io/demo-0",
    ]

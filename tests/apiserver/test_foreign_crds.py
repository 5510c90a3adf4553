"""Another operator's CRD under a name of ours: what would install or start ours stops, and changes nothing of it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import aiohttp
import pytest

from devcluster import helm, waiting
from devcluster.cluster import Cluster
from devcluster.command import CommandFailed
from devcluster.helm import Helm
from devcluster.progress import Progress
from devcluster.provider import checkout
from tests.caches import eventually, open_sockets, running
from valkey_operator.api.foreign import ADVICE, refusal
from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.resources import Resource
from valkey_operator.operator import main
from valkey_operator.operator.own_kinds import OwnKinds
from valkey_operator.settings.operator import OperatorSettings

# No controller works with it, so that taking it away for a moment disturbs nobody on this cluster.
NAME = f"valkeymulticlusters.{GROUP}"
RESOURCE = Resource("ValkeyMultiCluster", "valkeymulticlusters", GROUP, VERSION)
FOREIGN = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "ValkeyMultiCluster", "listKind": "ValkeyMultiClusterList", "plural": "valkeymulticlusters",
            "singular": "valkeymulticluster",
        },
        "versions": [
            {
                "name": VERSION, "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}  # fmt: skip
SENTENCE = f"{NAME}: {ADVICE}"
NOT_YET = ("the server could not find", "storage is (re)initializing")


def await_served(cluster: Cluster) -> None:
    """A new CRD has no conditions at all for a moment, at which `kubectl wait` and its JSON paths end with an error.

    And one that is deleted before anybody has asked for its objects may never end: its storage is made with the first
    question, which is the API server's own then, and which is not asked again where that has failed.
    """

    def is_served() -> bool:
        found = json.loads(cluster.kubectl("get", "crd", NAME, "--output=json"))
        conditions = found["status"].get("conditions") or []
        if not any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
            return False
        try:
            cluster.kubectl("get", "--raw", f"/apis/{GROUP}/{VERSION}/{RESOURCE.plural}")
        except CommandFailed as error:
            if not any(sentence in str(error) for sentence in NOT_YET):
                raise
            return False
        return True

    waiting.until(is_served, f"{NAME} being served", 60)


def ours(cluster: Cluster) -> None:
    """As it was before, without the other's fields."""
    cluster.kubectl("delete", "crd", NAME, "--ignore-not-found", "--wait")
    cluster.kubectl(
        "apply", "--server-side", "-f", checkout() / "deploy" / "crds" / "valkeymulticlusters.yaml"
    )
    await_served(cluster)


@pytest.fixture
def foreign(crds: Cluster) -> Iterator[Cluster]:
    crds.kubectl("delete", "crd", NAME, "--wait")
    crds.kubectl("create", "-f", "-", stdin=json.dumps(FOREIGN))
    await_served(crds)
    yield crds
    ours(crds)


def version(cluster: Cluster) -> str:
    return cluster.kubectl("get", "crd", NAME, "--output=jsonpath={.metadata.resourceVersion} {.spec}")


def install(cluster: Cluster, name: str, namespace: str, *more: str) -> str:
    charts = Helm(helm.program(Progress()), cluster.kubeconfig)
    chart = checkout() / "charts" / "valkey-operator"
    return charts("upgrade", "--install", name, chart, "--namespace", namespace, "--take-ownership", *more)


def test_helm_refuses_and_changes_nothing(foreign: Cluster, namespace: str) -> None:
    before = version(foreign)
    with pytest.raises(CommandFailed) as refused:
        install(foreign, "beside", namespace)
    assert SENTENCE in " ".join(str(refused.value).split())
    assert version(foreign) == before
    assert "beside" not in foreign.kubectl("get", "all", "--namespace", namespace)


def test_helm_takes_our_own_crds_for_ours(crds: Cluster) -> None:
    made = install(crds, "valkey-operator", "valkey-system", "--create-namespace", "--dry-run=server")
    assert "kind: Deployment" in made


async def test_the_operator_waits_until_the_crds_are_ours(foreign: Cluster) -> None:
    async with Client(access.from_kubeconfig(str(foreign.kubeconfig))) as client:
        kinds = OwnKinds(client, [RESOURCE])
        async with running(kinds.confirm()):
            await eventually(lambda: kinds.trouble() == refusal({NAME: []}))
            await asyncio.to_thread(foreign.kubectl, "delete", "crd", NAME, "--wait")
            await eventually(
                lambda: kinds.trouble() == f"{NAME}: not installed; install the CRDs of this version"
            )
            await asyncio.to_thread(ours, foreign)
            await eventually(lambda: kinds.trouble() is None)


async def test_the_operator_starts_on_crds_of_ours(
    crds: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(crds.kubeconfig))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    settings = OperatorSettings(namespace, "one_127.0.0.1_x", "x", namespaces=(namespace,), health_port=port)

    async def is_ready() -> bool:
        try:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return answer.status == 200 and "[+]custom resources ok" in await answer.text()
        except aiohttp.ClientConnectionError:  # it does not listen yet
            return False

    sockets = open_sockets()
    async with aiohttp.ClientSession() as session, running(main.run(settings)):
        await eventually(is_ready)
    await eventually(lambda: open_sockets() <= sockets)

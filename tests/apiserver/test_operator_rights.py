"""With the rights that the chart gives it for some namespaces: one of them goes, and the operator loses no other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import yaml

from devcluster.cluster import Cluster
from devcluster.faults import Faults
from devcluster.fixtures import own_namespace
from tests.caches import PATIENCE, eventually, running
from tools import chart
from valkey_operator.kube import access, informer
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.world import MANAGER, Caches, caches
from valkey_operator.settings.operator import OperatorSettings

LABELS = "app.kubernetes.io/managed-by=valkey-operator"


class Ground:
    """The operator's own namespace, one that stays and one that goes, and what the chart lets it do there."""

    def __init__(self, cluster: Cluster, own: str, stays: str, goes: str) -> None:
        self.cluster, self.own, self.stays, self.goes = cluster, own, stays, goes
        setting = {"crds": {"install": False}, "watch": {"namespaces": [stays, goes]}}
        made = [
            each for each in yaml.safe_load_all(chart.rendered(setting).replace(chart.NAMESPACE, own)) if each
        ]
        self.rights = yaml.safe_dump_all(
            each for each in made if re.search("Role|ServiceAccount", each["kind"])
        )

    def access(self) -> Access:
        token = self.cluster.kubectl("create", "token", MANAGER, "--namespace", self.own).strip()
        return access.with_token(access.from_kubeconfig(str(self.cluster.kubeconfig)), token)

    def put(self, namespace: str, *names: str) -> None:
        for name in names:
            self.cluster.kubectl("create", "configmap", name, "--namespace", namespace)
            self.cluster.kubectl("label", "configmap", name, LABELS, "--namespace", namespace)

    def make(self) -> None:
        self.cluster.kubectl("create", "namespace", self.goes)
        self.cluster.kubectl("apply", "-f", "-", stdin=self.rights)


@pytest.fixture
def ground(crds: Cluster) -> Iterator[Ground]:
    with own_namespace(crds) as own, own_namespace(crds) as stays:
        goes = f"{stays}-goes"
        made = Ground(crds, own, stays, goes)
        made.make()
        try:
            yield made
        finally:
            crds.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=made.rights)
            crds.kubectl("delete", "namespace", goes, "--ignore-not-found")


@asynccontextmanager
async def watching(ground: Ground) -> AsyncIterator[tuple[Runtime, Caches]]:
    """An operator that has just started, and does nothing but look."""
    async with Client(ground.access()) as client:
        runtime = Runtime(client)
        settings = OperatorSettings(ground.own, "one", "image", namespaces=(ground.stays, ground.goes))
        found = caches(runtime, settings)
        async with running(runtime.run()):
            yield runtime, found


def trouble(runtime: Runtime) -> list[str]:
    return [why for check in runtime.checks().values() if (why := check())]


async def test_a_namespace_that_is_deleted_takes_the_operator_away_from_no_other(
    ground: Ground, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "GONE_AGAIN", 0.5)
    ground.put(ground.goes, "a", "b")
    ground.put(ground.stays, "c")
    async with watching(ground) as (runtime, found):
        await eventually(lambda: not trouble(runtime) and len(found.config_maps.store) == 3)
        await asyncio.to_thread(ground.cluster.kubectl, "delete", "namespace", ground.goes, timeout=120)
        faults.restart("api")  # what is watched is listed anew
        await eventually(lambda: bool(trouble(runtime)))
        await eventually(lambda: not trouble(runtime))
        assert [item.key for item in found.config_maps.store] == [Key(ground.stays, "c")]
    async with watching(ground) as (runtime, found):
        for cache in runtime._informers:
            await asyncio.wait_for(cache.synced(), PATIENCE)
        await eventually(lambda: not trouble(runtime))
        ground.make()
        ground.put(ground.goes, "again")
        await eventually(lambda: Key(ground.goes, "again") in found.config_maps.store)
        await eventually(lambda: not trouble(runtime))


async def test_what_may_not_be_seen_in_a_namespace_that_is_there_is_not_taken_for_gone(
    ground: Ground, faults: Faults
) -> None:
    ground.put(ground.goes, "a")
    async with watching(ground) as (runtime, found):
        await eventually(lambda: not trouble(runtime) and len(found.config_maps.store) == 1)
        ground.cluster.kubectl("delete", "rolebinding", MANAGER, "--namespace", ground.goes)
        faults.restart("api")
        await eventually(lambda: any("configmaps" in why for why in trouble(runtime)))
        await asyncio.sleep(3)
        assert any("configmaps" in why for why in trouble(runtime))
        assert Key(ground.goes, "a") in found.config_maps.store

"""Writing only what differs, seeing what others changed, and never deciding on a stale cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from devcluster.cluster import Cluster
from tests.caches import eventually, filled
from tests.interloper import Interloper
from valkey_operator.kube import access, errors
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, ManagedObject, Object
from valkey_operator.kube.resources import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
    Selection,
)
from valkey_operator.kube.writer import Writer

METADATA = Selection(metadata_only=True)


@pytest.fixture
async def between(cluster: Cluster) -> AsyncIterator[Interloper]:
    async with Interloper(cluster.kubeconfig) as made:
        yield made


@pytest.fixture
async def client(between: Interloper) -> AsyncIterator[Client]:
    async with Client(between.access, limit=5) as made:
        yield made


@pytest.fixture
async def somebody(cluster: Cluster) -> AsyncIterator[Client]:
    """Another one who writes, past the interloper."""
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as made:
        yield made


@pytest.fixture
def writer(client: Client) -> Writer:
    return Writer(client, "us")


def config(namespace: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"app": "x"}}, "data": data}


def stateful_set(namespace: str, **changes: Any) -> dict[str, Any]:
    container = {
        "name": "valkey",
        "image": "valkey-operator/valkey:9.1",
        "args": ["--save", ""],
        "ports": [{"name": "valkey", "containerPort": 6379}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {"limits": {"memory": "1024Mi", "cpu": "0.5"}},
        "volumeMounts": [{"name": "run", "mountPath": "/run"}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "replicas": 0,
        "serviceName": "x",
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}, "annotations": {}},
            "spec": {
                "containers": [container],
                "volumes": [{"name": "run", "emptyDir": {}}],
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "nodeSelector": None,
            },
        },
        **changes,
    }
    return {"metadata": {"name": "set", "namespace": namespace}, "spec": spec}


SERVICE_SPEC = {
    "selector": {"app": "x"},
    "ports": [{"name": "a", "port": 6379, "targetPort": "valkey"}, {"name": "b", "port": 6380}],
}


def kinds(namespace: str) -> list[tuple[Resource, dict[str, Any]]]:
    place = {"name": "x", "namespace": namespace}
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    return [
        (CONFIG_MAPS, config(namespace, a="1")),
        (SECRETS, {"metadata": place, "data": {"password": "c2VjcmV0"}}),
        (SERVICES, {"metadata": {**place, "finalizers": ["valkey.io/test"]}, "spec": SERVICE_SPEC}),
        (STATEFUL_SETS, stateful_set(namespace)),
        (DISRUPTION_BUDGETS, {"metadata": place, "spec": budget}),
    ]


def reached(cache: Informer[Any], there: Object) -> bool:
    """The cache has seen that version of the object, or a later one."""
    known = cache.store.get(there.key)
    return known is not None and known.version >= there.version


async def test_the_same_wish_is_sent_once_whatever_defaults_the_server_adds(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    for resource, wanted in kinds(namespace):
        cache = Informer(client, resource, ManagedObject, [namespace], METADATA)
        async with filled(cache):
            assert (await writer.apply(cache, wanted)).outcome == "created"
            writes = len(between.writes)
            for again in (
                writer,
                Writer(client, "us"),
            ):  # a new process knows nothing, and needs to know nothing
                applied = await again.apply(cache, wanted)
                assert (resource.kind, applied.outcome) == (resource.kind, "unchanged")
            assert len(between.writes) == writes
    await client.patch(SERVICES, Key(namespace, "x"), {"metadata": {"finalizers": None}}, Object)


async def test_a_new_wish_is_applied_and_what_it_no_longer_names_goes(
    client: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        await writer.apply(cache, config(namespace, a="1", b="2"))
        assert (await writer.apply(cache, config(namespace, a="3"))).outcome == "changed"
        found = await client.get(CONFIG_MAPS, Key(namespace, "a"), dict)
        assert found["data"] == {"a": "3"}


async def test_somebody_s_change_is_undone_and_told_field_by_field(
    client: Client, somebody: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, STATEFUL_SETS, ManagedObject, [namespace], METADATA)
    async with filled(cache):
        first = await writer.apply(cache, stateful_set(namespace, replicas=0))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "valkey", "image": "other:1"}]}}}}
        there = await somebody.patch(
            STATEFUL_SETS, first.item.key, change, Object, form="merge", manager="kubectl-edit"
        )
        await eventually(lambda: reached(cache, there))
        applied = await writer.apply(cache, stateful_set(namespace, replicas=0))
        assert applied.outcome == "restored"
        told = [str(difference) for difference in applied.undone]
        image = '.spec.template.spec.containers[name=valkey].image: "valkey-operator/valkey:9.1" wanted'
        assert any(line.startswith(image) and line.endswith("changed by kubectl-edit") for line in told), told
        again = await writer.apply(cache, stateful_set(namespace, replicas=0))
        assert again.outcome == "unchanged"


async def test_a_scale_by_somebody_is_drift_too(
    client: Client, somebody: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, STATEFUL_SETS, ManagedObject, [namespace], METADATA)
    async with filled(cache):
        first = await writer.apply(cache, stateful_set(namespace))
        key = first.item.key
        there = await somebody.patch(
            STATEFUL_SETS, key, {"spec": {"replicas": 1}}, Object, subresource="scale", manager="hpa"
        )
        await eventually(lambda: reached(cache, there))
        applied = await writer.apply(cache, stateful_set(namespace))
        assert [str(line) for line in applied.undone] == [".spec.replicas: 0 wanted, 1 found, changed by hpa"]


async def test_a_secret_s_drift_shows_no_value(
    client: Client, somebody: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, SECRETS, ManagedObject, [namespace], METADATA)
    wanted = {"metadata": {"name": "s", "namespace": namespace}, "data": {"password": "c2VjcmV0"}}
    async with filled(cache):
        first = await writer.apply(cache, wanted)
        change = {"data": {"password": "aGFja2Vk"}}
        there = await somebody.patch(SECRETS, first.item.key, change, Object, manager="kubectl-edit")
        await eventually(lambda: reached(cache, there))
        [difference] = (await writer.apply(cache, wanted)).undone
        assert str(difference) == ".data.password: (hidden) wanted, (hidden) found, changed by kubectl-edit"
        found = await somebody.get(SECRETS, first.item.key, dict)
        assert found["data"] == wanted["data"]


async def test_a_field_of_another_manager_is_not_taken_without_force_and_the_manager_is_named(
    client: Client, somebody: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config(namespace, a="theirs")}
    await somebody.apply(CONFIG_MAPS, Key(namespace, "a"), body, Object, manager="argocd")
    async with filled(cache):
        with pytest.raises(errors.OwnershipConflict) as conflict:
            await writer.apply(cache, config(namespace, a="ours"))
        assert conflict.value.owners == {".data.a": "argocd"}
        assert (await writer.apply(cache, config(namespace, a="ours"), force=True)).outcome == "changed"


async def test_fields_of_others_are_left_alone(
    client: Client, somebody: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        first = await writer.apply(cache, config(namespace, a="1"))
        there = await somebody.patch(CONFIG_MAPS, first.item.key, {"data": {"theirs": "x"}}, Object)
        await eventually(lambda: reached(cache, there))
        writes = len(between.writes)
        assert (await writer.apply(cache, config(namespace, a="1"))).outcome == "unchanged"
        assert len(between.writes) == writes


async def test_what_others_have_made_is_not_made_ours_because_we_do_not_see_it(
    client: Client, somebody: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace], Selection(labels="app=x"))
    theirs = {"metadata": {"name": "a", "namespace": namespace}, "data": {"theirs": "1"}}
    await somebody.create(CONFIG_MAPS, namespace, {"apiVersion": "v1", "kind": "ConfigMap", **theirs}, Object)
    async with filled(cache):
        with pytest.raises(errors.Taken, match="ConfigMap a is there already"):
            await writer.apply(cache, config(namespace, a="1"))
        assert between.writes == []
        ours = (await writer.apply(cache, config(namespace, "b", a="1"))).item
        # Ours it stays, also when somebody takes away what it is found by.
        gone = await somebody.patch(CONFIG_MAPS, ours.key, {"metadata": {"labels": None}}, Object)
        await eventually(lambda: ours.key not in cache.store)
        assert (
            await writer.apply(cache, config(namespace, "b", a="1"))
        ).item.metadata.uid == gone.metadata.uid


async def test_an_object_made_anew_under_the_same_name_is_not_written_into(
    client: Client, somebody: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        first = await writer.apply(cache, config(namespace, a="1"))
        between.drop_events(lambda _kind, item: item["metadata"]["name"] == "a", count=10)
        await somebody.delete(CONFIG_MAPS, first.item.key)
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config(namespace, a="foreign")}
        await somebody.create(CONFIG_MAPS, namespace, body, Object)
        with pytest.raises(errors.Conflict):
            await writer.apply(cache, config(namespace, a="2"))


async def test_a_write_is_in_the_cache_before_the_watch_tells_it(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        between.drop_events(lambda _kind, item: item["metadata"]["name"].startswith("a"), count=10)
        made = [(await writer.apply(cache, config(namespace, f"a{n}"))).item for n in range(3)]
        assert {item.key for item in made} <= {item.key for item in cache.store}
        await writer.delete(cache, made[0])
        assert made[0].key not in cache.store


async def test_after_a_write_without_an_answer_the_object_is_looked_at_before_anything_is_decided(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    """The create took place, its answer and its event are lost: the cache alone would lead to a second one."""
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    key = Key(namespace, "a")
    async with filled(cache):
        between.drop_events(lambda _kind, item: item["metadata"]["name"] == "a", count=10)
        between.cut_after(1)
        with pytest.raises(errors.Unreachable):
            await writer.apply(cache, config(namespace, a="1"))
        assert key not in cache.store
        with pytest.raises(errors.Unreachable):
            await writer.settle()
        between.heal()
        await writer.settle()
        assert key in cache.store
        assert (await writer.apply(cache, config(namespace, a="1"))).outcome == "unchanged"


async def test_a_write_cut_off_by_its_deadline_is_in_doubt_too(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        between.freeze()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await writer.apply(cache, config(namespace, a="1"))
        between.heal()
        requests = len(between.requests)
        await writer.settle()
        assert [asked.method for asked in between.requests[requests:]].count("GET") >= 1


class WithStatus(ManagedObject, frozen=True, gc=False):
    status: dict[str, Any] = msgspec.field(default_factory=dict)


CLUSTERS = Resource("ValkeyCluster", "valkeyclusters", "valkey.io", "v1alpha1")


@pytest.mark.usefixtures("crds")
async def test_status_is_written_once_per_change(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CLUSTERS, WithStatus, [namespace])
    async with filled(cache):
        seen = await make_cluster(client, cache, namespace)
        after = await writer.status(cache, seen, seen.status, {"message": "hello"})
        assert after.status == {"message": "hello"}
        writes = len(between.writes)
        assert await writer.status(cache, after, after.status, {"message": "hello"}) == after
        assert len(between.writes) == writes
        emptied = await writer.status(cache, after, after.status, {"state": "Ready"})
        assert emptied.status == {"state": "Ready"}


@pytest.mark.usefixtures("crds")
async def test_a_record_that_decides_is_written_only_onto_what_was_seen(
    client: Client, somebody: Client, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CLUSTERS, WithStatus, [namespace])
    async with filled(cache):
        seen = await make_cluster(client, cache, namespace)
        await somebody.patch(CLUSTERS, seen.key, {"metadata": {"labels": {"x": "y"}}}, Object)
        with pytest.raises(errors.Conflict):
            await writer.status(cache, seen, {}, {"message": "mine"}, compare=True)
        await eventually(lambda: cache.store.get(seen.key) != seen)
        newer = cache.store.get(seen.key)
        assert newer is not None
        assert (await writer.status(cache, newer, {}, {"message": "mine"}, compare=True)).status


async def make_cluster(client: Client, cache: Informer[WithStatus], namespace: str) -> WithStatus:
    body = {
        "apiVersion": CLUSTERS.api_version,
        "kind": "ValkeyCluster",
        "metadata": {"name": "c", "namespace": namespace},
        "spec": {"shards": 3, "replicas": 1},
    }
    made = await client.create(CLUSTERS, namespace, body, WithStatus)
    await eventually(lambda: cache.store.get(made.key) is not None)
    found = cache.store.get(made.key)
    assert found is not None
    return found


async def test_deleting_what_is_gone_is_no_error_and_another_of_that_name_is_not_hit(
    client: Client, somebody: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, CONFIG_MAPS, ManagedObject, [namespace])
    async with filled(cache):
        first = (await writer.apply(cache, config(namespace, a="1"))).item
        between.drop_events(lambda _kind, item: item["metadata"]["name"] == "a", count=10)
        await somebody.delete(CONFIG_MAPS, first.key)
        await writer.delete(cache, first)
        assert first.key not in cache.store
        body = {"apiVersion": "v1", "kind": "ConfigMap", **config(namespace, a="foreign")}
        await somebody.create(CONFIG_MAPS, namespace, body, Object)
        with pytest.raises(errors.Conflict):
            await writer.delete(cache, first)


async def test_a_pod_that_was_evicted_is_seen_to_be_going(
    client: Client, between: Interloper, writer: Writer, namespace: str
) -> None:
    cache = Informer(client, PODS, ManagedObject, [namespace])
    container = {"name": "c", "image": "valkey-operator/valkey:9.1"}
    spec = {"containers": [container], "nodeSelector": {"no": "where"}, "terminationGracePeriodSeconds": 60}
    metadata = {"name": "p", "finalizers": ["valkey.io/test"]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    async with filled(cache):
        pod = await client.create(PODS, namespace, body, ManagedObject)
        await eventually(lambda: pod.key in cache.store)
        between.drop_events(lambda _kind, _item: True, count=10)
        await writer.evict(cache, pod)
        going = cache.store.get(pod.key)
        assert going is not None
        assert going.metadata.deletion_timestamp
    await client.patch(PODS, pod.key, {"metadata": {"finalizers": None}}, Object)

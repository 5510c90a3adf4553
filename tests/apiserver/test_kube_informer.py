"""The cache stays true, whatever happens to the server and the way to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from devcluster.cluster import Cluster
from devcluster.faults import Faults
from tests.caches import (
    becomes_what_the_server_has,
    eventually,
    filled,
    nothing_left_running,
    open_sockets,
    versions,
)
from tests.interloper import Interloper
from valkey_operator.kube import access, errors, informer
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Fields, Key, ManagedObject, Object
from valkey_operator.kube.resources import CONFIG_MAPS, SECRETS, Resource, Selection


class Settings(Object, frozen=True, gc=False):
    """A ConfigMap, by the one field that is read here."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """Asks the server directly; what it opened is closed with it."""
    async with nothing_left_running():
        sockets = open_sockets()
        async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as made:
            yield made
        await eventually(lambda: open_sockets() <= sockets)


@pytest.fixture
async def between(cluster: Cluster) -> AsyncIterator[Interloper]:
    async with Interloper(cluster.kubeconfig) as made:
        yield made


@pytest.fixture
async def watcher(between: Interloper) -> AsyncIterator[Client]:
    """Asks through the interloper."""
    async with Client(between.access) as made:
        yield made


async def write(client: Client, namespace: str, name: str, **data: str) -> Settings:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return await client.apply(CONFIG_MAPS, Key(namespace, name), body, Settings, manager="test", force=True)


async def write_many(client: Client, namespace: str, count: int, start: int = 0) -> None:
    await asyncio.gather(*(write(client, namespace, f"c{n}", n=str(n)) for n in range(start, start + count)))


async def test_changes_reach_the_store_and_its_handlers(client: Client, namespace: str) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace])
    seen: list[tuple[bool, bool]] = []
    async with filled(cache):
        cache.store.on_change(lambda before, after: seen.append((before is not None, after is not None)))
        await write(client, namespace, "a", x="1")
        await eventually(lambda: Key(namespace, "a") in cache.store)
        changed = await write(client, namespace, "a", x="2")
        await eventually(lambda: cache.store.get(changed.key) == changed)
        await client.delete(CONFIG_MAPS, changed.key)
        await eventually(lambda: changed.key not in cache.store)
    assert seen == [(False, True), (True, True), (True, False)]


async def test_only_the_namespaces_named_are_seen(client: Client, namespace: str) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace, "kube-public"])
    async with filled(cache):
        assert {item.metadata.namespace for item in cache.store} == {namespace, "kube-public"}
        await becomes_what_the_server_has(cache, client, namespace, "kube-public")


async def test_an_object_that_leaves_the_selection_leaves_the_store(client: Client, namespace: str) -> None:
    key = Key(namespace, "a")
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace], Selection(labels="in=yes"))
    labels = {"metadata": {"labels": {"in": "yes"}}}
    await write(client, namespace, "a")
    async with filled(cache):
        assert key not in cache.store
        await client.patch(CONFIG_MAPS, key, labels, Object)
        await eventually(lambda: key in cache.store)
        await client.patch(CONFIG_MAPS, key, {"metadata": {"labels": {"in": "no"}}}, Object)
        await eventually(lambda: key not in cache.store)


async def test_a_metadata_only_watch_brings_no_content(client: Client, namespace: str) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace], Selection(metadata_only=True))
    await write(client, namespace, "listed", inside="x")
    async with filled(cache):
        await write(client, namespace, "watched", inside="x")
        await eventually(lambda: Key(namespace, "watched") in cache.store)
        assert all(item.data == {} for item in cache.store)
        await becomes_what_the_server_has(cache, client, namespace)


async def test_metadata_only_is_enough_to_know_who_owns_what(client: Client, namespace: str) -> None:
    cache = Informer(client, SECRETS, ManagedObject, [namespace], Selection(metadata_only=True))
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "Yg=="}}
    await client.apply(SECRETS, Key(namespace, "s"), body, Object, manager="me")
    async with filled(cache):
        found = cache.store.get(Key(namespace, "s"))
        assert found is not None
        owners = {entry.manager: bytes(entry.fields_v1) for entry in found.metadata.managed_fields}
        assert b'"f:data":{".":{},"f:a":{}}' in owners["me"] or b"f:data" in owners["me"]


async def test_an_index_follows_changes(client: Client, namespace: str) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace])
    cache.store.add_index("team", lambda item: [item.data["team"]] if "team" in item.data else [])
    async with filled(cache):
        await write(client, namespace, "a", team="red")
        await write(client, namespace, "b", team="red")
        await eventually(lambda: len(cache.store.by("team", "red")) == 2)
        await write(client, namespace, "b", team="blue")
        await eventually(lambda: [item.key.name for item in cache.store.by("team", "blue")] == ["b"])
        assert [item.key.name for item in cache.store.by("team", "red")] == ["a"]


async def test_an_object_that_cannot_be_read_is_not_taken_for_gone(client: Client, namespace: str) -> None:
    class Numbers(Object, frozen=True, gc=False):
        data: dict[str, int] = msgspec.field(default_factory=dict)

    cache = Informer(client, CONFIG_MAPS, Numbers, [namespace])
    woken: list[Key] = []
    cache.store.on_change(lambda _before, after: woken.append(after.key) if after else None)
    await write(client, namespace, "odd", n="word")
    odd = Key(namespace, "odd")
    async with filled(cache):
        assert odd in woken
        with pytest.raises(errors.Unreadable, match="odd is there but cannot be read"):
            cache.store.get(odd)
        await client.patch(CONFIG_MAPS, odd, {"data": None}, Object)
        await eventually(lambda: odd in {item.key for item in cache.store})
        assert cache.store.get(odd) is not None


async def test_a_server_killed_and_restarted_under_the_watch_costs_no_event(
    client: Client, namespace: str, faults: Faults
) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace], idle=5)
    await write_many(client, namespace, 20)
    async with filled(cache):
        with faults.stop("api"):
            await eventually(lambda: cache.trouble() is not None)
            assert len(cache.store) >= 20, "what cannot be seen is not gone"
        await eventually_writes(client, namespace, "after")
        await client.delete(CONFIG_MAPS, Key(namespace, "c0"))
        await eventually(lambda: cache.trouble() is None)
        await becomes_what_the_server_has(cache, client, namespace)


async def test_deletes_that_happened_before_a_410_are_seen(
    client: Client, watcher: Client, between: Interloper, namespace: str, faults: Faults
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace], idle=5)
    deleted: list[Key] = []
    cache.store.on_change(lambda before, after: deleted.append(before.key) if before and not after else None)
    await write_many(client, namespace, 100)
    async with filled(cache):
        between.disconnect(refuse=True)
        await asyncio.gather(*(client.delete(CONFIG_MAPS, Key(namespace, f"c{n}")) for n in range(40)))
        faults.compact()
        faults.restart("api")  # which forgets the events it kept in memory
        await eventually_writes(client, namespace, "after")
        lists = len(between.lists)
        between.heal()
        await becomes_what_the_server_has(cache, client, namespace)
        assert len(between.lists) > lists, "a watch from before the compaction must end in 410 and a list"
        assert sorted(deleted) == sorted(Key(namespace, f"c{n}") for n in range(40))


async def test_a_frozen_connection_is_noticed_within_the_idle_limit(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace], idle=2)
    async with filled(cache):
        between.freeze()
        await write(client, namespace, "unseen")
        frozen = time.monotonic()
        await eventually(lambda: cache.trouble() is not None)
        assert time.monotonic() - frozen < 10
        between.heal()
        await becomes_what_the_server_has(cache, client, namespace)


async def test_a_frozen_server_is_noticed_within_the_idle_limit(
    client: Client, namespace: str, faults: Faults
) -> None:
    cache = Informer(client, CONFIG_MAPS, Settings, [namespace], idle=2)
    async with filled(cache):
        with faults.freeze("api"):
            await eventually(lambda: cache.trouble() is not None)
        await eventually_writes(client, namespace, "after")
        await becomes_what_the_server_has(cache, client, namespace)


async def test_a_cut_connection_is_resumed_without_a_list(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        for n in range(5):
            await eventually(lambda: between.open_watches == 1)
            assert between.disconnect() == 1
            await write(client, namespace, f"c{n}")
            await eventually(lambda n=n: Key(namespace, f"c{n}") in cache.store)  # type: ignore[misc]
        await becomes_what_the_server_has(cache, client, namespace)
        assert len(between.lists) == 1


async def test_a_storm_of_429_is_sat_out(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        between.answer(429, {"Retry-After": "1"}, count=4)
        between.disconnect()
        await write(client, namespace, "a")
        await becomes_what_the_server_has(cache, client, namespace)
        assert cache.trouble() is None


@pytest.mark.parametrize("status", [401, 403, 500, 503, 504])
async def test_refused_watches_are_tried_again(
    client: Client, watcher: Client, between: Interloper, namespace: str, status: int
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        between.answer(status, count=4)
        between.disconnect()
        await write(client, namespace, "a")
        await becomes_what_the_server_has(cache, client, namespace)


async def test_a_page_that_expired_in_the_middle_of_a_list_begins_again(
    client: Client, watcher: Client, between: Interloper, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "PAGE", 5)
    await write_many(client, namespace, 18)
    lists = itertools.count()
    body = json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode()
    between.answer(410, body=body, match=lambda _method, _path: next(lists) == 2)
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        await becomes_what_the_server_has(cache, client, namespace)
        assert [asked.query.get("limit") for asked in between.lists][:4] == ["5", "5", "5", None]


async def test_an_old_list_is_not_believed(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    """A server that lags behind must not bring back what was deleted, nor take away what is new."""
    await write_many(client, namespace, 5)
    between.remember_lists()
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        await client.delete(CONFIG_MAPS, Key(namespace, "c0"))
        await write(client, namespace, "new")
        await becomes_what_the_server_has(cache, client, namespace)
        told: list[object] = []
        cache.store.on_change(lambda *change: told.append(change))
        between.serve_old_lists()
        body = json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode()
        between.answer(410, body=body, match=lambda _method, path: "configmaps" in path)
        between.disconnect()
        await eventually(lambda: cache.trouble() is not None and "older" in cache.trouble())  # type: ignore[operator]
        between.serve_fresh_lists()
        await eventually(lambda: cache.trouble() is None)
        await becomes_what_the_server_has(cache, client, namespace)
        assert told == []


async def test_versions_that_stay_back_are_believed_at_last(
    client: Client, watcher: Client, between: Interloper, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after etcd was restored from a backup: the past is the present."""
    monkeypatch.setattr(informer, "OLD_LISTS", 2)
    await write_many(client, namespace, 5)
    between.remember_lists()
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        before = versions(cache.store)
        await client.delete(CONFIG_MAPS, Key(namespace, "c0"))
        await write(client, namespace, "c1", n="changed")
        await eventually(lambda: Key(namespace, "c0") not in cache.store)
        between.serve_old_lists(hold_watches=True)
        body = json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode()
        between.answer(410, body=body)
        between.disconnect()
        await eventually(lambda: versions(cache.store) == before)


async def test_our_own_write_is_in_the_store_at_once_and_an_older_event_does_not_undo_it(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    cache = Informer(watcher, CONFIG_MAPS, Settings, [namespace])
    async with filled(cache):
        between.freeze()
        first = await write(client, namespace, "a", x="1")
        second = await write(client, namespace, "a", x="2")
        cache.store.put(second)
        assert cache.store.get(second.key) == second
        cache.store.put(first)
        assert cache.store.get(second.key) == second
        cache.store.delete(second, by_us=True)
        between.heal()
        await client.delete(CONFIG_MAPS, second.key)
        await becomes_what_the_server_has(cache, client, namespace)
        assert second.key not in cache.store


THINGS = Resource("Thing", "things", "test.valkey.io", "v1")
NEWER_THINGS = Resource("Thing", "things", "test.valkey.io", "v2")


class ThingSpec(Fields, frozen=True, gc=False):
    size: int = 0


class Thing(Object, frozen=True, gc=False):
    api_version: str
    spec: ThingSpec = ThingSpec()


@pytest.fixture
def things(cluster: Cluster) -> Iterator[None]:
    apply_definition(cluster)
    yield
    cluster.kubectl("delete", "crd", "things.test.valkey.io", "--ignore-not-found", "--wait=false")


def apply_definition(cluster: Cluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.valkey.io"},
        "spec": {
            "group": "test.valkey.io",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": versions,
        },
    }
    cluster.kubectl.apply(json.dumps(definition))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/things.test.valkey.io")


def thing(n: int, size: int) -> dict[str, object]:
    metadata = {"name": f"t{n}"}
    return {"apiVersion": THINGS.api_version, "kind": "Thing", "metadata": metadata, "spec": {"size": size}}


@pytest.mark.usefixtures("things")
async def test_a_kind_removed_and_added_again_is_watched_again(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    cache = Informer(client, THINGS, Thing, [namespace])
    async with filled(cache):
        await client.create(THINGS, namespace, thing(1, 1), Object)
        await eventually(lambda: len(cache.store) == 1)
        cluster.kubectl("delete", "crd", "things.test.valkey.io", "--wait=true")
        await eventually(lambda: cache.trouble() is not None)
        apply_definition(cluster)
        await client.create(THINGS, namespace, thing(2, 1), Object)
        await becomes_what_the_server_has(cache, client, namespace)
        assert [item.key.name for item in cache.store] == ["t2"]


@pytest.mark.usefixtures("things")
async def test_5000_objects_of_another_version_under_churn_end_as_the_server_has_them(
    client: Client, watcher: Client, between: Interloper, namespace: str
) -> None:
    """Written as v1, watched as v2: the server converts each; the watch is cut meanwhile."""
    cache = Informer(watcher, NEWER_THINGS, Thing, [namespace])

    async def churn(part: range) -> None:
        for n in part:
            await client.create(THINGS, namespace, thing(n, 0), msgspec.Raw)
            key = Key(namespace, f"t{n}")
            if n % 3 == 0:
                await client.patch(THINGS, key, {"spec": {"size": n}}, msgspec.Raw)
            if n % 7 == 0:
                await client.delete(THINGS, key)

    async with filled(cache):
        churning = asyncio.gather(*(churn(range(first, 5000, 25)) for first in range(25)))
        while not churning.done():
            await asyncio.wait({churning}, timeout=0.5)
            between.disconnect()
        await churning
        await becomes_what_the_server_has(cache, client, namespace)
        assert len(cache.store) == sum(n % 7 != 0 for n in range(5000))
        assert all(item.api_version == "test.valkey.io/v2" for item in cache.store)
        known = cache.store.get(Key(namespace, "t4995"))
        assert known is not None
        assert known.spec.size == 4995


async def eventually_writes(client: Client, namespace: str, name: str) -> None:
    """Write as soon as the server takes it."""

    async def written() -> bool:
        try:
            await write(client, namespace, name)
        except errors.KubeError:
            return False
        return True

    await eventually(written)

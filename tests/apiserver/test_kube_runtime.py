"""The parts together: a small controller of real objects, put through all that Sieve knows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster.cluster import Cluster, EmbeddedCluster
from tests.caches import eventually, running
from tests.interloper import Interloper
from tests.sieve import cut_after_every_action
from valkey_operator.kube import access
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Again, Controller, itself, label
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key, ManagedObject, Object
from valkey_operator.kube.resources import CONFIG_MAPS, SECRETS, Selection
from valkey_operator.kube.runtime import Runtime
from valkey_operator.kube.writer import Writer

PARENTS = Selection(labels="role=parent")
CHILDREN = Selection(labels="role=child")
OF = "parent"


class Wish(Object, frozen=True, gc=False):
    """A ConfigMap that says how many Secrets it wants."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


class Family:
    """Keeps as many Secrets as each parent asks for: the shape of every controller, in small."""

    def __init__(self, client: Client, namespace: str, leadership: Leadership | None = None) -> None:
        self.runtime = Runtime(client, leadership)
        self.parents = self.runtime.informer(CONFIG_MAPS, Wish, [namespace], PARENTS)
        self.children = self.runtime.informer(SECRETS, ManagedObject, [namespace], CHILDREN)
        self.children.store.add_index(OF, lambda child: [child.metadata.labels[OF]])
        self.writer = Writer(client, "family")
        self.controller = Controller("family", self.reconcile, settle=self.writer.settle, deadline=5)
        self.controller.watches(self.parents, itself)
        self.controller.watches(self.children, label(OF))
        self.runtime.add(self.controller)
        self.turns = 0
        self.idle = asyncio.Event()

    async def reconcile(self, key: Key) -> Again:
        self.turns += 1
        parent = self.parents.store.get(key)
        wanted = int(parent.data["children"]) if parent is not None else 0
        changed = False
        for n in range(wanted):
            metadata = {
                "name": f"{key.name}-{n}", "namespace": key.namespace,
                "labels": {"role": "child", OF: key.name},
            }  # fmt: skip
            applied = await self.writer.apply(self.children, {"metadata": metadata, "data": {"n": "MQ=="}})
            changed |= applied.outcome != "unchanged"
        for child in self.children.store.by(OF, key.name):
            if int(child.key.name.rpartition("-")[2]) >= wanted:
                await self.writer.delete(self.children, child)
                changed = True
        if not changed:
            self.idle.set()
        return None

    async def converge(self) -> None:
        async with running(self.runtime.run()):
            await self.idle.wait()


async def write_parent(client: Client, namespace: str, name: str, children: int) -> None:
    metadata = {"name": name, "labels": {"role": "parent"}}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"children": str(children)},
    }
    await client.apply(CONFIG_MAPS, Key(namespace, name), body, Object, manager="user", force=True)


async def names_of_children(client: Client, namespace: str) -> list[str]:
    found = await client.list_all(SECRETS, Object, namespace, CHILDREN)
    return sorted(item.key.name for item in found)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as made:
        yield made


async def test_a_controller_cut_at_every_action_ends_where_an_uncut_one_does(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """Three children are wanted where two wrong ones are."""

    async def converge(way: Access) -> None:
        async with Client(way, limit=2) as through:
            await Family(through, namespace).converge()

    async def reset() -> None:
        for child in await client.list_all(SECRETS, Object, namespace, CHILDREN):
            await client.delete(SECRETS, child.key)
        for name in ("p-7", "p-8"):
            labels = {"role": "child", OF: "p"}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}
            await client.create(SECRETS, namespace, body, Object)

    async def check() -> object:
        names = await names_of_children(client, namespace)
        assert names == ["p-0", "p-1", "p-2"]
        return names

    await write_parent(client, namespace, "p", 3)
    writes = await cut_after_every_action(Path(cluster.kubeconfig), converge, check, reset)
    assert len(writes) == 5


async def test_an_event_that_is_never_seen_changes_nothing_in_the_end(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """Every echo of the controller's own creates is lost, and the first of two changes of its parent."""
    async with Interloper(cluster.kubeconfig) as between, Client(between.access) as through:
        family = Family(through, namespace)
        async with running(family.runtime.run()):
            await family.parents.synced()
            between.drop_events(lambda kind, item: kind == "ADDED" and item["kind"] == "Secret", count=100)
            between.drop_events(lambda _kind, item: item.get("data") == {"children": "5"}, count=1)
            await write_parent(client, namespace, "p", 5)
            await write_parent(client, namespace, "p", 2)
            await eventually(lambda: len(between.dropped) >= 3)
            await eventually(family.idle.is_set)
            assert await names_of_children(client, namespace) == ["p-0", "p-1"]
            writes = between.writes
            assert len(writes) == len(set(writes)) == 2, "no child is made twice"


async def test_a_list_from_the_past_brings_nothing_back(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """Sieve's time travel: a restart that reads an old server must not act on it.

    A new process has nothing to compare a list with, so it asks for lists that are never old: without a
    resourceVersion, which the server answers from its newest state.
    """
    await write_parent(client, namespace, "p", 2)
    async with Interloper(cluster.kubeconfig) as between, Client(between.access) as through:
        await Family(through, namespace).converge()
        assert between.lists
        assert all("resourceVersion" not in asked.query for asked in between.lists)
        between.remember_lists()
        family = Family(through, namespace)
        async with running(family.runtime.run()):
            await eventually(family.idle.is_set)
            await write_parent(client, namespace, "p", 1)

            async def one_is_left() -> bool:
                return await names_of_children(client, namespace) == ["p-0"]

            await eventually(one_is_left)
            between.serve_old_lists()
            body = msgspec.json.encode({"kind": "Status", "code": 410, "reason": "Expired"})
            between.answer(410, body=body, count=2)
            writes = len(between.writes)
            between.disconnect()
            await eventually(lambda: any("old list" in asked.fate for asked in between.requests))
            await asyncio.sleep(1)
            assert len(between.writes) == writes
            between.serve_fresh_lists()
            await eventually(lambda: family.children.trouble() is None)
            assert await one_is_left()


async def test_at_rest_nothing_is_asked_and_nothing_is_written(
    embedded_cluster: EmbeddedCluster, client: Client, namespace: str
) -> None:
    for n in range(20):
        await write_parent(client, namespace, f"p{n}", 2)
    async with Interloper(embedded_cluster.kubeconfig) as between, Client(between.access) as through:
        family = Family(through, namespace)
        async with running(family.runtime.run()):
            await eventually(lambda: len(family.children.store) == 40 and not len(family.controller.queue))
            await asyncio.sleep(0.5)
            requests, turns = len(between.requests), family.turns
            for parent in family.parents.store:
                family.controller.wake(parent.key)
            await eventually(lambda: family.turns == turns + 20)
            await asyncio.sleep(0.5)
            assert len(between.requests) == requests


async def test_a_standby_knows_everything_and_writes_nothing_until_it_leads(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    way = access.from_kubeconfig(str(cluster.kubeconfig))
    await write_parent(client, namespace, "p", 2)
    async with contextlib.AsyncExitStack() as stack:
        families: list[Family] = []
        for name in ("first", "second"):
            leadership = Leadership(client, Key(namespace, "lead"), name, duration=5)
            fenced = await stack.enter_async_context(Client(way, fence=leadership))
            families.append(Family(fenced, namespace, leadership))
        first, second = families
        leading = asyncio.create_task(first.runtime.run())
        await eventually(lambda: first.turns > 0)
        async with running(second.runtime.run()):
            await eventually(lambda: len(second.children.store) == 2)
            assert second.turns == 0
            first.runtime.stop()
            await asyncio.wait_for(leading, 10)
            await eventually(lambda: second.turns > 0)
            await write_parent(client, namespace, "p", 3)
            await eventually(lambda: len(second.children.store) == 3)


async def test_a_bug_in_a_part_ends_the_whole_process(client: Client, namespace: str) -> None:
    family = Family(client, namespace)

    async def broken() -> None:
        raise ZeroDivisionError

    family.runtime.beside(broken)
    with pytest.raises(ExceptionGroup) as failure:
        await asyncio.wait_for(family.runtime.run(), 10)
    assert failure.group_contains(ZeroDivisionError)


async def test_readiness_names_the_cache_that_cannot_see(cluster: Cluster, namespace: str) -> None:
    async with Interloper(cluster.kubeconfig) as between, Client(between.access) as through:
        family = Family(through, namespace)

        def failing() -> dict[str, Any]:
            return {name: why() for name, why in family.runtime.checks().items() if why()}

        async with running(family.runtime.run()):
            await eventually(lambda: failing() == {})
            between.answer(403, count=1000, match=lambda _method, path: "secrets" in path)
            between.disconnect()
            await eventually(lambda: list(failing()) == ["cache of secrets"])
            between.heal()
            await eventually(lambda: failing() == {})

"""The interloper does what it says, shown with the plain client and a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from devcluster.cluster import Cluster
from tests.interloper import Asked, Interloper
from tests.sieve import cut_after_every_action
from valkey_operator.kube import errors
from valkey_operator.kube.access import Access, from_kubeconfig
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS, EVERYTHING, NAMESPACES, Selection

# Kubernetes puts one of its own into every namespace.
OURS = Selection(labels="ours=yes")
PATIENCE = 10.0


@pytest.fixture
async def between(cluster: Cluster) -> AsyncIterator[Interloper]:
    async with Interloper(cluster.kubeconfig) as interloper:
        yield interloper


@pytest.fixture
async def client(between: Interloper) -> AsyncIterator[Client]:
    """A client that goes through the interloper."""
    async with Client(between.access, limit=PATIENCE) as through:
        yield through


@pytest.fixture
async def direct(cluster: Cluster) -> AsyncIterator[Client]:
    """A client that goes past the interloper: what the API server really has."""
    async with Client(from_kubeconfig(str(cluster.kubeconfig))) as past:
        yield past


async def create(client: Client, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"ours": "yes"}}, "data": {"count": "0"}}
    await client.create(CONFIG_MAPS, namespace, body, Object)


async def names(client: Client, namespace: str) -> list[str]:
    found = await client.list_all(CONFIG_MAPS, Object, namespace, OURS)
    return sorted(item.metadata.name for item in found)


async def paged_names(client: Client, namespace: str, size: int) -> list[list[str]]:
    pages = client.pages(CONFIG_MAPS, Object, namespace, OURS, size)
    return [[item.metadata.name for item in page.items or ()] async for page in pages]


async def version(client: Client, namespace: str) -> str:
    pages = client.pages(CONFIG_MAPS, Object, namespace, OURS)
    return [page.metadata.resource_version async for page in pages][-1]


class Watcher:
    """The events of a namespace's config maps as a client sees them, until its connection ends."""

    def __init__(self, client: Client, namespace: str, since: str) -> None:
        self.seen: list[tuple[str, str]] = []
        self.task = asyncio.create_task(self._watch(client, namespace, since))

    async def _watch(self, client: Client, namespace: str, since: str) -> None:
        watching = client.watch(CONFIG_MAPS, namespace, OURS, since, idle=60)
        async with contextlib.aclosing(watching) as batches:
            async for lines in batches:
                events = [json.loads(line) for line in lines]
                self.seen += [(event["type"], event["object"]["metadata"]["name"]) for event in events]


@contextlib.asynccontextmanager
async def watching(client: Client, between: Interloper, namespace: str) -> AsyncIterator[Watcher]:
    before = between.open_watches
    watcher = Watcher(client, namespace, await version(client, namespace))
    try:
        await until(lambda: between.open_watches > before)
        yield watcher
    finally:
        watcher.task.cancel()
        await asyncio.gather(watcher.task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - nothing announces what the tests look at
            await asyncio.sleep(0.01)


async def test_left_alone_it_is_faithful(between: Interloper, client: Client, namespace: str) -> None:
    async with watching(client, between, namespace) as watcher:
        await create(client, namespace, "a")
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"count": "1"}}, Object)
        await client.delete(CONFIG_MAPS, Key(namespace, "a"))
        with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
            await client.get(CONFIG_MAPS, Key(namespace, "a"), Object)
        await until(lambda: watcher.seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")])
    place = CONFIG_MAPS.collection(namespace)
    assert between.writes == [("POST", place), ("PATCH", f"{place}/a"), ("DELETE", f"{place}/a")]
    assert [asked.fate for asked in between.requests if not asked.is_watch] == ["forwarded"] * 5
    await until(lambda: between.open_watches == 0)


async def test_an_object_of_many_pieces_arrives_whole(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    large = {"metadata": {"name": "large", "labels": {"ours": "yes"}}, "data": {"text": "x" * 900_000}}
    async with watching(client, between, namespace) as watcher:
        await client.create(CONFIG_MAPS, namespace, large, Object)
        await until(lambda: watcher.seen == [("ADDED", "large")])
    found = await direct.get(CONFIG_MAPS, Key(namespace, "large"), dict[str, Any])
    assert found["data"] == large["data"]


async def test_cut_after_a_write_it_takes_place_and_nothing_after_it(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    between.cut_after(2)
    await create(client, namespace, "a")
    assert not between.was_cut.is_set()
    with pytest.raises(errors.Unreachable):
        await create(client, namespace, "b")
    assert between.was_cut.is_set()
    with pytest.raises(errors.Unreachable):
        await create(client, namespace, "c")
    with pytest.raises(errors.Unreachable):
        await names(client, namespace)
    assert await names(direct, namespace) == ["a", "b"]
    assert len(between.writes) == 2
    # The last is a read, which aiohttp sends twice before it gives up.
    assert [asked.fate for asked in between.requests] == ["forwarded", *["cut off"] * 4]


async def test_cut_before_a_write_it_never_takes_place(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    between.cut_before(2)
    await create(client, namespace, "a")
    with pytest.raises(errors.Unreachable):
        await create(client, namespace, "b")
    assert await names(direct, namespace) == ["a"]
    assert between.was_cut.is_set()


async def test_a_cut_ends_watches_and_healing_lets_everything_pass(
    between: Interloper, client: Client, namespace: str
) -> None:
    async with watching(client, between, namespace) as watcher:
        between.cut_before(1)
        with pytest.raises(errors.Unreachable):
            await create(client, namespace, "a")
        with pytest.raises(errors.Unreachable):
            await watcher.task
    between.heal()
    await create(client, namespace, "b")
    assert await names(client, namespace) == ["b"]


async def test_of_writes_sent_at_once_only_those_before_the_cut_take_place(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    between.cut_after(3)
    sent = (create(client, namespace, f"a{number}") for number in range(10))
    results = await asyncio.gather(*sent, return_exceptions=True)
    assert sum(isinstance(result, errors.Unreachable) for result in results) >= 8
    assert len(await names(direct, namespace)) <= 3
    assert len(between.writes) == 3


async def test_only_chosen_writes_count_as_actions(cluster: Cluster, namespace: str) -> None:
    async with (
        Interloper(cluster.kubeconfig, actions=lambda method, _: method == "POST") as between,
        Client(between.access) as client,
    ):
        between.cut_after(2)
        await create(client, namespace, "a")
        await client.patch(CONFIG_MAPS, Key(namespace, "a"), {"data": {"count": "1"}}, Object)
        with pytest.raises(errors.Unreachable):
            await create(client, namespace, "b")
        assert [method for method, _ in between.writes] == ["POST", "POST"]


async def test_a_dropped_event_is_never_seen_and_the_others_are(
    between: Interloper, client: Client, namespace: str
) -> None:
    between.drop_events(lambda kind, found: kind == "ADDED" and found["metadata"]["name"] == "b")
    async with watching(client, between, namespace) as watcher:
        for name in ("a", "b", "c"):
            await create(client, namespace, name)
        await client.delete(CONFIG_MAPS, Key(namespace, "b"))
        await until(lambda: watcher.seen == [("ADDED", "a"), ("ADDED", "c"), ("DELETED", "b")])
    assert [(kind, found["metadata"]["name"]) for kind, found in between.dropped] == [("ADDED", "b")]


async def test_as_many_events_are_dropped_as_were_ordered(
    between: Interloper, client: Client, namespace: str
) -> None:
    between.drop_events(lambda kind, _: kind == "ADDED", count=2)
    async with watching(client, between, namespace) as watcher:
        for name in ("a", "b", "c"):
            await create(client, namespace, name)
        await until(lambda: watcher.seen == [("ADDED", "c")])


async def test_an_old_list_is_the_first_since_it_was_asked_to_remember(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    await create(direct, namespace, "a")
    between.remember_lists()
    then = await version(client, namespace)
    await create(direct, namespace, "b")
    assert await names(client, namespace) == ["a", "b"]
    between.serve_old_lists()
    assert await names(client, namespace) == ["a"]
    assert await version(client, namespace) == then
    assert between.lists[-1].fate == "answered with an old list"
    between.serve_fresh_lists()
    assert await names(client, namespace) == ["a", "b"]


async def test_an_old_list_is_served_in_the_pages_that_are_asked_for(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await create(direct, namespace, name)
    between.remember_lists()
    assert await paged_names(client, namespace, 2) == [["a", "b"], ["c", "d"], ["e"]]
    await direct.delete(CONFIG_MAPS, Key(namespace, "c"))
    between.serve_old_lists()
    assert await paged_names(client, namespace, 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert await paged_names(client, namespace, 3) == [["a", "b", "c"], ["d", "e"]]
    assert await paged_names(client, namespace, 0) == [["a", "b", "c", "d", "e"]]


async def test_a_list_that_was_not_remembered_whole_is_served_fresh(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    for name in ("a", "b", "c"):
        await create(direct, namespace, name)
    between.remember_lists()
    pages = client.pages(CONFIG_MAPS, Object, namespace, OURS, 2)
    async with contextlib.aclosing(pages):  # type: ignore[type-var]
        await anext(pages)
    await direct.delete(CONFIG_MAPS, Key(namespace, "a"))
    between.serve_old_lists()
    assert await names(client, namespace) == ["b", "c"]
    everything = await client.list_all(CONFIG_MAPS, Object, namespace, EVERYTHING)
    assert len(everything) == 3


async def test_a_server_that_lags_tells_news_only_when_it_has_caught_up(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    between.remember_lists()
    assert await names(client, namespace) == []
    await create(direct, namespace, "a")
    between.serve_old_lists(hold_watches=True)
    async with watching(client, between, namespace) as watcher:
        await asyncio.sleep(0.3)
        assert watcher.seen == []
        between.serve_fresh_lists()
        await until(lambda: watcher.seen == [("ADDED", "a")])


async def test_disconnecting_ends_watches_and_nothing_else(
    between: Interloper, client: Client, namespace: str
) -> None:
    async with watching(client, between, namespace) as watcher:
        assert between.disconnect() == 1
        with pytest.raises(errors.Unreachable):
            await watcher.task
        await create(client, namespace, "a")
        async with watching(client, between, namespace) as again:
            await create(client, namespace, "b")
            await until(lambda: again.seen == [("ADDED", "b")])


async def test_new_watches_are_refused_until_it_heals(
    between: Interloper, client: Client, namespace: str
) -> None:
    between.disconnect(refuse=True)
    watcher = Watcher(client, namespace, await version(client, namespace))
    with pytest.raises(errors.Unreachable):
        await watcher.task
    between.heal()
    async with watching(client, between, namespace) as again:
        await create(client, namespace, "a")
        await until(lambda: again.seen == [("ADDED", "a")])


async def test_what_is_frozen_stays_open_and_silent_until_it_heals(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    async with watching(client, between, namespace) as watcher:
        between.freeze()
        await create(direct, namespace, "a")
        reading = asyncio.create_task(names(client, namespace))
        await asyncio.sleep(0.5)
        assert not watcher.task.done()
        assert not reading.done()
        assert watcher.seen == []
        between.heal()
        assert await reading == ["a"]
        await until(lambda: watcher.seen == [("ADDED", "a")])


async def test_a_frozen_write_whose_client_gives_up_does_not_arrive_later(
    between: Interloper, client: Client, direct: Client, namespace: str
) -> None:
    between.freeze()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(create(client, namespace, "late"), 0.3)
    await asyncio.sleep(0.1)
    between.heal()
    await create(client, namespace, "next")
    assert await names(direct, namespace) == ["next"]


@pytest.mark.parametrize(
    ("status", "refusal"), [(403, errors.Forbidden), (410, errors.Gone), (503, errors.ServerFault)]
)
async def test_it_answers_in_place_of_the_server_as_often_as_told(
    between: Interloper, client: Client, namespace: str, status: int, refusal: type[errors.ApiError]
) -> None:
    between.answer(status, body=b"not now", match=lambda method, _: method == "GET", count=2)
    await create(client, namespace, "a")
    for _ in range(2):
        with pytest.raises(refusal, match="not now"):
            await names(client, namespace)
    assert await names(client, namespace) == ["a"]
    assert [asked.fate for asked in between.lists] == [f"answered {status}"] * 2 + ["forwarded"]


async def test_a_storm_of_refusals_ends_when_it_heals(
    between: Interloper, client: Client, namespace: str
) -> None:
    between.answer(429, {"Retry-After": "1"}, count=math.inf)
    waiting = asyncio.create_task(create(client, namespace, "a"))
    await until(lambda: len(between.requests) >= 2)
    between.heal()
    await waiting
    assert [asked.fate for asked in between.requests][-1] == "forwarded"


@pytest.mark.parametrize(
    ("path", "query", "is_list"),
    [
        ("/api/v1/pods", {}, True),
        ("/api/v1/namespaces/x/pods", {"limit": "1"}, True),
        ("/apis/apps/v1/namespaces/x/deployments", {}, True),
        (NAMESPACES.collection(), {}, True),
        ("/api/v1/namespaces/x", {}, False),
        ("/api/v1/namespaces/x/status", {}, False),
        ("/api/v1/namespaces/x/pods/p", {}, False),
        ("/api/v1/nodes/n/status", {}, False),
        ("/api/v1/pods", {"watch": "1"}, False),
        ("/version", {}, False),
    ],
)
def test_a_list_is_told_from_other_reads(path: str, query: dict[str, str], is_list: bool) -> None:
    assert Asked("GET", path, query).is_list is is_list


# The driver, shown with two counters: one that decides by what it sees, one that trusts what it remembers.


async def reset_to(direct: Client, namespace: str) -> None:
    for name in await names(direct, namespace):
        await direct.delete(CONFIG_MAPS, Key(namespace, name))


async def make_what_is_missing(client: Client, namespace: str) -> None:
    there = await names(client, namespace)
    for name in ("a", "b", "c"):
        if name not in there:
            await create(client, namespace, name)


async def test_a_controller_that_looks_first_survives_every_cut(
    cluster: Cluster, direct: Client, namespace: str
) -> None:
    runs = 0

    async def converge(access: Access) -> None:
        nonlocal runs
        runs += 1
        async with Client(access) as client:
            await make_what_is_missing(client, namespace)

    writes = await cut_after_every_action(
        cluster.kubeconfig,
        converge,
        check=lambda: names(direct, namespace),
        reset=lambda: reset_to(direct, namespace),
    )
    assert writes == [("POST", CONFIG_MAPS.collection(namespace))] * 3
    assert runs == 1 + 3 * 3 * 2


async def test_a_controller_that_trusts_its_memory_is_found_out(
    cluster: Cluster, direct: Client, namespace: str
) -> None:
    async def converge(access: Access) -> None:
        async with Client(access) as client:
            if not await names(client, namespace):  # the mistake: one is there, so all must be
                await make_what_is_missing(client, namespace)

    with pytest.raises(AssertionError, match=r"ends as \['a'\]") as caught:
        await cut_after_every_action(
            cluster.kubeconfig,
            converge,
            check=lambda: names(direct, namespace),
            reset=lambda: reset_to(direct, namespace),
        )
    assert "crashes after write 1 of 3" in caught.value.__notes__[0]

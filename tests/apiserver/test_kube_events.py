"""Events as people see them with kubectl."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import GAP, NOTE_LIMIT, Item, Recorder
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS, EVENTS, NAMESPACES, NODES


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as client:
        yield client


@pytest.fixture
def recorder(client: Client, clock: Clock) -> Recorder:
    return Recorder(client, "valkey.io/operator", "operator-0", clock)


@pytest.fixture
async def regarding(client: Client, namespace: str) -> Item:
    body = {"metadata": {"name": "cache"}}
    return CONFIG_MAPS, (await client.create(CONFIG_MAPS, namespace, body, Object)).metadata


def described(cluster: Cluster, namespace: str) -> list[str]:
    """The rows of events that describe shows."""
    shown = cluster.kubectl("describe", "configmap", "cache", "-n", namespace)
    return [re.sub(" {2,}", "  ", line).strip() for line in shown.split("----\n")[-1].splitlines() if line]


async def test_describe_shows_type_reason_age_sender_and_note(
    recorder: Recorder, regarding: Item, cluster: Cluster, namespace: str
) -> None:
    recorder.event(regarding, "Promoted", "cache-1 is the primary now")
    recorder.event(regarding, "BackupFailed", "the bucket is gone", "Warning", action="Backup")
    assert await recorder.write_due() is None
    promoted, failed = described(cluster, namespace)
    assert re.fullmatch(r"Normal  Promoted  \d+s  valkey\.io/operator  cache-1 is the primary now", promoted)
    assert re.fullmatch(r"Warning  BackupFailed  \d+s  valkey\.io/operator  the bucket is gone", failed)


async def test_what_is_said_again_shows_its_count_everywhere(
    recorder: Recorder, clock: Clock, regarding: Item, cluster: Cluster, namespace: str
) -> None:
    for _ in range(3):
        recorder.event(regarding, "Waiting", "no node has room")
        await recorder.write_due()
    clock.now += GAP
    assert await recorder.write_due() is None
    (row,) = described(cluster, namespace)
    assert re.search(r"Waiting  \d+s \(x3 over \d+s\)  valkey", row)
    wide = cluster.kubectl("get", "events", "-n", namespace, "-o", "wide", "--no-headers")
    assert re.search(r"\d+s +Normal +Waiting +configmap/cache .*no node has room +\d+s +3 ", wide)
    shown = cluster.kubectl("events", "-n", namespace, "--for=configmap/cache", "--no-headers")
    assert re.search(r"\(x3 over \d+s\) +Normal +Waiting +ConfigMap/cache +no node has room", shown)


async def test_an_event_about_a_node_is_found_by_describe(
    recorder: Recorder, client: Client, cluster: Cluster
) -> None:
    node = (await client.list_all(NODES, Object))[0]
    recorder.event((NODES, node.metadata), "Tested", "an event about a node")
    assert await recorder.write_due() is None
    shown = cluster.kubectl("describe", "node", node.metadata.name)
    assert re.search(r"Normal +Tested +\d+s +valkey\.io/operator +an event about a node", shown)


@pytest.mark.parametrize("letter", ["a", "ü", "漢"])
async def test_the_longest_note_is_taken(
    recorder: Recorder, regarding: Item, client: Client, namespace: str, letter: str
) -> None:
    recorder.event(regarding, "Long", letter * NOTE_LIMIT)
    assert await recorder.write_due() is None
    assert len(await client.list_all(EVENTS, Object, namespace)) == 1


async def test_an_event_in_a_namespace_that_ends_is_dropped(
    recorder: Recorder, client: Client, namespace: str
) -> None:
    ending = f"{namespace}-ending"
    await client.create(NAMESPACES, "", {"metadata": {"name": ending}}, Object)
    held = {"metadata": {"name": "held", "finalizers": ["valkey.io/test"]}}
    regarding = await client.create(CONFIG_MAPS, ending, held, Object)
    await client.delete(NAMESPACES, Key("", ending))
    recorder.event((CONFIG_MAPS, regarding.metadata), "Late", "nobody reads this")
    try:
        assert await recorder.write_due() is None
        assert await client.list_all(EVENTS, Object, ending) == []
    finally:
        await client.patch(CONFIG_MAPS, regarding.key, {"metadata": {"finalizers": None}}, Object)

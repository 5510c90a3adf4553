"""Whole sidecars beside servers in cluster mode: orders and the check of who is met go over gRPC and mTLS."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import replicas
from tests.caches import eventually
from tests.cluster_servers import ranges
from tests.pki import SCOPE
from tests.ports import free_port
from tests.replicas import CONFIG, HOST, OPERATORS, Node, Settings, mount_record
from valkey_operator.contract.channel import answered, opened
from valkey_operator.contract.heartbeat import Address
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.operator import cluster_view

DONE, REFUSED = contract.RESULT_DONE, contract.RESULT_REFUSED


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


@asynccontextmanager
async def running(folder: Path, version: str, count: int) -> AsyncIterator[list[Node]]:
    names = [f"cache-0-{number}" for number in range(count)]
    ports = {name: (free_port(), free_port(), free_port()) for name in names}
    nodes = []
    for name in names:
        place = folder / name[-1]
        settings = Settings(
            SCOPE.namespace, SCOPE.kind, SCOPE.deployment, name, f"uid-{name}", HOST, "", "valkey-system",
            SCOPE.trust_domain, place / "r", place / "data", place / "config", place / "users", place / "id",
            servers={each: found[0] for each, found in ports.items()},
            sidecars={each: found[2] for each, found in ports.items()},
        )  # fmt: skip
        cluster = f"cluster-enabled yes\ncluster-node-timeout 3000\ncluster-port {ports[name][1]}\n"
        nodes.append(Node(settings, version, CONFIG + cluster, Address(HOST, 1)))
        mount_record(nodes[-1:], 1, name)
    try:
        for each in nodes:
            await each.start_sidecar()
            each.start_entry_point()
        for each in nodes:
            await eventually(each.is_in_sync, 20)
        yield nodes
    finally:
        await asyncio.gather(*(each.end() for each in nodes))
        shutil.rmtree(folder, ignore_errors=True)


async def acquaintance(node: Node) -> contract.Acquaintance:
    view = cluster_view.view((await node.pod.observe_now()).server.cluster)
    return contract.Acquaintance(node=node.name, node_id=view.own_id, address=view.own.address)


async def obeys(node: Node, **what: Any) -> contract.Outcome:
    outcome = await node.order(1, 10.0, **what)
    assert outcome.result == DONE, outcome.message
    return outcome


async def slot_keys(node: Node) -> list[int]:
    asked = contract.ObserveRequest(slot_keys=True)
    port = node.settings.sidecars[node.name]
    async with opened(HOST, OPERATORS, SCOPE.node(node.name), port) as connection:
        seen = await answered(NodeStub(connection).Observe(asked), 10)
    assert cluster_view.slot_keys(seen.server).keys() == set(range(8192, 16384))
    return list(seen.server.cluster.slot_keys)


async def has_handed_over(by: Node, to: Node) -> bool:
    """Asked again where the others did not vote in time."""
    async with by.pod.members.opened(to.name) as peer:
        request = contract.TakeOverRequest(epoch=0, **{"from": by.name})
        return (await answered(peer.TakeOver(request), 10)).result == DONE


async def is_ok(node: Node) -> bool:
    return (await node.pod.observe_now()).server.cluster.state == "ok"


@pytest.mark.parametrize("version", ["8.0", "9.1"])
async def test_sidecars_make_a_cluster_by_the_operators_orders(folder: Path, version: str) -> None:
    async with running(folder, version, 3) as (a, b, c):
        for each in (a, b, c):
            await obeys(each, hurry=contract.Hurry(milliseconds=20000))
        await obeys(a, assign_slots=contract.AssignSlots(slots=ranges((0, 8191)), config_epoch=1))
        await obeys(b, assign_slots=contract.AssignSlots(slots=ranges((8192, 16383)), config_epoch=2))
        wrong = await acquaintance(b)
        wrong.node = c.name
        refused = await a.order(1, 10.0, meet=contract.Meet(nodes=[wrong]))
        assert (refused.result, refused.guard) == (REFUSED, "nobody_is_met_unchecked")
        await obeys(a, meet=contract.Meet(nodes=[await acquaintance(b), await acquaintance(c)]))
        first = (await acquaintance(a)).node_id
        await obeys(c, replicate=contract.Replicate(primary=first))
        await eventually(c.is_in_sync, 10)
        for each in (a, b, c):
            await eventually(partial(is_ok, each), 10)
        await obeys(c, promote=contract.Promote(former_id=first, former=a.name))
        assert await c.role() == "master"
        view = cluster_view.view((await c.pod.observe_now()).server.cluster)
        assert c.pod.observe().taken_over == contract.TakenOver(former=a.name, epoch=view.own.config_epoch)
        await eventually(a.is_in_sync, 10)
        # The sidecar follows its server: what the plain topology records is not touched.
        assert a.pod.record.primary == a.name
        seen = cluster_view.node("x", 0, 0, (await c.pod.observe_now()).server)
        assert seen.view is not None
        assert (len(seen.view.own.slots), len(seen.view.by_id)) == (8192, 3)
        # Each sidecar looks at its server only now and then.
        await eventually(lambda: [each.pod.why_not_ready() for each in (a, b, c)] == [None] * 3, 10)
        await b.ask("SET", "{x}key", "value")
        counts = await slot_keys(b)
        assert (len(counts), sum(counts)) == (8192, 1)
        for each in (a, b, c):
            await obeys(each, hurry=contract.Hurry())
        assert not (await c.pod.observe_now()).server.cluster.is_hurrying
        # One that is about to stop asks another sidecar, which makes sure that it has every write.
        await eventually(partial(has_handed_over, c, a), 20)
        view = cluster_view.view((await a.pod.observe_now()).server.cluster)
        assert view.own.is_primary
        assert a.pod.observe().taken_over == contract.TakenOver(former=c.name, epoch=view.own.config_epoch)


async def test_a_server_alone_knows_no_orders_of_a_cluster(folder: Path) -> None:
    async with replicas.running(folder, count=1) as (a,):
        outcome = await a.order(1, 10.0, reset_node=contract.ResetNode())
        assert (outcome.result, outcome.guard) == (REFUSED, "an_order_is_understood")
        assert not (await a.pod.observe_now()).server.HasField("cluster")

"""What `helm test` says: only somebody who renews a lead leads, and only who takes a connection answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from tests.caches import running
from valkey_operator.contract.heartbeat import Address
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.operator.presence import examine
from valkey_operator.operator.world import MANAGER

NOBODY = Address("127.0.0.1", 1)


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as made:
        yield made


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_a_leader_that_renews_and_answers(
    client: Client, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    leadership = Leadership(client, Key(namespace, MANAGER), "somebody", duration=2)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server, running(leadership.run(forever)):
        address = Address(*server.sockets[0].getsockname())
        assert await examine(client, namespace, address) is None
    assert capsys.readouterr().out == f"somebody leads\nan operator answers at {address}\n"


async def test_a_leader_that_takes_no_connection(client: Client, namespace: str) -> None:
    leadership = Leadership(client, Key(namespace, MANAGER), "somebody", duration=2)
    async with running(leadership.run(forever)):
        found = await examine(client, namespace, NOBODY, 5)
    assert found == "no operator took a connection at 127.0.0.1:1 within 5 s; its log says why"


async def test_a_lease_that_nobody_renews(cluster: Cluster, client: Client, namespace: str) -> None:
    manifest = (
        f"{{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {{name: {MANAGER}}},"
        " spec: {holderIdentity: long-gone, leaseDurationSeconds: 8}}"
    )
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=manifest)
    found = await examine(client, namespace, NOBODY, 2)
    assert found == f"no operator renewed its lead in namespace {namespace} within 2 s; its log says why"

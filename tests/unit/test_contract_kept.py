"""Connections that are kept for a moment: real gRPC over real TLS to a sidecar's real channel, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.caches import eventually
from tests.mtls import ISSUING, material, node
from tests.pki import NODE, OPERATOR
from tests.unit.test_sidecar_orders import Pod as SidecarsPod
from valkey_operator.contract import kept
from valkey_operator.contract.channel import CheckedChannel, Unanswered, answered
from valkey_operator.contract.kept import Kept
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.sidecar import channel
from valkey_operator.sidecar.metrics import Counts

HERE = "127.0.0.1"


def operators() -> Credentials:
    return Credentials.from_bytes(material(ISSUING.operator()))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(SidecarsPod(), doorman, node(), 0, HERE) as port:
        yield port


@pytest.fixture
async def ways() -> AsyncIterator[Kept]:
    ways = Kept()
    yield ways
    ways.close()


async def asked(ways: Kept, port: int, credentials: Credentials, pod_uid: str = "u1") -> CheckedChannel:
    """Over this one."""
    async with ways.opened(HERE, credentials, NODE, port) as way:
        question = contract.ObserveRequest(pod_uid=pod_uid)
        await answered(NodeStub(way).Observe(question), 3)
    return way


async def test_who_is_asked_again_is_not_greeted_again(ways: Kept, port: int) -> None:
    credentials = operators()
    first = await asked(ways, port, credentials)
    assert await asked(ways, port, credentials) is first


async def test_who_comes_meanwhile_gets_a_connection_of_its_own_and_one_is_kept(
    ways: Kept, port: int
) -> None:
    credentials = operators()
    two = await asyncio.gather(*(asked(ways, port, credentials) for _ in range(2)))
    assert two[0] is not two[1]
    assert sorted(each.is_connected for each in two) == [False, True]


async def test_after_a_call_that_failed_none_is_kept(ways: Kept, port: int) -> None:
    credentials = operators()
    first = await asked(ways, port, credentials)
    with pytest.raises(Unanswered, match="this is pod u1, not u2"):
        await asked(ways, port, credentials, "u2")
    assert not first.is_connected
    assert await asked(ways, port, credentials) is not first


async def test_one_whose_other_end_has_hung_up_is_not_used(ways: Kept, port: int) -> None:
    credentials = operators()
    first = await asked(ways, port, credentials)
    first._protocol.connection._transport.abort()  # type: ignore[union-attr]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not first.is_connected
    assert await asked(ways, port, credentials) is not first


async def test_a_sidecar_that_ends_does_not_wait_for_those_who_are_connected_and_ask_nothing(
    ways: Kept,
) -> None:
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(SidecarsPod(), doorman, node(), 0, HERE) as port:
        first = await asked(ways, port, operators())
        assert first.is_connected
    await eventually(lambda: not first.is_connected, kept.IDLE / 2)


async def test_a_new_certificate_is_shown_on_a_new_connection(ways: Kept, port: int) -> None:
    credentials = operators()
    first = await asked(ways, port, credentials)
    credentials.replace(material(ISSUING.operator()))
    assert await asked(ways, port, credentials) is not first


async def test_it_ends_when_nobody_asks_any_more_and_when_it_is_old(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways, credentials = Kept(idle=0.05), operators()
    first = await asked(ways, port, credentials)
    await eventually(lambda: not first.is_connected)
    monkeypatch.setattr(kept, "OLDEST", 0.0)
    assert not (await asked(ways, port, credentials)).is_connected

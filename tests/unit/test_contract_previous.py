"""Old and new talk during a rolling update: the contract as it was before, played against the one of today.

`tests/previous_contract.proto` is that earlier state; it is replaced by the one of each release.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpclib.client
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream

from tests.mtls import ISSUING, material, node
from tests.pki import NODE, OPERATOR
from tests.unit.test_sidecar_orders import Pod
from tools.contract import PROTO, ROOT, breaks, described
from valkey_operator.contract.channel import answered, opened
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.sidecar import channel
from valkey_operator.sidecar.metrics import Counts

PREVIOUS = (Path(__file__).parents[1] / "previous_contract.proto").read_text()
OPERATORS = Credentials.from_bytes(material(ISSUING.operator()))


def _messages() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    file = described(PREVIOUS)
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{message.name}")
        )
        for message in file.message_type
    }


OLD = _messages()


def test_what_was_said_before_means_the_same() -> None:
    assert not list(breaks(described(PREVIOUS), described((ROOT / PROTO).read_text())))


@pytest.fixture
async def new_sidecar() -> AsyncIterator[int]:
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(Pod(), doorman, node(), 0, "127.0.0.1") as port:
        yield port


async def test_an_old_operator_commands_a_new_sidecar(new_sidecar: int) -> None:
    async with opened("127.0.0.1", OPERATORS, NODE, new_sidecar) as connection:
        look = grpclib.client.UnaryUnaryMethod(
            connection, "/valkey.operator.v1.Node/Observe", OLD["ObserveRequest"], OLD["Observation"]
        )
        act = grpclib.client.UnaryUnaryMethod(
            connection, "/valkey.operator.v1.Node/Act", OLD["Order"], OLD["Outcome"]
        )
        seen = await answered(look(OLD["ObserveRequest"](pod_uid="u1")), 10)
        assert seen.node == "a"
        order = OLD["Order"](pod_uid="u1", epoch=9)
        order.set_config.directives["maxmemory-policy"] = "allkeys-lru"
        assert (await answered(act(order), 10)).result == contract.RESULT_DONE


class OldSidecar:
    """Knows nothing that came later, and answers what it knows."""

    def __init__(self) -> None:
        self.orders: list[Any] = []

    async def observe(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(OLD["Observation"](node="a", pod_uid="u1", sequence=3))

    async def act(self, stream: Stream[Any, Any]) -> None:
        order: Any = await stream.recv_message()
        self.orders.append(order)
        result = contract.RESULT_DONE if order.WhichOneof("order") else contract.RESULT_REFUSED
        await stream.send_message(OLD["Outcome"](result=result))

    def __mapping__(self) -> dict[str, Handler]:
        way = Cardinality.UNARY_UNARY
        return {
            "/valkey.operator.v1.Node/Observe": Handler(
                self.observe, way, OLD["ObserveRequest"], OLD["Observation"]
            ),
            "/valkey.operator.v1.Node/Act": Handler(self.act, way, OLD["Order"], OLD["Outcome"]),
        }


async def test_a_new_operator_commands_an_old_sidecar() -> None:
    sidecar = OldSidecar()
    server = Server([sidecar], config=Configuration())
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await server.start(sock=listening, ssl=node().server_context())
    try:
        async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
            seen = await answered(NodeStub(connection).Observe(contract.ObserveRequest(pod_uid="u1")), 10)
            assert (seen.node, seen.sequence) == ("a", 3)
            assert not seen.HasField("configuration")
            order = contract.Order(pod_uid="u1", epoch=1, promote=contract.Promote())
            assert (await answered(NodeStub(connection).Act(order), 10)).result == contract.RESULT_DONE
    finally:
        server.close()
        await server.wait_closed()
    assert [each.WhichOneof("order") for each in sidecar.orders] == ["promote"]


def test_a_new_heartbeat_is_kept_whole_by_an_old_operator() -> None:
    """What it does not know it passes on: a new one behind it would find it."""
    event = contract.Event(kind=contract.Event.KIND_CONFIG_CHANGED, message="all is in force", at=7)
    seen = contract.Observation(node="a", configuration=contract.Configuration(mounted="f"))
    new = contract.Heartbeat(observation=seen, events=[event])
    old = OLD["Heartbeat"].FromString(new.SerializeToString())
    assert (old.observation.node, old.events[0].message) == ("a", "all is in force")
    assert contract.Heartbeat.FromString(old.SerializeToString()) == new

"""The operator's way to a sidecar, in a real pod: who is let in, what is seen, what is ordered."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from tests.e2e.conftest import Place
from tests.e2e.test_one_node import POD, SPEC
from tests.mtls import material
from tests.pki import Issuing
from valkey_operator.contract.channel import CheckedChannel, Unanswered, answered, opened
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import Credentials, Material
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.kube import access, streams
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key

ISSUING = Issuing(datetime.now(UTC))


def put_identity(place: Place, shown: Material) -> None:
    content = {"tls.crt": shown.certificate, "tls.key": shown.key, "ca.crt": shown.trust}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "one-0-mtls"},
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }
    place.cluster.kubectl("--namespace", place.namespace, "apply", "-f", "-", stdin=json.dumps(secret))


@asynccontextmanager
async def calling(place: Place, shown: Material, node: str = "one-0") -> AsyncIterator[NodeStub]:
    """A channel through the API server to the sidecar's port."""
    failures: list[object] = []
    peer = Scope(place.namespace, "Valkey", "one").node(node)
    async with (
        Client(access.from_kubeconfig(str(place.cluster.kubeconfig))) as client,
        streams.port_forward(client, Key(place.namespace, POD), 9443, failures.append) as port,
        opened("127.0.0.1", Credentials.from_bytes(shown), peer, port) as channel,
    ):
        assert isinstance(channel, CheckedChannel)
        yield NodeStub(channel)


async def test_the_operator_sees_and_commands_a_node_and_nobody_else_does(place: Place) -> None:
    scope = Scope(place.namespace, "Valkey", "one")
    put_identity(place, material(ISSUING.node("one-0", scope), ISSUING.root))
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    uid = place.get("pod", POD)["metadata"]["uid"]
    operators = material(ISSUING.operator(), ISSUING.root)
    async with calling(place, operators) as node:
        seen = await answered(node.Observe(contract.ObserveRequest(pod_uid=uid)), 30)
        assert (seen.node, seen.pod_uid, seen.not_ready) == ("one-0", uid, "")
        assert seen.server.role == contract.ROLE_PRIMARY
        assert seen.server.version.startswith("9.1")
        assert seen.gate.opened_by == "a_lone_primary_may_start"
        wish = contract.SetConfig(directives={"maxmemory-policy": "allkeys-lru"})
        order = contract.Order(pod_uid=uid, epoch=1, set_config=wish)
        outcome = await answered(node.Act(order), 30)
        assert outcome.result == contract.RESULT_DONE, outcome.message
    assert "allkeys-lru" in place.valkey(POD, "CONFIG", "GET", "maxmemory-policy")
    stolen = material(ISSUING.node("one-1", scope), ISSUING.root)
    async with calling(place, stolen) as node:
        with pytest.raises(Unanswered, match="may not call Act"):
            await answered(node.Act(contract.Order(pod_uid=uid, shut_down=contract.ShutDown())), 30)


async def test_a_new_certificate_is_shown_without_a_restart(place: Place) -> None:
    scope = Scope(place.namespace, "Valkey", "one")
    put_identity(place, material(ISSUING.node("one-0", scope), ISSUING.root))
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    other = Issuing(datetime.now(UTC))
    both = material(other.node("one-0", scope), other.root)
    put_identity(place, both)
    # A pod whose annotations change is looked after at once; its files would follow within a minute.
    place.kubectl("annotate", "pod", POD, "valkey.io/touched=yes")
    place.eventually(lambda: "shows a new certificate" in place.kubectl("logs", POD, "--container=sidecar"))
    async with calling(place, material(other.operator(), other.root)) as node:
        assert (await answered(node.Observe(contract.ObserveRequest()), 30)).node == "one-0"

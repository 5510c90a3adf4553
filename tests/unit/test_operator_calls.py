"""The operator's calls: real gRPC over real TLS to a sidecar's real channel, on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from tests.caches import running
from tests.mtls import ISSUING, material, node
from tests.pki import NODE, OPERATOR
from tests.unit.test_sidecar_orders import Pod as SidecarsPod
from valkey_operator.contract.channel import Unanswered
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.errors import NotLeader
from valkey_operator.kube.objects import ManagedMetadata, Metadata, OwnerReference
from valkey_operator.operator import calls
from valkey_operator.operator.calls import Sidecars
from valkey_operator.operator.seen import Custom, Pod, PodStatus
from valkey_operator.sidecar import channel
from valkey_operator.sidecar.metrics import Counts


class Lead:
    """Of an operator that leads, until it does not."""

    is_lost = False

    def time_left(self) -> float:
        if self.is_lost:
            raise NotLeader("op-a does not lead: op-b does")
        return 1.0


OPERATORS = Credentials.from_bytes(material(ISSUING.operator()))


def wanted(name: str = NODE.node, kind: str = NODE.kind) -> Custom:
    owner = OwnerReference("valkey.io/v1alpha1", kind, NODE.deployment, "uid", controller=True)
    return Custom(ManagedMetadata(name=name, namespace=NODE.namespace, owner_references=(owner,)))


def placed(uid: str = "u1", address: str = "127.0.0.1") -> Pod:
    return Pod(Metadata(name="p", uid=uid), status=PodStatus(pod_ip=address))


@pytest.fixture
def pod() -> SidecarsPod:
    return SidecarsPod()


@pytest.fixture
def lead() -> Lead:
    return Lead()


@pytest.fixture
async def sidecars(pod: SidecarsPod, lead: Lead) -> AsyncIterator[Sidecars]:
    doorman = channel.Doorman(NODE, OPERATOR, Counts())
    async with channel.opened(pod, doorman, node(), 0, "127.0.0.1") as port:
        made = Sidecars(lambda: OPERATORS, NODE.trust_domain, lead, port)
        async with running(made.run()):
            yield made


async def test_a_sidecar_is_observed_and_ordered(sidecars: Sidecars, pod: SidecarsPod) -> None:
    assert (await sidecars.observe(wanted(), placed())).node == "a"
    order = contract.Order(epoch=3, promote=contract.Promote())
    assert (await sidecars.act(wanted(), placed(), order)).result == contract.RESULT_DONE
    assert order.pod_uid == ""
    assert pod.server is not None
    assert pod.server.calls == [("REPLICAOF", "NO", "ONE")]


async def test_an_order_names_the_pod_it_is_for(sidecars: Sidecars, pod: SidecarsPod) -> None:
    outcome = await sidecars.act(wanted(), placed("u0"), contract.Order(epoch=3, save=contract.Save()))
    assert outcome.guard == "an_order_is_for_one_pod"
    with pytest.raises(Unanswered, match="this is pod u1, not u0"):
        await sidecars.observe(wanted(), placed("u0"))
    assert pod.server is not None
    assert pod.server.calls == []


async def test_whoever_lost_the_lead_sends_nothing_on_a_connection_that_is_still_open(
    sidecars: Sidecars, pod: SidecarsPod, lead: Lead
) -> None:
    """It was frozen, and this comes before its work is ended."""
    await sidecars.observe(wanted(), placed())
    lead.is_lost = True
    order = contract.Order(epoch=3, promote=contract.Promote())
    with pytest.raises(Unanswered, match="nothing was sent: op-a does not lead: op-b does"):
        await sidecars.act(wanted(), placed(), order)
    assert pod.server is not None
    assert pod.server.calls == []


async def test_whoever_waited_for_its_turn_looks_at_its_lead_only_then(
    monkeypatch: pytest.MonkeyPatch, sidecars: Sidecars, pod: SidecarsPod, lead: Lead
) -> None:
    turn = asyncio.Semaphore(0)
    monkeypatch.setattr(sidecars, "_slots", turn)
    order = contract.Order(epoch=3, promote=contract.Promote())
    waiting = asyncio.create_task(sidecars.act(wanted(), placed(), order))
    await asyncio.sleep(0)
    lead.is_lost = True
    turn.release()
    with pytest.raises(Unanswered, match="nothing was sent"):
        await waiting
    assert pod.server is not None
    assert pod.server.calls == []


async def test_another_node_at_the_same_address_is_not_asked(sidecars: Sidecars) -> None:
    with pytest.raises(Unanswered, match="cache-0-0"):
        await sidecars.observe(wanted("cache-0-9"), placed())


@pytest.mark.parametrize(
    ("node_", "pod_", "words"),
    [
        (wanted(), placed(address=""), "pod p has no address yet"),
        (wanted(kind="Job"), placed(), "belongs to no deployment"),
    ],
)
async def test_who_cannot_be_asked_is_named(sidecars: Sidecars, node_: Custom, pod_: Pod, words: str) -> None:
    with pytest.raises(Unanswered, match=words):
        await sidecars.observe(node_, pod_)


async def test_without_a_certificate_nobody_is_asked() -> None:
    with pytest.raises(Unanswered, match="no certificate yet"):
        await Sidecars(lambda: None, NODE.trust_domain, Lead()).observe(wanted(), placed())


async def test_one_that_does_not_answer_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "OBSERVE_LIMIT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        asking = Sidecars(lambda: OPERATORS, NODE.trust_domain, Lead(), port).observe(wanted(), placed())
        with pytest.raises(Unanswered, match="no answer within"):
            await asyncio.wait_for(asking, 5)

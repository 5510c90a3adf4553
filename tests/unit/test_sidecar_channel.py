"""Who may ask a sidecar what: real gRPC over real TLS, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.mtls import ISSUING, NOW, material, node
from tests.pki import NODE, OPERATOR, SCOPE, Issuing
from tests.unit.test_sidecar_orders import Pod, order
from valkey_operator.contract.channel import Unanswered, answered, opened
from valkey_operator.contract.identity import Identity, Scope
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub, PeerStub
from valkey_operator.model.gate import Record
from valkey_operator.pki.authority import issue_mtls_leaf
from valkey_operator.sidecar import channel
from valkey_operator.sidecar.metrics import Count, Counts

OBSERVE = contract.ObserveRequest(pod_uid="u1")
OPERATORS = Credentials.from_bytes(material(ISSUING.operator()))


@pytest.fixture
def pod() -> Pod:
    return Pod()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def credentials() -> Credentials:
    return node()


@pytest.fixture
async def port(pod: Pod, credentials: Credentials, counts: Counts) -> AsyncIterator[int]:
    doorman = channel.Doorman(NODE, OPERATOR, counts)
    async with channel.opened(pod, doorman, credentials, 0, "127.0.0.1") as listening:
        yield listening


async def observe(port: int, shown: Credentials, peer: Identity = NODE) -> contract.Observation:
    async with opened("127.0.0.1", shown, peer, port) as connection:
        return await answered(NodeStub(connection).Observe(OBSERVE), 10)


async def observe_as_peer(port: int, shown: Credentials) -> contract.Observation:
    async with opened("127.0.0.1", shown, NODE, port) as connection:
        return await answered(PeerStub(connection).Observe(OBSERVE), 10)


async def test_the_operator_sees_and_orders(port: int, pod: Pod) -> None:
    assert (await observe(port, OPERATORS)).node == "a"
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        outcome = await answered(NodeStub(connection).Act(order(promote=contract.Promote())), 10)
    assert outcome.result == contract.RESULT_DONE
    assert pod.server is not None
    assert pod.server.calls == [("REPLICAOF", "NO", "ONE")]


async def test_a_node_of_the_same_deployment_may_look_and_nothing_more(port: int, counts: Counts) -> None:
    sibling = node("cache-0-1")
    assert (await observe_as_peer(port, sibling)).node == "a"
    with pytest.raises(Unanswered, match=r"permission denied: .*cache-0-1 may not call Observe"):
        await observe(port, sibling)
    async with opened("127.0.0.1", sibling, NODE, port) as connection:
        with pytest.raises(Unanswered, match="may not call Act"):
            await answered(NodeStub(connection).Act(order(promote=contract.Promote())), 10)
    assert (counts[Count.CALLS_SERVED], counts[Count.CALLS_REFUSED]) == (1, 2)


async def test_a_sibling_hands_over_its_own_office_and_no_other(port: int, pod: Pod) -> None:
    async with opened("127.0.0.1", node("cache-0-1"), NODE, port) as connection:
        for by, result in (("cache-0-1", contract.RESULT_DONE), ("cache-0-2", contract.RESULT_REFUSED)):
            request = contract.TakeOverRequest(pod_uid="u1", epoch=4, **{"from": by})
            assert (await answered(PeerStub(connection).TakeOver(request), 10)).result == result
    assert pod.done == ["taken over from cache-0-1 in 4"]


async def test_who_wants_to_know_it_at_this_moment_is_told_so(port: int, pod: Pod) -> None:
    fresh = contract.ObserveRequest(pod_uid="u1", fresh=True)
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        await answered(NodeStub(connection).Observe(fresh), 10)
    async with opened("127.0.0.1", node("cache-0-1"), NODE, port) as connection:
        await answered(PeerStub(connection).Observe(fresh), 10)
    await observe(port, OPERATORS)
    assert pod.asked_at_once == 2


async def test_a_stolen_certificate_of_a_node_commands_no_other_node(port: int, pod: Pod) -> None:
    async with opened("127.0.0.1", node("cache-0-1"), NODE, port) as thief:
        for what in ({"shut_down": contract.ShutDown()}, {"fence": contract.Fence(is_on=True)}):
            with pytest.raises(Unanswered, match="may not call Act"):
                await answered(NodeStub(thief).Act(order(**what)), 10)
    assert pod.done == []


async def test_a_node_of_another_deployment_may_nothing(port: int) -> None:
    scope = Scope("prod", "ValkeyCluster", "other")
    stranger = issue_mtls_leaf(ISSUING.authority(scope), scope.node("other-0-0"), NOW, timedelta(days=1))
    with pytest.raises(Unanswered, match="permission denied"):
        await observe_as_peer(port, Credentials.from_bytes(material(stranger)))


async def test_an_operator_of_another_root_is_nobody(port: int) -> None:
    other = Issuing(NOW)
    shown = Credentials.from_bytes(material(other.operator(), ISSUING.root))
    with pytest.raises(Unanswered, match="may not accept our certificate"):
        await observe(port, shown)


async def test_an_expired_operator_is_refused(port: int) -> None:
    past = NOW - timedelta(days=2)
    leaf = issue_mtls_leaf(ISSUING.root, OPERATOR, past, timedelta(days=1))
    with pytest.raises(Unanswered, match="may not accept our certificate"):
        await observe(port, Credentials.from_bytes(material(leaf)))


async def test_the_operator_says_nothing_to_another_node_than_the_one_it_means(port: int, pod: Pod) -> None:
    async with opened("127.0.0.1", OPERATORS, SCOPE.node("cache-0-1"), port) as connection:
        with pytest.raises(Unanswered, match=r"the peer is .*cache-0-0, expected is .*cache-0-1"):
            await answered(NodeStub(connection).Act(order(shut_down=contract.ShutDown())), 10)
    assert pod.done == []


async def test_what_was_meant_for_the_pod_before_is_refused(port: int) -> None:
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        with pytest.raises(Unanswered, match="this is pod u1, not u0"):
            await answered(NodeStub(connection).Observe(contract.ObserveRequest(pod_uid="u0")), 10)
        outcome = await answered(NodeStub(connection).Act(order(pod_uid="u0", save=contract.Save())), 10)
        assert outcome.guard == "an_order_is_for_one_pod"


async def test_certificates_change_under_calls_and_none_fails(port: int, credentials: Credentials) -> None:
    shown = Credentials.from_bytes(material(ISSUING.operator()))
    failures: list[str] = []

    async def ask() -> None:
        for _ in range(20):
            try:
                await observe(port, shown)
            except Unanswered as error:
                failures.append(str(error))

    async def rotate() -> None:
        for _ in range(50):
            assert credentials.replace(material(ISSUING.node()))
            assert shown.replace(material(ISSUING.operator()))
            await asyncio.sleep(0)

    await asyncio.gather(rotate(), *(ask() for _ in range(4)))
    assert failures == []


async def test_a_lease_is_acknowledged_only_for_the_primary_that_is_followed(port: int, pod: Pod) -> None:
    async with opened("127.0.0.1", node("cache-0-1"), NODE, port) as connection:
        ask = PeerStub(connection).AcknowledgeLease
        for epoch, primary, follows in ((3, "a", True), (4, "a", False), (3, "b", False)):
            question = contract.LeaseQuestion(pod_uid="u1", epoch=epoch, primary=primary)
            assert (await answered(ask(question), 10)).follows is follows
        pod.is_primary = True
        question = contract.LeaseQuestion(pod_uid="u1", epoch=3, primary="a")
        assert not (await answered(ask(question), 10)).follows


async def test_a_primary_of_a_newer_epoch_speaks_for_itself_and_for_nobody_else(port: int, pod: Pod) -> None:
    async with opened("127.0.0.1", node("cache-0-1"), NODE, port) as connection:
        ask = PeerStub(connection).AcknowledgeLease
        for epoch, primary, follows in ((4, "b", False), (2, "cache-0-1", False), (4, "cache-0-1", True)):
            question = contract.LeaseQuestion(pod_uid="u1", epoch=epoch, primary=primary)
            assert (await answered(ask(question), 10)).follows is follows
        assert pod.record == Record(4, "cache-0-1")
        pod.is_primary = True
        question = contract.LeaseQuestion(pod_uid="u1", epoch=5, primary="cache-0-1")
        assert not (await answered(ask(question), 10)).follows
        assert pod.record.epoch == 4


async def test_a_sidecar_that_is_not_there_is_one_sentence(port: int) -> None:
    assert port
    async with opened("127.0.0.1", OPERATORS, NODE, 1) as connection:
        with pytest.raises(Unanswered, match="Connect call failed"):
            await answered(NodeStub(connection).Observe(OBSERVE), 10)


async def test_a_request_that_is_too_large_is_refused_before_it_is_read(port: int) -> None:
    large = contract.SetConfig(directives={"a": "x" * (channel.LARGEST_REQUEST + 1)})
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        with pytest.raises(Unanswered, match="resource exhausted: the request has more than"):
            await answered(NodeStub(connection).Act(order(set_config=large)), 10)
    assert (await observe(port, OPERATORS)).node == "a"


async def test_only_so_many_calls_are_taken_at_once(
    port: int, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MOST_CALLS", 3)
    assert pod.server is not None
    pod.server.silence = asyncio.Event()
    async with opened("127.0.0.1", OPERATORS, NODE, port) as connection:
        calls = [
            asyncio.create_task(answered(NodeStub(connection).Act(order(save=contract.Save())), 10))
            for _ in range(3)
        ]
        await asyncio.sleep(0.5)  # until all three are on its desk
        with pytest.raises(Unanswered, match="resource exhausted: 3 calls"):
            await answered(NodeStub(connection).Observe(OBSERVE), 10)
        pod.server.silence.set()
        assert [(await call).result for call in calls] == [contract.RESULT_DONE] * 3
        assert (await answered(NodeStub(connection).Observe(OBSERVE), 10)).node == "a"

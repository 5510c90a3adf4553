"""What is remembered of nodes, and what a lease request is answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from valkey_operator.contract.identity import Scope
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.model.gate import Record
from valkey_operator.model.instance import (
    LastFailover,
    NodeRecord,
    Said,
    SeenInstance,
    SeenNode,
    SeenPod,
    SeenServer,
    Wish,
)
from valkey_operator.operator.leases import Leases
from valkey_operator.operator.memory import Memory

A, B = Key("prod", "cache-0"), Key("prod", "cache-1")
DIED = contract.Event(kind=contract.Event.KIND_SERVER_DIED)


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def observation(
    role: contract.Role = contract.ROLE_PRIMARY,
    offset: int = 7,
    link: bool = False,
    epoch: int = 1,
    uid: str = "u",
    follows: str = "cache-0",
) -> contract.Observation:
    address = f"{follows}.prod.svc" if role == contract.ROLE_REPLICA else ""
    replication = contract.Replication(offset=offset, link_is_up=link, primary_address=address)
    server = contract.Server(answers=True, role=role, replication=replication)
    return contract.Observation(
        pod_uid=uid, server=server, record=contract.Record(epoch=epoch, primary="cache-0")
    )


def dead(uid: str = "u") -> contract.Observation:
    return contract.Observation(pod_uid=uid, record=contract.Record(epoch=1, primary="cache-0"))


def test_a_request_is_as_old_as_its_first_sight() -> None:
    memory, clock = remembering()
    assert memory.asked_for(A, "id-1") == 0
    clock.time += 5
    assert memory.asked_for(A, "id-1") == 5
    assert memory.asked_for(A, "id-2") == 0


def remembering() -> tuple[Memory, Clock]:
    clock = Clock()
    return Memory(lambda _node: A, clock), clock


def test_the_last_word_of_a_server_outlives_it() -> None:
    memory, clock = remembering()
    memory.hear(A, None, observation(offset=41), ())
    clock.time += 3
    memory.hear(A, None, dead(), [DIED])
    known = memory.of(A)
    assert (known.last_offset, known.last_up_at, known.died_at) == (41, 100.0, 103.0)
    memory.hear(A, None, observation(offset=50), ())
    assert memory.of(A).died_at is None


def test_a_broken_link_speaks_against_a_replica_only_while_the_primary_lives() -> None:
    memory, _ = remembering()
    memory.hear(A, None, observation(), ())
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True), ())
    memory.hear(A, None, dead(), [DIED])
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=False), ())
    assert memory.of(B).in_sync is True
    memory.hear(A, None, observation(), ())
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=False), ())
    assert memory.of(B).in_sync is False


def test_a_link_to_a_primary_that_hangs_speaks_against_nobody() -> None:
    memory, clock = remembering()
    memory.hear(A, None, observation(), ())
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True), ())
    clock.time += 11
    silent = contract.Observation(pod_uid="u", server=contract.Server(answers=False))
    memory.hear(A, None, silent, ())
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=False), ())
    assert memory.of(B).in_sync is True


def test_one_that_follows_another_replica_is_not_in_sync_with_the_primary() -> None:
    memory, _ = remembering()
    memory.hear(A, None, observation(), ())
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True, follows="cache-2"), ())
    assert memory.of(B).in_sync is False


def test_a_new_run_of_a_server_was_not_in_sync_yet() -> None:
    memory, _ = remembering()
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True), ())
    memory.hear(B, None, dead(), [DIED])
    assert memory.of(B).in_sync is None
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True, uid="another"), ())
    assert memory.of(B).in_sync is True


def test_since_when_an_epoch_is_noted_is_known() -> None:
    memory, clock = remembering()
    memory.hear(B, None, observation(contract.ROLE_REPLICA), ())
    clock.time += 5
    memory.hear(B, None, observation(contract.ROLE_REPLICA, epoch=2), ())
    clock.time += 5
    memory.hear(B, None, observation(contract.ROLE_REPLICA, epoch=2), ())
    assert memory.of(B).noted_at == {1: 100.0, 2: 105.0}


def seen(**more: object) -> SeenInstance:
    record = Record(3, "cache-0")
    spec = NodeRecord(3, "cache-0", ("cache-0", "cache-1"))
    primary = SeenServer(is_primary=True, history="h", offset=9, keys=1)
    replica = SeenServer(is_replica=True, follows="cache-0", link_is_up=True, history="h", offset=9, keys=1)
    nodes = (
        SeenNode("cache-0", 0, spec=spec, pod=SeenPod("u", True), said=Said(server=primary, record=record)),
        SeenNode("cache-1", 1, spec=spec, pod=SeenPod("v", True), said=Said(server=replica, record=record)),
    )
    return SeenInstance("cache", Wish(2), record, nodes=nodes, service="cache-0", **more)  # type: ignore[arg-type]


PRIMARY = Scope("prod", "Valkey", "cache").node("cache-0")
DEPLOYMENT = Key("prod", "cache")


def ask(leases: Leases, *promotable: str, epoch: int = 3, uid: str = "u") -> contract.LeaseGrant | str:
    request = contract.LeaseRequest(node="cache-0", pod_uid=uid, epoch=epoch, promotable=promotable)
    return leases.answer(PRIMARY, request)


async def test_a_primary_is_granted_six_seconds_and_told_on_whom_it_counts() -> None:
    clock = Clock()
    leases = Leases(lambda _key: seen(), clock, lambda: 50.0)
    woken: list[Key] = []
    leases.on_change = woken.append
    grant = ask(leases)
    assert isinstance(grant, contract.LeaseGrant)
    assert (grant.epoch, grant.milliseconds, list(grant.promotable)) == (3, 6000, ["cache-1"])
    assert leases.of(DEPLOYMENT, "cache-0").counted_on == frozenset()
    ask(leases, "cache-1")
    clock.time += 4
    known = leases.of(DEPLOYMENT, "cache-0")
    assert (known.counted_on, known.last_grant, known.last_request) == (frozenset({"cache-1"}), 4.0, 4.0)
    assert woken == [DEPLOYMENT, DEPLOYMENT]


async def test_a_primary_that_does_not_ask_again_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valkey_operator.operator.leases.OVERDUE", 0.05)
    leases = Leases(lambda _key: seen(), Clock(), lambda: 50.0)
    ask(leases)
    looked = asyncio.Event()
    leases.on_change = lambda _key: looked.set()
    async with asyncio.timeout(5):
        await looked.wait()


async def test_grants_to_a_former_primary_count_its_requests_do_not() -> None:
    clock = Clock()
    leases = Leases(lambda _key: seen(), clock, lambda: 50.0)
    ask(leases, "cache-1")
    known = leases.of(DEPLOYMENT, "cache-1")
    assert (known.last_grant, known.last_request, known.counted_on) == (0.0, None, frozenset())


def test_who_is_not_the_recorded_primary_is_told_why() -> None:
    leases = Leases(lambda _key: seen(), Clock(), lambda: 50.0)
    assert ask(leases, epoch=2) == "epoch 2 is not 3, in which cache-0 is primary"
    assert ask(leases, uid="old") == "this is not the pod of cache-0"
    assert Leases(lambda _key: None, Clock(), lambda: 0.0).answer(PRIMARY, contract.LeaseRequest()) == (
        "there is no Valkey prod/cache"
    )


def test_nobody_writes_before_a_change_is_done() -> None:
    change = LastFailover(3, "cache-1", "cache-0", True, "Switchover", datetime.now(UTC))
    leases = Leases(lambda _key: seen(last_failover=change), Clock(), lambda: 50.0)
    assert ask(leases) == "cache-0 was not seen in office yet"


async def test_who_is_about_to_enter_is_in_every_grant_meanwhile() -> None:
    leases = Leases(lambda _key: seen(), Clock(), lambda: 50.0)
    with leases.entering(DEPLOYMENT, ["cache-1", "cache-2"]):
        grant = ask(leases)
    assert isinstance(grant, contract.LeaseGrant)
    assert list(grant.promotable) == ["cache-1", "cache-2"]


def test_a_pod_that_was_gone_before_its_server_may_have_a_twin_until_another_was_in_office() -> None:
    memory, _ = remembering()
    memory.hear(B, None, observation(contract.ROLE_REPLICA), ())
    memory.hear(B, None, dead("another"), ())
    assert memory.of(B).lost
    memory.hear(B, None, observation(contract.ROLE_REPLICA, link=True, uid="another"), ())
    assert not memory.of(B).lost
    memory.hear(A, None, dead(), [DIED])
    memory.hear(A, None, dead("another"), ())
    assert not memory.of(A).lost


def test_a_pod_whose_end_its_kubelet_has_told_has_no_twin() -> None:
    memory, _ = remembering()
    memory.hear(A, None, observation(), ())
    memory.end(A, "u")
    memory.hear(A, None, dead("another"), ())
    assert not memory.of(A).lost


def test_the_last_word_of_a_server_that_has_ended_is_newer_than_its_last_heartbeat() -> None:
    memory, clock = remembering()
    memory.hear(A, None, observation(contract.ROLE_PRIMARY, offset=5), ())
    clock.time += 8
    ended = dead()
    ended.last_word.CopyFrom(contract.LastWord(offset=70, milliseconds_ago=1500))
    memory.hear(A, None, ended, [DIED])
    known = memory.of(A)
    assert (known.last_offset, known.last_up_at, known.was_final) == (70, clock.time - 1.5, False)


REPLICA = contract.ROLE_REPLICA


def test_a_replica_was_in_sync_only_if_its_link_was_up_in_this_run_of_its_server() -> None:
    memory, _ = remembering()
    memory.hear(B, None, observation(REPLICA, link=False), [])
    assert memory.of(B).was_linked is None  # it may have been, before this operator came
    memory.hear(B, None, observation(REPLICA, link=True), [])
    memory.hear(B, None, observation(REPLICA, link=False), [])
    assert memory.of(B).was_linked
    memory.hear(B, None, observation(REPLICA, link=False), [DIED])
    assert memory.of(B).was_linked is False
    memory.hear(B, None, observation(REPLICA, link=True), [])
    memory.hear(B, None, observation(REPLICA, link=False, uid="another"), [])
    assert memory.of(B).was_linked is False


def test_the_word_of_a_kubelet_holds_for_its_own_pod_and_until_the_server_is_heard_again() -> None:
    memory, _ = remembering()
    memory.hear(A, None, observation(), [])
    memory.of(A).node_id = "id"
    memory.end(A, "another")
    assert not memory.of(A).ended
    memory.end(A, "u")
    assert memory.of(A).ended == {"id"}
    back = observation(uid="next")
    back.server.cluster.node_id = "id"
    memory.hear(A, None, back, [])
    assert not memory.of(A).ended

"""Orders: which are carried out, which are refused, and by which guard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.cluster_orders import ClusterOrders
from valkey_operator.sidecar.fence import FENCED, FENCED_HERE, Fence, Reason
from valkey_operator.sidecar.orders import Known, Orders
from valkey_operator.sidecar.slot_orders import SlotOrders
from valkey_operator.valkey.connection import Refused, Silent


class Server:
    """Remembers what it was told; a real one could not be made to fail in all these ways."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | int, ...]] = []
        self.failure: Exception | None = None
        self.silence: asyncio.Event | None = None

    async def call(self, *words: str | int) -> Any:
        if self.silence is not None:
            await self.silence.wait()
        if self.failure is not None:
            raise self.failure
        self.calls.append(words)
        return "OK"

    async def shut_down(self, grace: float) -> bool:
        return grace > 0


class Pod:
    def __init__(self) -> None:
        self.pod_uid = "u1"
        self.node = "a"
        self.is_asked = True
        self.record = Record(3, "a")
        self.server: Server | None = Server()
        self.done: list[str] = []
        self.asked_at_once = 0
        self.turn = asyncio.Lock()
        self.is_primary = False
        self.fence = Fence(self.server, self.directive) if self.server is not None else None

    async def observe_now(self) -> contract.Observation:
        self.asked_at_once += 1
        return self.observe()

    async def may_be_primary(self) -> bool:
        return self.is_primary

    def end_office(self) -> None:
        pass

    def begin_office(self) -> None:
        self.done.append("in office")

    async def hand_over(self, epoch: int, to: str, limit: float) -> int:
        self.done.append(f"handed over to {to} in {epoch}, within {limit:.0f} s")
        return 7

    async def take_over(self, epoch: int, by: str) -> None:
        self.done.append(f"taken over from {by} in {epoch}")

    async def order_fence(self, is_on: bool) -> None:
        assert self.fence is not None
        await self.fence.order(is_on)

    def running_server(self) -> Server | None:
        return self.server

    def observe(self) -> contract.Observation:
        return contract.Observation(node="a")

    def open_gate(self) -> bool:
        self.done.append("gate")
        return self.is_asked

    def step_aside(self) -> None:
        self.done.append("step aside")

    def note_record(self, record: Record) -> None:
        self.record = record
        self.done.append(f"{record.primary} in {record.epoch}")

    def note_directives(self, told: Mapping[str, str]) -> None:
        self.done.append(" ".join(sorted(told)))

    def address_of(self, node: str) -> tuple[str, int]:
        return f"{node}.ns.svc", 6379

    async def load_users(self) -> None:
        assert self.server is not None
        self.done.append("users")
        await self.server.call("ACL", "LOAD")
        self.done.append("users noted")

    def directive(self, name: str, otherwise: str) -> str:
        return {"min-replicas-to-write": "1", "min-replicas-max-lag": "0"}.get(name, otherwise)

    async def stop(self) -> None:
        self.done.append("stop")

    def cluster_orders(self) -> Known:
        return {}


def order(**what: Any) -> contract.Order:
    return contract.Order(**{"pod_uid": "u1", "epoch": 3, **what})


@pytest.mark.parametrize(
    ("what", "calls"),
    [
        ({"promote": contract.Promote()}, [("REPLICAOF", "NO", "ONE")]),
        ({"epoch": 4, "replicate": contract.Replicate(primary="b")}, [("REPLICAOF", "b.ns.svc", 6379)]),
        (
            {"set_config": contract.SetConfig(directives={"b": "2", "a": "1"})},
            [("CONFIG", "SET", "a", "1", "b", "2")],
        ),
        ({"set_config": contract.SetConfig()}, []),
        ({"load_users": contract.LoadUsers()}, [("ACL", "LOAD")]),
        ({"save": contract.Save()}, [("BGSAVE",)]),
        # With a lag of 0 the server would count no replicas, and fence nothing.
        (
            {"fence": contract.Fence(is_on=True)},
            [("CONFIG", "SET", "min-replicas-to-write", FENCED, "min-replicas-max-lag", "10")],
        ),
        (
            {"fence": contract.Fence(is_on=False)},
            [("CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "0")],
        ),
    ],
)
async def test_an_order_becomes_commands(what: dict[str, Any], calls: list[tuple[str | int, ...]]) -> None:
    pod = Pod()
    outcome = await Orders(pod).carry_out(order(**what))
    assert (outcome.result, outcome.message) == (contract.RESULT_DONE, "")
    assert outcome.observation.node == "a"
    assert pod.server is not None
    assert pod.server.calls == calls


async def test_orders_for_the_pod_itself() -> None:
    pod = Pod()
    orders: list[dict[str, Any]] = [
        {"shut_down": contract.ShutDown()}, {"open_gate": contract.OpenGate()}, {"step_aside": contract.StepAside()},
    ]  # fmt: skip
    for what in orders:
        assert (await Orders(pod).carry_out(order(**what))).result == contract.RESULT_DONE
    assert pod.done == ["stop", "gate", "step aside"]


async def test_nobody_at_the_gate_nothing_to_open() -> None:
    pod = Pod()
    pod.is_asked = False
    outcome = await Orders(pod).carry_out(order(open_gate=contract.OpenGate()))
    assert (outcome.result, outcome.guard) == (contract.RESULT_REFUSED, "a_server_waits_at_the_gate")


async def test_who_is_primary_is_noted_before_the_server_is_told() -> None:
    """A server that ends right after must not come back as what it was."""
    for what, noted in (
        ({"promote": contract.Promote()}, ["a in 4", "in office"]),
        ({"replicate": contract.Replicate(primary="b")}, ["b in 4"]),
    ):
        pod = Pod()
        assert pod.server is not None
        pod.server.failure = Silent("it ended")
        outcome = await Orders(pod).carry_out(order(epoch=4, **what))
        assert (outcome.result, pod.done) == (contract.RESULT_FAILED, noted)


async def test_what_is_kept_on_disk_is_noted_before_the_server_is_told() -> None:
    pod = Pod()
    assert pod.server is not None
    pod.server.failure = Silent("it ended")
    await Orders(pod).carry_out(order(set_config=contract.SetConfig(directives={"appendonly": "no"})))
    assert pod.done == ["appendonly"]


@pytest.mark.parametrize(
    ("what", "guard"),
    [
        ({"pod_uid": "another", "promote": contract.Promote()}, "an_order_is_for_one_pod"),
        ({"epoch": 2, "promote": contract.Promote()}, "no_order_of_an_older_epoch"),
        ({"replicate": contract.Replicate(primary="b")}, "one_primary_per_epoch"),
        ({"note_primary": contract.NotePrimary(primary="b")}, "one_primary_per_epoch"),
        ({"epoch": 2, "hand_over": contract.HandOver(to="b")}, "no_order_of_an_older_epoch"),
        ({}, "an_order_is_understood"),
        ({"meet": contract.Meet()}, "an_order_is_understood"),
    ],
)
async def test_an_order_is_refused_by_a_named_guard_and_changes_nothing(
    what: dict[str, Any], guard: str
) -> None:
    pod = Pod()
    outcome = await Orders(pod).carry_out(order(**what))
    assert (outcome.result, outcome.guard) == (contract.RESULT_REFUSED, guard)
    assert outcome.message
    assert pod.server is not None
    assert pod.server.calls == []


async def test_without_a_server_nothing_is_ordered_from_it() -> None:
    pod = Pod()
    pod.server = None
    outcome = await Orders(pod).carry_out(order(promote=contract.Promote()))
    assert (outcome.result, outcome.guard) == (contract.RESULT_REFUSED, "a_server_runs")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Refused("ERR no such thing"), "save: ERR no such thing"),
        (Silent("no answer"), "save: no answer"),
        (TimeoutError(), "save: not done in 10 s"),
    ],
)
async def test_what_the_server_does_not_do_is_a_failure_with_its_words(
    failure: Exception, words: str
) -> None:
    pod = Pod()
    assert pod.server is not None
    pod.server.failure = failure
    outcome = await Orders(pod).carry_out(order(save=contract.Save()))
    assert outcome.result == contract.RESULT_FAILED
    assert outcome.message == words


async def test_the_operator_takes_down_only_its_own_fence() -> None:
    pod = Pod()
    assert pod.server is not None
    assert pod.fence is not None
    pod.fence.reasons.add(Reason.LEASE)
    await Orders(pod).carry_out(order(fence=contract.Fence(is_on=False)))
    assert pod.server.calls[-1][3] == FENCED_HERE
    assert pod.fence.is_up


@pytest.mark.parametrize("runs", [True, False])
async def test_another_primary_is_noted_where_no_primary_runs(runs: bool) -> None:
    pod = Pod()
    if not runs:
        pod.server = None
    what = contract.NotePrimary(primary="b")
    assert (await Orders(pod).carry_out(order(epoch=4, note_primary=what))).result == contract.RESULT_DONE
    assert pod.record == Record(4, "b")
    assert (await Orders(pod).carry_out(order(epoch=4, note_primary=what))).result == contract.RESULT_DONE


async def test_a_running_primary_is_not_deposed_by_a_note() -> None:
    pod = Pod()
    pod.is_primary = True
    outcome = await Orders(pod).carry_out(order(epoch=4, note_primary=contract.NotePrimary(primary="b")))
    assert (outcome.result, outcome.guard) == (contract.RESULT_REFUSED, "a_running_primary_is_not_deposed")
    assert pod.record == Record(3, "a")
    mine = contract.NotePrimary(primary="a")
    assert (await Orders(pod).carry_out(order(epoch=4, note_primary=mine))).result == contract.RESULT_DONE


async def test_a_handover_says_how_long_writes_were_paused() -> None:
    pod = Pod()
    what = order(epoch=4, limit_milliseconds=2000, hand_over=contract.HandOver(to="b"))
    outcome = await Orders(pod).carry_out(what)
    assert (outcome.result, outcome.write_pause_milliseconds) == (contract.RESULT_DONE, 7)
    assert pod.done == ["handed over to b in 4, within 2 s"]


@pytest.mark.parametrize(
    ("request_", "guard"),
    [
        ({"pod_uid": "u0", "from": "b"}, "an_order_is_for_one_pod"),
        ({"pod_uid": "u1", "from": "c"}, "a_node_hands_over_its_own_office"),
    ],
)
async def test_nobody_hands_over_for_another_or_to_the_pod_before(
    request_: dict[str, str], guard: str
) -> None:
    pod = Pod()
    outcome = await Orders(pod).take_over(contract.TakeOverRequest(epoch=4, **request_), "b")
    assert (outcome.result, outcome.guard, pod.done) == (contract.RESULT_REFUSED, guard, [])


def test_every_order_of_the_contract_is_known_to_the_sidecar_of_a_cluster_or_of_another() -> None:
    pod: Any = Pod()
    known = {*Orders(pod)._known(), *ClusterOrders(pod).known(), *SlotOrders(pod).known(), "hand_over"}
    assert known == {field.name for field in contract.Order.DESCRIPTOR.oneofs_by_name["order"].fields}

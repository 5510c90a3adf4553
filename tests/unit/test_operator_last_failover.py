"""What `status.lastFailover` says of changes of a primary that nobody but the servers knows all of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from valkey_operator.api.status import Failover
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.actions import RecordPrimary, Why
from valkey_operator.decide.cluster_actions import FailOver
from valkey_operator.decide.shard_succession import Election
from valkey_operator.kube.objects import ManagedMetadata
from valkey_operator.operator.cluster_steps import ClusterSteps
from valkey_operator.operator.instance_steps import Steps
from valkey_operator.operator.node_steps import NotDone
from valkey_operator.operator.observations import Observations
from valkey_operator.operator.seen import Custom


class World:
    """Where a status is written."""

    def __init__(self) -> None:
        self.caches = SimpleNamespace(valkeys=None, clusters=None, nodes=None)
        self.settings = SimpleNamespace(image="i", namespace="n", trust_domain="t")
        self.writer = self
        self.primaries: list[tuple[int, str]] = []

    async def status(self, _cache: None, item: Custom, _before: Any, after: Any, *, compare: bool) -> Custom:
        assert compare
        return Custom(item.metadata, {}, after)

    def tell(self, *_words: Any) -> None:
        """Events are not looked at here."""

    def note_primary(self, _key: Any, shard: int, name: str) -> None:
        self.primaries.append((shard, name))


def last_of(item: Custom) -> dict[str, Any]:
    last = dict(item.status["lastFailover"])
    Failover.model_validate(last)
    del last["at"]
    return last


@pytest.mark.parametrize(
    ("was_handed_over", "told"),
    [
        (True, {"planned": True, "reason": "PodStopping", "lossBound": {"seconds": 0}}),
        (False, {"planned": False, "reason": "Elected", "lossBound": {"isUnknown": True}}),
    ],
)
async def test_a_change_among_the_servers_of_a_cluster_is_told(
    was_handed_over: bool, told: dict[str, Any]
) -> None:
    world: Any = World()
    found = Election(2, "g-2-0", "g-2-1", was_handed_over)
    item = await ClusterSteps(world, world, world).note_election(Custom(ManagedMetadata("g", "prod")), found)
    assert last_of(item) == {"shard": 2, "from": "g-2-0", "to": "g-2-1", **told}
    assert world.primaries == [(2, "g-2-1")]


async def test_a_change_that_an_operator_recorded_before_it_was_gone_is_told_as_it_said() -> None:
    world: Any = World()
    known = Custom(
        ManagedMetadata("g", "prod"), {}, {"lastFailover": {"reason": "RollingUpdate", "planned": True}}
    )
    found = Election(2, "g-2-0", "g-2-1", was_handed_over=False, is_recorded=True)
    item = await ClusterSteps(world, world, world).note_election(known, found)
    assert item is known
    assert world.primaries == [(2, "g-2-1")]


class Handover(World):
    """Of a shard, as its new primary tells of it at the end."""

    def __init__(self, said: contract.TakenOver | None, result: contract.Result) -> None:
        super().__init__()
        node = Custom(ManagedMetadata("g-2-1", "prod"))
        self.caches.nodes = SimpleNamespace(store={node.key: node})
        self.observations = Observations()
        own = contract.ClusterNode(id="b", role=contract.ROLE_PRIMARY, config_epoch=7)
        view = contract.ClusterView(node_id="b", nodes=[own])
        seen = contract.Observation(
            pod_uid="p", sequence=1, server=contract.Server(cluster=view), taken_over=said
        )
        self.outcome = contract.Outcome(result=result, observation=seen)

    def pod(self, _node: Custom) -> str:
        return "its pod"

    async def act(self, *_order: Any) -> contract.Outcome:
        return self.outcome


HANDED_OVER = contract.TakenOver(former="g-2-0", epoch=7)


async def handed_over(world: Any, *, planned: bool = True) -> dict[str, Any]:
    action = FailOver("g-2-1", 2, "g-2-0", "a", "RollingUpdate", planned=planned)
    steps, item = ClusterSteps(world, world, world), Custom(ManagedMetadata("g", "prod"))
    return last_of(await steps.carry_out([[action]], item, world, world))


@pytest.mark.parametrize(
    ("said", "bound"),
    [
        (HANDED_OVER, {"seconds": 0}),
        (None, {"isUnknown": True}),
        (contract.TakenOver(former="g-2-2", epoch=7), {"isUnknown": True}),
        (contract.TakenOver(former="g-2-0", epoch=6), {"isUnknown": True}),
        (contract.TakenOver(former="g-2-0", epoch=7, is_under_way=True), {"isUnknown": True}),
    ],
    ids=["with every write", "nobody knows", "of another one", "by an earlier change", "not known yet"],
)
async def test_a_planned_change_lost_nothing_when_the_new_primary_says_so(
    said: contract.TakenOver | None, bound: dict[str, Any]
) -> None:
    """In time and by an election that came between it may look the same."""
    world = Handover(said, contract.RESULT_DONE)
    last = await handed_over(world)
    assert (last["planned"], last["reason"], last["lossBound"]) == (True, "RollingUpdate", bound)
    assert world.primaries == [(2, "g-2-1")]


async def test_of_one_that_was_not_planned_its_bound_stays() -> None:
    world = Handover(None, contract.RESULT_DONE)
    assert (await handed_over(world, planned=False))["lossBound"] == {"seconds": 0}


async def test_of_one_that_failed_nothing_is_noted_and_the_next_look_finds_out() -> None:
    world = Handover(HANDED_OVER, contract.RESULT_FAILED)
    with pytest.raises(NotDone):
        await handed_over(world)
    assert world.primaries == []


async def test_a_handover_without_an_operator_is_told_in_the_epoch_in_which_it_was_made() -> None:
    world: Any = World()
    action = RecordPrimary(9, "v-1", Why.POD_STOPPING, planned=True, former="v-0", made_in=8)
    steps, item = Steps(world, world, world, world, world), Custom(ManagedMetadata("v", "prod"))
    after: Any = await steps.carry_out(action, item, world, world)
    assert (after.status["primary"], after.status["primaryEpoch"]) == ("v-1", 9)
    nothing = {"bytes": 0, "seconds": 0}
    assert last_of(after) == {
        "from": "v-0", "to": "v-1", "planned": True, "reason": "PodStopping", "epoch": 8, "lossBound": nothing,
    }  # fmt: skip

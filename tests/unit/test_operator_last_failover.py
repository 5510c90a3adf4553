"""What `status.lastFailover` says of changes of a primary that were not the operator's doing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from valkey_operator.api.status import Failover
from valkey_operator.decide.actions import RecordPrimary, Why
from valkey_operator.decide.shard_succession import Election
from valkey_operator.kube.objects import ManagedMetadata
from valkey_operator.operator.cluster_steps import ClusterSteps
from valkey_operator.operator.instance_steps import Steps
from valkey_operator.operator.seen import Custom


class World:
    """Where a status is written."""

    def __init__(self) -> None:
        self.caches = SimpleNamespace(valkeys=None, clusters=None)
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

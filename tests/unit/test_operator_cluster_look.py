"""One look at a ValkeyCluster: what is noted of it, and when the next one is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.test_decide_sharded import cluster, name, with_node
from valkey_operator.decide.actions import Wait
from valkey_operator.decide.cluster_actions import Meet
from valkey_operator.decide.sharded import Plan, plan
from valkey_operator.kube.objects import Key, ManagedMetadata
from valkey_operator.model.cluster import ClusterView
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import ClusterWish, SeenSharded
from valkey_operator.operator.cluster import SOON, ClusterController
from valkey_operator.operator.node_steps import Failed
from valkey_operator.operator.seen import Custom

KEY = Key("prod", "g")
ITEM = Custom(ManagedMetadata("g", "prod"))
DEPLOYMENT = Deployment("ValkeyCluster", "g", "prod", "uid", {})


class Look(ClusterController):
    """Sees what it is given; keeps what it was to carry out and to note."""

    def __init__(self, seen: SeenSharded, found: Plan, failure: str = "") -> None:
        self._given, self._failure = (seen, found), failure
        self.noted: list[Any] = []
        self._steps: Any = self
        self._sight: Any = self
        self._world: Any = SimpleNamespace(caches=SimpleNamespace(clusters=SimpleNamespace(store={})))

    async def again(self) -> float:
        return await self._look(ITEM, DEPLOYMENT, [], None)

    async def _planned(self, *_: Any) -> tuple[SeenSharded, Plan]:
        return self._given

    async def note_election(self, item: Custom, found: Any) -> Custom:
        self.noted.append(found.to)
        return item

    def note_seen(self, _key: Key, shards: Any) -> None:
        self.noted.append(sorted(shards))

    async def carry_out(self, stages: Any, item: Custom, *_: Any) -> Custom:
        self.noted.append(len(stages))
        if self._failure:
            raise Failed(self._failure)
        return item

    def _notes(self, *_: Any) -> list[str]:
        return []

    def _status(self, *_: Any) -> dict[str, Any]:
        return {}

    async def _tell(self, *_: Any) -> float | None:
        return None


async def test_who_is_in_office_is_noted_before_anything_is_ordered() -> None:
    """Else what this operator records by itself would count as the record of another one."""
    seen = replace(cluster(), primaries={0: name(0, 1)})
    silent = seen.nodes[-2]
    seen = with_node(seen, silent.name, node=replace(silent.node, view=None, known_id="x"))
    look = Look(seen, plan(cluster()))
    await look.again()
    assert look.noted == [name(0, 0), [0, 1], 0]


@pytest.mark.parametrize("failure", ["", "g-0-1 does not say who it is"])
@pytest.mark.parametrize(("is_in_vain", "seconds"), [(False, SOON), (True, 10.0)])
async def test_after_what_was_done_in_vain_before_it_does_not_look_again_at_once(
    failure: str, is_in_vain: bool, seconds: float
) -> None:
    met = ((Meet(name(0, 0), (name(0, 1),)),),)
    found = replace(plan(cluster()), stages=met, waits=(Wait("apart", 10.0),), is_in_vain=is_in_vain)
    assert await Look(cluster(), found, failure).again() == seconds


def test_that_it_is_in_vain_is_part_of_the_plan_of_the_whole() -> None:
    """A replica and its primary do not know each other."""
    nodes = []
    for each in cluster().nodes:
        view = each.node.view
        assert view is not None
        strange = {name(2, 0): "id-2-1", name(2, 1): "id-2-0"}.get(each.name)
        known = tuple(member for member in view.members if member.id != strange)
        nodes.append(
            replace(each, node=replace(each.node, view=ClusterView(view.own_id, True, members=known)))
        )
    pairs = {(name(2, 0), name(2, 1)): 60.0, (name(2, 1), name(2, 0)): 60.0}
    seen = replace(cluster(), nodes=tuple(nodes))
    assert not plan(seen).is_in_vain
    late = plan(replace(seen, apart_for=pairs))
    assert late.is_in_vain
    assert late.again == 10.0
    assert "g-2-0 and g-2-1: though both answer" in late.report.message
    assert not plan(replace(seen, apart_for=pairs, wish=ClusterWish(4, 2))).is_in_vain, "nodes are made"

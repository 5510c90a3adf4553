"""A wish goes back to what it was while a node that is too many does not answer: nobody waits for that one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.test_decide_sharded import (
    actions,
    alone,
    cluster,
    dead,
    name,
    planned,
    swapped,
    with_node,
    without,
)
from valkey_operator.decide.cluster_actions import AssignSlots, FailOver, RemoveNode
from valkey_operator.model.cluster import ClusterNode
from valkey_operator.model.instance import SeenPod
from valkey_operator.model.sharded import ClusterWish, SeenSharded, ShardNode

NEVER_PLACED = SeenPod("p", is_ready=False, is_placed=False, has_run=False)


def unbegun(seen: SeenSharded, which: str, **more: Any) -> SeenSharded:
    """No machine takes its pod, and no server of it was ever heard."""
    found = seen.of(which)
    assert found is not None
    own = found.node.id
    nodes = []
    for each in seen.nodes:
        view = each.node.view
        known = tuple(member for member in view.members if member.id != own) if view is not None else ()
        view = replace(view, members=known) if view is not None else None
        nodes.append(replace(each, node=replace(each.node, view=view)))
    node = ClusterNode(which, found.node.shard, found.node.index, may_hold_data=False)
    changed: dict[str, Any] = {"node": node, "pod": NEVER_PLACED, "is_heard": False, "answered": None, **more}
    return with_node(replace(seen, nodes=tuple(nodes)), which, **changed)


class TestNeverBegan:
    def surplus(self, *, replicas: int = 2, is_formed: bool = True, **more: Any) -> SeenSharded:
        """Three replicas of each shard were asked for, or a fourth shard, and two and three are again."""
        which = name(0, 2) if replicas == 3 else name(3, 1)
        shards = 3 if replicas == 3 else 4
        seen = cluster(shards=shards, replicas=replicas, slots_of=3, wish=ClusterWish(3, 2))
        return replace(unbegun(seen, which, **more), is_formed=is_formed)

    @pytest.mark.parametrize(("replicas", "which"), [(3, name(0, 2)), (2, name(3, 1))])
    @pytest.mark.parametrize(
        "pod",
        [NEVER_PLACED, None, replace(NEVER_PLACED, is_placed=True, fault="ErrImagePull")],
        ids=["no machine", "no pod", "no image"],
    )
    def test_one_that_never_began_is_removed(self, replicas: int, which: str, pod: SeenPod | None) -> None:
        answered = False if pod is not None and pod.is_placed else None
        found = planned(self.surplus(replicas=replicas, pod=pod, answered=answered))
        assert actions(found) == [RemoveNode(which)]
        assert found.report.operation is not None
        assert found.report.operation.step == f"{which} is removed"

    def test_so_it_is_before_there_is_a_cluster(self) -> None:
        seen = self.surplus(is_formed=False)
        nodes = []
        for number, each in enumerate(seen.nodes):
            view = alone(each.node.id, number) if each.node.view is not None else None
            nodes.append(replace(each, node=replace(each.node, view=view, keys=0)))
        new = replace(seen, nodes=tuple(nodes))
        assert actions(planned(new)) == [RemoveNode(name(3, 1))]
        assert AssignSlots in {
            type(each) for each in actions(planned(with_node(new, name(3, 1), is_being_deleted=True)))
        }

    def test_whatever_else_is_silent_one_that_holds_nothing_is_removed(self) -> None:
        silent = with_node(self.surplus(), name(1, 1), answered=False, is_heard=False)
        assert actions(planned(silent)) == [RemoveNode(name(3, 1))]

    def test_a_dead_primary_is_replaced_before(self) -> None:
        (action,) = actions(planned(dead(self.surplus(), name(1, 0))))
        assert isinstance(action, FailOver)

    def test_one_with_a_volume_is_removed_when_all_others_answer(self) -> None:
        """As with volumes that are bound before a machine is found; or kept since an earlier time."""
        seen = self.surplus()
        node = seen.of(name(3, 1))
        assert node is not None
        kept = with_node(seen, name(3, 1), node=replace(node.node, may_hold_data=True))
        assert actions(planned(kept)) == [RemoveNode(name(3, 1))]
        silent = with_node(kept, name(1, 1), answered=False, is_heard=False)
        assert RemoveNode not in {type(each) for each in actions(planned(silent))}

    def test_one_whose_server_ends_before_it_serves_is_removed(self) -> None:
        """Its sidecar says that none runs."""
        pod = SeenPod("p", is_ready=False)
        assert actions(planned(self.surplus(pod=pod, answered=True, is_heard=True, is_dead=True))) == [
            RemoveNode(name(3, 1))
        ]
        unheard = self.surplus(pod=pod, answered=False)
        assert RemoveNode not in {type(each) for each in actions(planned(unheard))}

    @pytest.mark.parametrize("changed", ["may run elsewhere", "was heard", "is wanted", "is on its way out"])
    def test_nobody_else_is(self, changed: str) -> None:
        seen = self.surplus()
        node = seen.of(name(3, 1))
        assert node is not None
        match changed:
            case "may run elsewhere":
                seen = with_node(seen, name(3, 1), may_run_elsewhere=True)
            case "was heard":
                seen = with_node(seen, name(3, 1), node=replace(node.node, known_id="id-3-1"))
            case "is wanted":
                seen = replace(seen, wish=ClusterWish(4, 2))
            case _:
                seen = with_node(seen, name(3, 1), is_being_deleted=True)
        assert RemoveNode not in {type(each) for each in actions(planned(seen))}

    def test_one_that_was_made_because_it_owns_slots_stays(self) -> None:
        """Suspended as the third of its shard, resumed with two: its volume is on its way."""
        whole = without(replace(swapped(cluster(replicas=3), 0, 2), wish=ClusterWish(3, 2)))
        gone = without(whole, name(0, 2))
        made = ShardNode(ClusterNode(name(0, 2), 0, 2), pod=NEVER_PLACED)
        seen = replace(gone, nodes=(*gone.nodes, made))
        assert RemoveNode(name(0, 2)) not in actions(planned(seen))


class TestLost:
    def seen(self, **more: Any) -> SeenSharded:
        """The third replica, on a machine that does not report any more, when two are asked for again."""
        seen = cluster(replicas=3, wish=ClusterWish(3, 2), **more)
        return with_node(seen, name(0, 2), answered=False, is_heard=False, machine="m1")

    def test_one_that_is_lost_with_its_machine_names_the_way_out(self) -> None:
        found = planned(self.seen())
        others = {type(each) for each in actions(found)}
        assert RemoveNode not in others
        assert (
            "its machine (m1) must be deleted or tainted node.kubernetes.io/out-of-service"
            in found.report.message
        )

    def test_it_is_removed_when_it_is_proven_gone_and_another_is_in_office(self) -> None:
        seen = self.seen(gone={"id-0-2": "its machine was deleted"})
        assert actions(planned(seen)) == [RemoveNode(name(0, 2))]

    def test_an_owner_of_slots_stays(self) -> None:
        whole = swapped(cluster(replicas=3, wish=ClusterWish(3, 2), gone={"id-0-2": "why"}), 0, 2)
        seen = with_node(whole, name(0, 2), answered=False, is_heard=False)
        assert RemoveNode(name(0, 2)) not in actions(planned(seen))

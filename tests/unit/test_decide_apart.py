"""Two nodes between which the cluster bus is closed: how long it is tried in haste, what is said, and what goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from valkey_operator.decide import apart, formation
from valkey_operator.decide.cluster_actions import ClusterStep, Follow, Forget, Hurry, Meet
from valkey_operator.model.cluster import ClusterNode, ClusterView, Pair, SeenCluster, SeenMember

MEMBERS = {
    f"{shard}-{index}": SeenMember(f"id-{shard}-{index}", f"10.0.{shard}.{index}:6379@17012")
    for shard in range(3)
    for index in range(2)
}


def seen(*closed: Pair, **unheard: float) -> SeenCluster:
    """Six nodes of which nobody follows yet; those at the ends of what is closed do not know each other."""
    nodes = []
    for name, own in MEMBERS.items():
        known = tuple(
            each
            for other, each in MEMBERS.items()
            if (name, other) not in closed and (other, name) not in closed
        )
        view = ClusterView(own.id, is_ok=True, members=known)
        shard, index = map(int, name.split("-"))
        nodes.append(ClusterNode(name, shard, index, view))
    found = SeenCluster(tuple(nodes), True)
    return replace(found, apart_for=dict.fromkeys(apart.pairs(found), unheard.get("age", 0.0)))


def told(step: ClusterStep) -> list[type]:
    return sorted({type(each) for each in step.actions}, key=str)


def settled(found: SeenCluster) -> SeenCluster:
    """Replicas follow."""
    nodes = []
    for node, view in found.answered:
        members = tuple(
            replace(each, is_primary=False, primary_id=f"{each.id[:-1]}0")
            if each.id.endswith("-1")
            else replace(each, ranges=((each_shard := int(each.id[3]), each_shard),))
            for each in view.members
        )
        nodes.append(replace(node, is_in_sync=True, view=replace(view, members=members)))
    return replace(found, nodes=tuple(nodes))


PAIR = ("2-0", "2-1")


def test_before_it_has_lasted_they_are_introduced_in_haste() -> None:
    step = formation.plan(settled(seen(PAIR, age=apart.PATIENCE - 1)))
    assert told(step) == [Hurry, Meet]
    assert [each.again for each in step.waits] == [formation.SOON]
    assert not step.is_in_vain


def test_after_that_they_are_introduced_at_the_ordinary_pace_and_it_is_said_where_to_look() -> None:
    step = formation.plan(settled(seen(PAIR, age=apart.PATIENCE)))
    assert told(step) == [Meet]
    assert step.is_in_vain
    (wait,) = step.waits
    assert wait.again == apart.LOOK_SELDOM
    assert wait.sentence == (
        "2-0 and 2-1: though both answer the operator, no cluster bus is open between them at port 17012 in at least "
        "one direction: look at NetworkPolicies that select these pods, and at firewalls between their machines"
    )


def test_then_each_of_them_introduces_itself_for_the_way_from_one_node_may_be_closed() -> None:
    pair = ("1-0", "2-1")
    assert told(formation.plan(settled(seen(pair)))) == []
    late = formation.plan(settled(seen(pair, age=60.0)))
    assert set(late.actions) == {Meet("1-0", ("2-1",)), Meet("2-1", ("1-0",))}


def test_others_that_are_new_are_introduced_in_haste_meanwhile() -> None:
    found = settled(seen(PAIR, ("1-0", "1-1")))
    ages = {pair: 60.0 * ("2-0" in pair) for pair in apart.pairs(found)}
    step = formation.plan(replace(found, apart_for=ages))
    assert told(step) == [Hurry, Meet]
    assert not step.is_in_vain


def test_whoever_cannot_be_met_keeps_nobody_else_waiting() -> None:
    """What fails in a stage ends there: the others are met and follow before that is tried again."""
    closed = [(each, strange) for strange in ("1-1", "2-1") for each in MEMBERS if each != strange]
    found = seen(*closed)
    ages = {pair: 60.0 * ("2-1" in pair) for pair in apart.pairs(found)}
    *first, last = formation.plan(replace(found, apart_for=ages)).stages
    assert Meet("0-0", ("2-1",)) in last
    assert all("2-1" in (each.node, *each.others) for each in last if isinstance(each, Meet))
    before = [each for stage in first for each in stage]
    assert Meet("0-0", ("1-1",)) in before
    assert Follow("1-1", "1-0", "id-1-0") in before
    assert not any("2-1" in each.others for each in before if isinstance(each, Meet))


def test_one_that_cannot_be_forgotten_keeps_nobody_from_being_met_and_is_tried_no_oftener() -> None:
    found = settled(seen(PAIR, age=60.0))
    ghost = SeenMember("ghost", is_connected=False, is_failed=True)
    nodes = tuple(
        replace(node, view=replace(view, members=(*view.members, ghost))) for node, view in found.answered
    )
    step = formation.plan(replace(found, nodes=nodes))
    (stage,) = step.stages
    assert {type(each) for each in stage} == {Forget, Meet}
    assert step.is_in_vain
    assert [each.again for each in step.waits] == [apart.LOOK_SELDOM]


def test_nobody_is_told_to_follow_whom_it_cannot_know() -> None:
    assert Follow("2-1", "2-0", "id-2-0") in formation.plan(seen(PAIR)).actions
    late = [each.node for each in formation.plan(seen(PAIR, age=60.0)).actions if isinstance(each, Follow)]
    assert late == ["0-1", "1-1"]


@pytest.mark.parametrize(
    "how", [{"is_suspected": True}, {"is_failed": True}, {"is_connected": False}, {"address": "10.9.9.9:1@2"}]
)
def test_one_that_is_known_and_not_heard_is_apart_too(how: dict[str, object]) -> None:
    found = settled(seen())
    first = found.nodes[0]
    assert first.view is not None
    members = tuple(replace(each, **how) if each.id == "id-1-0" else each for each in first.view.members)  # type: ignore[arg-type]
    deaf = replace(found, nodes=(replace(first, view=replace(first.view, members=members)), *found.nodes[1:]))
    assert apart.pairs(found) == frozenset()
    assert apart.pairs(deaf) == {("0-0", "1-0")}
    step = formation.plan(replace(deaf, apart_for={("0-0", "1-0"): 60.0}))
    assert [each.sentence.partition(":")[0] for each in step.waits] == ["0-0 and 1-0"]
    assert Hurry not in told(step)


def test_while_one_is_silent_that_is_said_first() -> None:
    found = settled(seen(PAIR, age=60.0))
    silent = ClusterNode("2-2", 2, 2, known_id="x")
    step = formation.plan(replace(found, nodes=(*found.nodes, silent)))
    assert [each.sentence for each in step.waits] == ["2-2: no answer"]
    assert step.is_in_vain


def test_who_is_cut_off_from_all_is_named_once() -> None:
    closed = [("2-0", other) for other in MEMBERS if other != "2-0"]
    found = seen(*closed, age=60.0)
    said = apart.why(found, apart.lasting(found))
    assert said.startswith("2-0 and 0-0, 0-1, 1-0, 2 more: ")


def test_many_pairs_are_counted() -> None:
    pairs = frozenset((f"a{i}", f"b{i}") for i in range(5))
    assert apart.why(seen(), pairs).startswith("a0 and b0; a1 and b1; a2 and b2; 2 more pairs: ")

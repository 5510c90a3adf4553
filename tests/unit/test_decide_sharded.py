"""A cluster as a whole: each case as a table of what is seen and what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from valkey_operator.api.reasons import Reason
from valkey_operator.api.status import State
from valkey_operator.decide.cluster_actions import (
    FailOver,
    Hurry,
    MakeNode,
    Meet,
    RemoveNode,
    RestartPod,
)
from valkey_operator.decide.resharding import MigrateSlots
from valkey_operator.decide.sharded import Plan, plan
from valkey_operator.decide.slots import initial
from valkey_operator.model.cluster import (
    ClusterNode,
    ClusterView,
    MigrationState,
    OpenSlot,
    SeenMember,
    SeenMigration,
)
from valkey_operator.model.gate import Disk
from valkey_operator.model.instance import SeenPod
from valkey_operator.model.sharded import ClusterWish, SeenSharded, ShardNode

UNPROVEN = "a_primary_is_replaced_without_a_vote_only_when_it_is_proven_dead"
COMPLETE = Disk(has_data=True, is_synced_always=True)


def name(shard: int, index: int) -> str:
    return f"g-{shard}-{index}"


def moving(state: MigrationState, *, is_export: bool = True) -> SeenMigration:
    """To a shard that owns nothing yet."""
    return SeenMigration("m", "id-0-0", "id-3-0", ((7, 7),), state, is_export=is_export)


def cluster(
    shards: int = 3, replicas: int = 2, slots_of: int = 3, wish: ClusterWish | None = None, **more: Any
) -> SeenSharded:
    """All is well: every node knows every other, the first of each shard owns its slots."""
    owned = initial(range(slots_of))
    members = tuple(
        SeenMember(
            f"id-{shard}-{index}", f"10.0.{shard}.{index}:6379@16379",
            is_primary=index == 0, primary_id="" if index == 0 else f"id-{shard}-0",
            config_epoch=shard + 1, ranges=owned.get(shard, ()) if index == 0 else (),
        )
        for shard in range(shards) for index in range(replicas)
    )  # fmt: skip
    nodes = tuple(
        ShardNode(
            ClusterNode(
                name(shard, index), shard, index, ClusterView(f"id-{shard}-{index}", is_ok=True, members=members),
                is_in_sync=index > 0, keys=10,
            ),
            pod=SeenPod(f"pod-{shard}-{index}", is_ready=True), is_heard=True, offset=100, answered=True,
        )
        for shard in range(shards) for index in range(replicas)
    )  # fmt: skip
    return SeenSharded("g", wish or ClusterWish(3, replicas), nodes, is_formed=True, **more)


def with_strange(each: ShardNode) -> ShardNode:
    """The replica of shard 1 has come back as a new server, and nobody knows it."""
    view = each.node.view
    assert view is not None
    if each.name == name(1, 1):
        return replace(each, node=replace(each.node, view=alone("id-new", 9), is_in_sync=False))
    known = tuple(member for member in view.members if member.id != "id-1-1")
    return replace(each, node=replace(each.node, view=replace(view, members=known)))


def alone(own_id: str, number: int) -> ClusterView:
    return ClusterView(own_id, members=(SeenMember(own_id, f"10.0.0.{number}:6379@16379"),))


def with_node(seen: SeenSharded, which: str, **changed: Any) -> SeenSharded:
    nodes = tuple(replace(each, **changed) if each.name == which else each for each in seen.nodes)
    return replace(seen, nodes=nodes)


def dead(seen: SeenSharded, which: str, **more: Any) -> SeenSharded:
    """Its sidecar says that no server runs."""
    found = seen.of(which)
    assert found is not None
    silent = replace(found.node, view=None, known_id=found.node.id)
    return with_node(seen, which, node=silent, is_dead=True, dead_for=0.2, **more)


def planned(seen: SeenSharded) -> Plan:
    found = plan(seen)
    assert not found.ask
    return found


def actions(found: Plan) -> list[Any]:
    return [action for stage in found.stages for action in stage]


def guards(found: Plan) -> set[str]:
    return {each.guard for each in found.refusals}


def test_where_all_is_well_nothing_is_done_and_nobody_is_asked() -> None:
    seen = cluster()
    heard = replace(seen, nodes=tuple(replace(each, answered=None, age=8.0) for each in seen.nodes))
    found = planned(heard)
    assert (actions(found), found.again, found.report.state) == ([], None, State.READY)
    assert [shard.ready for shard in found.report.shards] == [True] * 3


def test_it_is_not_well_before_everybody_knows_what_is_asked_for() -> None:
    seen = cluster()
    nodes = tuple(replace(each, is_behind=each.name == name(1, 1)) for each in seen.nodes)
    assert plan(replace(seen, nodes=nodes)).report.state == State.RECONCILING


@pytest.mark.parametrize("index", [0, 1], ids=["of a primary", "of a replica"])
def test_a_full_volume_is_told_and_nobody_is_replaced_for_it(index: int) -> None:
    seen = cluster()
    nodes = tuple(replace(each, volume_is_full=each.name == name(1, index)) for each in seen.nodes)
    found = plan(replace(seen, nodes=nodes))
    assert actions(found) == []
    assert (found.report.state, found.report.reason) == (State.DEGRADED, Reason.DISK_FULL)


def test_a_replica_that_is_away_with_a_full_volume_is_told_as_that() -> None:
    seen = with_node(cluster(), name(1, 1), volume_is_full=True, pod=None, answered=None, is_dead=True)
    assert plan(seen).report.reason == Reason.DISK_FULL


def test_all_nodes_are_made_at_once_and_slots_wait_for_all_of_them() -> None:
    found = planned(SeenSharded("g", ClusterWish(3, 2)))
    assert actions(found) == [MakeNode(name(shard, index)) for shard in range(3) for index in range(2)]
    half = replace(cluster(shards=2), wish=ClusterWish(3, 2), is_formed=False)
    assert {type(action) for action in actions(planned(half))} == {MakeNode}


def test_a_new_cluster_is_begun_when_the_last_server_is_heard_and_only_those_unheard_are_asked() -> None:
    formed = cluster()
    nodes = tuple(
        replace(
            each,
            node=replace(each.node, view=alone(each.node.id, number), keys=0),
            answered=None,
            is_heard=True,
            age=1.0,
        )
        for number, each in enumerate(formed.nodes)
    )
    new = replace(formed, nodes=nodes, is_formed=False)
    last, starting = name(2, 1), name(2, 0)
    silent = replace(new.nodes[-1].node, view=None)
    waiting = with_node(new, last, node=silent, is_heard=False)
    waiting = with_node(waiting, starting, node=replace(waiting.nodes[-2].node, view=None))
    assert plan(waiting).ask == (last,)
    asked = with_node(waiting, last, answered=False)
    found = planned(asked)
    assert actions(found) == []
    assert [each.sentence for each in found.waits] == [f"{starting}, {last}: no answer"]
    assert set(plan(new).ask) == {each.name for each in new.nodes}
    answered = replace(new, nodes=tuple(replace(each, answered=True) for each in new.nodes))
    assert {type(each).__name__ for each in actions(planned(answered))} == {
        "Hurry", "AssignSlots", "Meet", "Follow",
    }  # fmt: skip


def test_what_is_to_be_done_is_done_only_after_everybody_was_asked() -> None:
    seen = with_node(cluster(), name(0, 1), needs_restart="why")
    unasked = replace(seen, nodes=tuple(replace(each, answered=None) for each in seen.nodes))
    assert set(plan(unasked).ask) == {each.name for each in seen.nodes}
    assert plan(unasked).stages == ()


class TestFailover:
    def test_with_proof_of_death_the_replica_is_asked_at_once(self) -> None:
        (action,) = actions(planned(dead(cluster(), name(1, 0))))
        assert isinstance(action, FailOver)
        assert (action.node, action.former, action.former_id, action.planned) == (
            name(1, 1), name(1, 0), "id-1-0", False,
        )  # fmt: skip

    def test_the_one_with_most_follows_and_never_one_whose_link_was_down_before(self) -> None:
        seen = with_node(dead(cluster(replicas=3), name(1, 0)), name(1, 2), offset=200)
        assert actions(planned(seen))[0].node == name(1, 2)
        behind = with_node(seen, name(1, 2), unlinked_for=30.0)
        assert actions(planned(behind))[0].node == name(1, 1)

    def test_one_whose_disk_is_complete_is_waited_for_but_not_for_ever(self) -> None:
        seen = dead(cluster(), name(1, 0), disk=COMPLETE)
        assert not actions(planned(seen))
        assert actions(planned(with_node(seen, name(1, 0), dead_for=11.0)))

    def test_silence_is_no_proof(self) -> None:
        seen = cluster()
        silent = with_node(seen, name(1, 0), answered=False, is_heard=False)
        assert not [each for each in actions(planned(silent)) if isinstance(each, FailOver)]


class TestRoll:
    def rolling(self, *names: str, **wish: Any) -> SeenSharded:
        seen = cluster(wish=ClusterWish(3, 2, **wish))
        for each in names:
            seen = with_node(seen, each, needs_restart="why")
        return seen

    def test_replicas_first_and_one_shard_at_a_time(self) -> None:
        everybody = [name(shard, index) for shard in range(3) for index in range(2)]
        assert actions(planned(self.rolling(*everybody))) == [RestartPod(name(0, 1), "why")]
        parallel = self.rolling(*everybody, max_parallel_shards=2)
        assert actions(planned(parallel)) == [RestartPod(name(0, 1), "why"), RestartPod(name(1, 1), "why")]

    def test_a_primary_hands_over_before_it_is_restarted(self) -> None:
        (action,) = actions(planned(self.rolling(name(0, 0))))
        assert isinstance(action, FailOver)
        assert (action.node, action.planned) == (name(0, 1), True)

    def test_shards_hand_over_one_after_the_other(self) -> None:
        """Two that are voted for at the same time get in each other's way."""
        primaries = self.rolling(name(0, 0), name(1, 0), name(2, 1), max_parallel_shards=3)
        restart, failover = actions(planned(primaries))
        assert restart == RestartPod(name(2, 1), "why")
        assert isinstance(failover, FailOver)
        assert failover.node == name(0, 1)

    @pytest.mark.parametrize(("shards", "at_once"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (7, 3)])
    def test_of_primaries_without_replicas_never_a_majority_is_away(self, shards: int, at_once: int) -> None:
        """Each is away for as long as its restart takes, and too few would be left to vote."""
        wish = ClusterWish(shards, 1, max_parallel_shards=shards)
        seen = cluster(shards, 1, shards, wish)
        for shard in range(shards):
            seen = with_node(seen, name(shard, 0), needs_restart="why")
        restarts = actions(planned(seen))
        assert restarts == [RestartPod(name(shard, 0), "why") for shard in range(at_once)]
        pod = SeenPod("p", is_ready=True, is_being_deleted=True)
        assert not actions(planned(with_node(seen, name(0, 0), pod=pod)))

    def test_primaries_that_own_no_slots_yet_have_no_vote(self) -> None:
        """Two of five are new: of three voters one may be away."""
        seen = cluster(5, 1, 3, ClusterWish(5, 1, is_stopped=True, max_parallel_shards=5))
        for shard in range(5):
            seen = with_node(seen, name(shard, 0), needs_restart="why")
        assert [each.name for each in actions(planned(seen))] == [name(0, 0), name(3, 0), name(4, 0)]

    def test_replicas_of_all_shards_are_restarted_at_once_where_that_is_allowed(self) -> None:
        replicas = self.rolling(*(name(shard, 1) for shard in range(3)), max_parallel_shards=3)
        assert actions(planned(replicas)) == [RestartPod(name(shard, 1), "why") for shard in range(3)]

    def test_nobody_asks_for_an_epoch_in_which_the_others_have_voted(self) -> None:
        seen = self.rolling(name(1, 0))
        ahead = seen.of(name(0, 0))
        assert ahead is not None
        assert ahead.node.view is not None
        view = replace(ahead.node.view, current_epoch=99)
        found = planned(with_node(seen, name(0, 0), node=replace(ahead.node, view=view)))
        assert not actions(found)
        assert found.waits[0].sentence == "g-1-1 has yet to learn of the last election"

    def test_it_goes_on_while_nodes_get_to_know_each_other(self) -> None:
        seen = replace(self.rolling(name(0, 1)), operation="RollingUpdate")
        hurrying = seen.of(name(2, 1))
        assert hurrying is not None
        assert hurrying.node.view is not None
        view = replace(hurrying.node.view, is_hurrying=True)
        tidying = with_node(seen, name(2, 1), node=replace(hurrying.node, view=view))
        found = planned(tidying)
        assert [type(each).__name__ for each in actions(found)] == ["EndHurry"]
        assert found.report.state == State.RECONCILING
        assert planned(replace(tidying, operation="")).report.state == State.READY

    def test_nothing_is_restarted_while_a_pod_is_about_to_end_and_still_ready(self) -> None:
        pod = SeenPod("p", is_ready=True, is_being_deleted=True)
        found = planned(with_node(self.rolling(name(0, 1), name(2, 1)), name(2, 1), pod=pod))
        assert not actions(found)
        assert guards(found) == {"only_pods_that_are_back_are_followed_by_others"}

    def test_nothing_is_restarted_while_a_pod_is_not_back(self) -> None:
        pod = SeenPod("p", is_ready=False, fault="it waits: ErrImage")
        found = planned(with_node(self.rolling(name(0, 1)), name(2, 1), pod=pod))
        assert not actions(found)
        assert guards(found) == {"only_pods_that_are_back_are_followed_by_others"}
        assert "ErrImage" in found.report.message

    @pytest.mark.parametrize(
        ("wish", "guard"),
        [
            ({"rolls": False}, "updates_are_left_to_people"),
            ({"window_is_open": False}, "a_roll_begins_in_its_window"),
            ({"is_supervised": True}, "supervised_waits_for_a_person"),
        ],
    )
    def test_what_people_have_forbidden_is_not_done(self, wish: dict[str, bool], guard: str) -> None:
        found = planned(self.rolling(name(0, 0), **wish))
        assert not actions(found)
        assert guards(found) == {guard}


class TestScaling:
    def test_slots_go_to_a_new_shard_that_has_joined(self) -> None:
        seen = cluster(shards=4, wish=ClusterWish(4, 2))
        moves = actions(planned(seen))
        assert moves
        assert {type(move) for move in moves} == {MigrateSlots}
        assert {move.to for move in moves} == {name(3, 0)}

    def test_a_shard_that_is_too_many_gives_its_slots_away_and_then_goes(self) -> None:
        seen = cluster(shards=4, slots_of=4, wish=ClusterWish(3, 2))
        assert {move.node for move in actions(planned(seen))} == {name(3, 0)}
        empty = cluster(shards=4, slots_of=3, wish=ClusterWish(3, 2))
        assert actions(planned(empty)) == [RemoveNode(name(3, 0)), RemoveNode(name(3, 1))]

    def test_shards_that_are_too_many_go_together(self) -> None:
        """While nodes go nothing moves."""
        seen = cluster(shards=5, slots_of=4, wish=ClusterWish(3, 2))
        assert {type(each) for each in actions(planned(seen))} == {MigrateSlots}

    def test_replicas_that_are_too_many_go(self) -> None:
        seen = cluster(wish=ClusterWish(3, 1))
        assert actions(planned(seen)) == [RemoveNode(name(shard, 1)) for shard in range(3)]

    def test_an_owner_of_slots_that_is_too_many_hands_over_first(self) -> None:
        """Its name is the last of its shard, which is to shrink."""
        seen = cluster()
        renamed = {name(0, 0): (name(0, 1), 1), name(0, 1): (name(0, 0), 0)}
        nodes = tuple(
            replace(each, node=replace(each.node, name=renamed[each.name][0], index=renamed[each.name][1]))
            if each.name in renamed
            else each
            for each in seen.nodes
        )
        (action,) = actions(planned(replace(seen, nodes=nodes, wish=ClusterWish(3, 1))))
        assert (action.node, action.former, action.planned) == (name(0, 0), name(0, 1), True)

    def test_suspended_replicas_stop_first_and_nothing_goes_that_is_not_kept(self) -> None:
        found = planned(cluster(wish=ClusterWish(3, 0)))
        assert actions(found) == [RemoveNode(name(shard, 1)) for shard in range(3)]
        primaries = replace(cluster(replicas=1), wish=ClusterWish(3, 0))
        assert actions(planned(primaries)) == [RemoveNode(name(shard, 0)) for shard in range(3)]
        lost = planned(cluster(wish=ClusterWish(3, 0, keeps_data=False)))
        assert (actions(lost), guards(lost)) == ([], {"data_is_kept_when_all_pods_go"})

    @pytest.mark.parametrize("may_hold_data", [True, False])
    def test_who_is_silent_may_have_keys_that_are_kept_nowhere(self, may_hold_data: bool) -> None:
        """As behind a network that is cut between it and the operator."""
        seen = cluster(replicas=1, wish=ClusterWish(3, 0, keeps_data=False))
        nodes = (
            replace(
                each, age=20.0, answered=False, node=replace(each.node, keys=0, may_hold_data=may_hold_data)
            )
            for each in seen.nodes
        )
        found = planned(replace(seen, nodes=tuple(nodes)))
        assert (actions(found) == []) is may_hold_data
        assert ("data_is_kept_when_all_pods_go" in guards(found)) is may_hold_data
        assert ("g-0-0, g-1-0, g-2-0 does not say whether" in found.report.message) is may_hold_data

    def test_who_is_not_suspended_is_looked_after(self) -> None:
        refused = ClusterWish(3, 0, keeps_data=False)
        found = planned(dead(cluster(wish=refused), name(1, 0)))
        assert [(each.node, each.former) for each in actions(found)] == [(name(1, 1), name(1, 0))]
        assert guards(found) == {"data_is_kept_when_all_pods_go"}
        back = cluster(wish=refused)
        member = replace(back, nodes=tuple(with_strange(each) for each in back.nodes))
        assert {type(each) for each in actions(planned(member))} == {Hurry, Meet}

    @pytest.mark.parametrize(
        ("which", "changed"),
        [
            (name(3, 0), {"importing": (OpenSlot(7, "id-0-0"),)}),
            (name(0, 0), {"migrating": (OpenSlot(7, "id-3-0"),)}),
            (name(0, 0), {"migrations": (moving(MigrationState.UNDER_WAY),)}),
            (name(0, 0), {"migrations": (moving(MigrationState.EMPTIED),)}),
            (name(3, 0), {"migrations": (moving(MigrationState.UNDER_WAY, is_export=False),)}),
        ],
    )
    def test_a_shard_to_which_slots_are_on_their_way_is_not_removed(
        self, which: str, changed: dict[str, Any]
    ) -> None:
        """Some of their keys may be there alone, though it owns nothing yet."""
        seen = cluster(shards=4, slots_of=3)
        assert {type(each) for each in actions(planned(seen))} == {RemoveNode}
        node = seen.of(which)
        assert node is not None
        assert node.node.view is not None
        moved = with_node(seen, which, node=replace(node.node, view=replace(node.node.view, **changed)))
        assert RemoveNode not in {type(each) for each in actions(planned(moved))}
        done = {each: moving(MigrationState.DONE) for each in changed if each == "migrations"}
        if done:
            over = replace(node.node.view, migrations=tuple(done.values()))
            assert RemoveNode in {
                type(each)
                for each in actions(planned(with_node(seen, which, node=replace(node.node, view=over))))
            }


def test_it_is_said_why_a_shard_stays_to_which_nobody_moves_slots_any_more() -> None:
    seen = cluster(shards=4, slots_of=3)
    node = seen.of(name(3, 0))
    assert node is not None
    assert node.node.view is not None
    taking = replace(node.node.view, importing=(OpenSlot(7, "id-gone"), OpenSlot(8, "id-gone")))
    found = planned(with_node(seen, name(3, 0), node=replace(node.node, view=taking)))
    assert actions(found) == []
    assert "g-3-0 is not removed, for it was to get slots 7-8" in found.report.message
    assert found.again == 10.0


def test_a_shard_whose_source_has_given_up_is_looked_at_until_it_knows() -> None:
    """Nobody tells the operator of it."""
    seen = cluster(shards=4, slots_of=3)
    node = seen.of(name(3, 0))
    assert node is not None
    assert node.node.view is not None
    taking = replace(node.node.view, migrations=(moving(MigrationState.UNDER_WAY, is_export=False),))
    found = planned(with_node(seen, name(3, 0), node=replace(node.node, view=taking)))
    assert actions(found) == []
    assert "what is on its way to g-3-0 ends" in found.report.message
    assert found.again == 1.0


def without(seen: SeenSharded, *names: str) -> SeenSharded:
    """These have no node any more; the others remember them by the names that they announced."""
    nodes = []
    for each in seen.nodes:
        view = each.node.view
        assert view is not None
        known = tuple(
            replace(
                member, hostname=f"{member.id.replace('id', 'g')}.ns.svc", is_failed=_is_of(member.id, names)
            )
            for member in view.members
        )
        nodes.append(replace(each, node=replace(each.node, view=replace(view, members=known))))
    return replace(seen, nodes=tuple(each for each in nodes if each.name not in names))


def _is_of(member_id: str, names: tuple[str, ...]) -> bool:
    return member_id.replace("id", "g") in names


def replaced(seen: SeenSharded, which: str, *, alive: bool = False) -> SeenSharded:
    """Its volume is gone: it is back, empty, under another id; the others still know the old one as an owner."""
    found = seen.of(which)
    assert found is not None
    shard, index = found.node.shard, found.node.index
    members = tuple(
        replace(each, hostname=f"{each.id.replace('id', 'g')}.ns.svc", is_failed=not alive and each.id == found.node.id)
        if each.id == found.node.id or not each.hostname
        else each
        for each in next(view for _, view in seen.cluster.answered).members
    )  # fmt: skip
    new = SeenMember(f"new-{shard}-{index}", f"10.1.{shard}.{index}:6379@16379", f"{which}.ns.svc")
    nodes = tuple(
        replace(each, node=replace(each.node, view=replace(each.node.view, members=(*members, new))))
        if each.node.view is not None
        else each
        for each in seen.nodes
    )
    view = ClusterView(new.id, is_ok=True, members=(*members, new))
    empty = ClusterNode(which, shard, index, view)
    return with_node(replace(seen, nodes=nodes), which, node=empty, offset=0)


class TestResumed:
    """With less than it was suspended with: whoever owns slots has them on its volume."""

    def test_a_primary_beyond_the_number_of_replicas_is_made_and_hands_over(self) -> None:
        """Suspended with three, whose last one was primary, and back with two."""
        suspended = replace(swapped(cluster(replicas=3), 0, 2), wish=ClusterWish(3, 2))
        found = planned(without(suspended, *(name(shard, 2) for shard in range(3))))
        assert [each for each in actions(found) if isinstance(each, MakeNode)] == [MakeNode(name(0, 2))]
        assert "lost_slots_are_not_refilled" not in guards(found)
        back = without(suspended, name(1, 2), name(2, 2))
        assert not [each for each in actions(planned(back)) if isinstance(each, MakeNode | RemoveNode)]
        whole = without(suspended)
        (action,) = actions(planned(whole))
        assert (action.node, action.former, action.planned) == (name(0, 0), name(0, 2), True)

    def test_it_is_made_as_soon_as_it_is_gone_where_it_is_still_being_stopped(self) -> None:
        suspended = replace(swapped(cluster(replicas=3), 0, 2), wish=ClusterWish(3, 2))
        seen = with_node(without(suspended, name(1, 2), name(2, 2)), name(0, 2), is_being_deleted=True)
        found = planned(seen)
        assert not [each for each in actions(found) if isinstance(each, MakeNode)]
        assert "g-0-2 must be gone before it is made anew" in [each.sentence for each in found.waits]

    @pytest.mark.parametrize("allowed", [frozenset[int](), frozenset({3})])
    def test_a_shard_beyond_the_number_of_shards_is_made_and_gives_its_slots_away(
        self, allowed: frozenset[int]
    ) -> None:
        """Suspended with four, and back with three: nothing is lost that is on a volume."""
        wish = ClusterWish(3, 1, allows_data_loss=allowed)
        four = cluster(shards=4, replicas=1, slots_of=4, wish=wish)
        found = planned(without(four, name(3, 0)))
        assert [each for each in actions(found) if not isinstance(each, Hurry)] == [MakeNode(name(3, 0))]
        assert "is lost" not in found.report.message
        assert {move.node for move in actions(planned(four))} == {name(3, 0)}

    def test_its_data_is_lost_when_it_came_back_without(self) -> None:
        """Somebody has deleted its volume meanwhile."""
        found = planned(
            replaced(cluster(shards=4, replicas=1, slots_of=4, wish=ClusterWish(3, 1)), name(3, 0))
        )
        assert guards(found) == {"lost_slots_are_not_refilled"}
        assert "valkey.io/allow-data-loss: 3" in found.report.message

    def test_a_node_that_was_removed_and_owns_nothing_stays_away(self) -> None:
        found = planned(
            without(cluster(shards=4, slots_of=3, wish=ClusterWish(3, 2)), name(3, 0), name(3, 1))
        )
        assert not [each for each in actions(found) if isinstance(each, MakeNode)]


def swapped(seen: SeenSharded, shard: int, index: int) -> SeenSharded:
    """This one is the primary of its shard, and the first one follows it."""
    first, other = f"id-{shard}-0", f"id-{shard}-{index}"
    nodes = []
    for each in seen.nodes:
        view = each.node.view
        assert view is not None
        owner = view.by_id[first]
        changed = {
            other: replace(view.by_id[other], is_primary=True, primary_id="", ranges=owner.ranges),
            first: replace(owner, is_primary=False, primary_id=other, ranges=()),
        }
        known = tuple(
            changed.get(
                member.id, replace(member, primary_id=other) if member.primary_id == first else member
            )
            for member in view.members
        )
        node = replace(each.node, view=replace(view, members=known), is_in_sync=each.node.id != other)
        if each.node.shard != shard:
            node = replace(node, is_in_sync=each.node.is_in_sync)
        nodes.append(replace(each, node=node))
    return replace(seen, nodes=tuple(nodes))

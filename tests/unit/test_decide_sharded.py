"""A cluster as a whole: each case as a table of what is seen and what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from valkey_operator.api.status import State
from valkey_operator.decide.cluster_actions import FailOver, MakeNode, RemoveNode, RestartPod
from valkey_operator.decide.resharding import BY_HAND, MigrateSlots
from valkey_operator.decide.shard_moves import HELD_BACK, after
from valkey_operator.decide.sharded import Plan, plan
from valkey_operator.decide.slots import initial
from valkey_operator.model.cluster import ClusterNode, ClusterView, SeenMember
from valkey_operator.model.gate import Disk
from valkey_operator.model.instance import SeenPod
from valkey_operator.model.sharded import ClusterWish, Progress, SeenSharded, ShardNode

COMPLETE = Disk(has_data=True, is_synced_always=True)


def name(shard: int, index: int) -> str:
    return f"g-{shard}-{index}"


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


def test_all_nodes_are_made_at_once_and_slots_wait_for_all_of_them() -> None:
    found = planned(SeenSharded("g", ClusterWish(3, 2)))
    assert actions(found) == [MakeNode(name(shard, index)) for shard in range(3) for index in range(2)]
    half = replace(cluster(shards=2), wish=ClusterWish(3, 2), is_formed=False)
    assert {type(action) for action in actions(planned(half))} == {MakeNode}


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


MEBIBYTE = 1 << 20


class TestMoves:
    def scaling(self, **wish: Any) -> SeenSharded:
        """Three shards own slots, a fourth has joined."""
        return cluster(shards=4, wish=ClusterWish(4, 2, **wish))

    def test_they_are_counted_from_the_first_look_on(self) -> None:
        doing = planned(self.scaling()).report.operation
        assert doing is not None
        assert (doing.kind, doing.done, doing.total) == ("Scaling", 0, 4096)
        assert doing.step.startswith(
            "4096 slots (0 bytes) are still to move; now slots 4096-5461 from shard 0"
        )

    def test_what_is_done_counts_on(self) -> None:
        assert after(None, 4096) == Progress(0, 4096)
        assert after(Progress(0, 4096), 3000) == Progress(1096, 4096)
        assert after(Progress(1096, 4096), 3500) == Progress(1096, 4596)  # some were called off
        assert after(Progress(1096, 4096), 0) == Progress(4096, 4096)

    def test_a_person_may_stop_them_and_all_else_goes_on(self) -> None:
        found = planned(self.scaling(is_stopped=True))
        assert (actions(found), guards(found), found.report.operation) == ([], {BY_HAND}, None)
        assert found.again is None, "nobody polls for a person"
        rolls = planned(with_node(self.scaling(is_stopped=True), name(0, 1), needs_restart="why"))
        assert actions(rolls) == [RestartPod(name(0, 1), "why")]

    def full(self, seen: SeenSharded) -> SeenSharded:
        for shard in range(4):
            seen = with_node(
                seen,
                name(shard, 0),
                used_bytes=(20 if shard == 3 else 900) * MEBIBYTE,
                max_bytes=400 * MEBIBYTE,
            )
        return seen

    def test_what_does_not_fit_is_not_begun_and_looked_at_again(self) -> None:
        found = planned(self.full(self.scaling()))
        assert (actions(found), guards(found)) == ([], {"every_target_has_room"})
        assert "raise resources.limits.memory" in found.report.message
        assert found.again == HELD_BACK

    def test_the_restarts_that_would_give_it_room_are_not_held_back_by_it(self) -> None:
        found = planned(with_node(self.full(self.scaling()), name(3, 1), needs_restart="more memory"))
        assert actions(found) == [RestartPod(name(3, 1), "more memory")]
        assert guards(found) == {"every_target_has_room"}

    def test_an_upgrade_is_finished_before_slots_go_to_what_is_older(self) -> None:
        """Four are to be three: the third still runs the old version, and the fourth the new one."""
        seen = cluster(shards=4, slots_of=4, wish=ClusterWish(3, 2))
        for shard in range(3):
            for index in range(2):
                seen = with_node(seen, name(shard, index), major_version=8, needs_restart="another image")
        found = planned(seen)
        assert [type(action) for action in actions(found)] == [RestartPod]
        assert guards(found) == {"slots_do_not_go_to_an_older_server"}


def test_a_shard_tells_its_memory_and_who_is_behind() -> None:
    seen = with_node(cluster(), name(0, 0), used_bytes=5, max_bytes=9)
    found = seen.of(name(0, 1))
    assert found is not None
    behind = with_node(seen, name(0, 1), node=replace(found.node, is_in_sync=False))
    shard = planned(behind).report.shards[0]
    assert (shard.behind, shard.used_bytes, shard.max_bytes) == ((name(0, 1),), 5, 9)
    assert planned(seen).report.shards[0].behind == ()

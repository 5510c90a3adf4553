"""Slots of a cluster on their way: how far they are, what holds them back, and which of them go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.test_decide_sharded import actions, cluster, guards, name, planned, with_node
from valkey_operator.decide.cluster_actions import RestartPod
from valkey_operator.decide.resharding import BY_HAND, ClaimSlots, MigrateSlots
from valkey_operator.decide.shard_moves import HELD_BACK, after
from valkey_operator.decide.sharded import Plan
from valkey_operator.model.cluster import MigrationState, OpenSlot, SeenMigration
from valkey_operator.model.sharded import ClusterWish, Progress, SeenSharded

MEBIBYTE = 1 << 20


def opened(
    seen: SeenSharded,
    failed_for: float,
    slots: tuple[int, ...] = (7,),
    source: int = 0,
    target: int = 3,
    state: MigrationState = MigrationState.FAILED,
) -> SeenSharded:
    """Key by key, and the last attempt has failed."""
    ends = {name(source, 0): f"id-{target}-0", name(target, 0): f"id-{source}-0"}
    for end, other in ends.items():
        node = seen.of(end)
        assert node is not None
        assert node.node.view is not None
        marks = tuple(OpenSlot(slot, other) for slot in slots)
        view = replace(node.node.view, importing=marks)
        if end == name(source, 0):
            ranges = tuple((slot, slot) for slot in slots)
            last = SeenMigration(
                "m", node.node.id, other, ranges, state, "OOM", is_key_by_key=True, age=failed_for
            )
            view = replace(view, importing=(), migrating=marks, migrations=(last, *node.node.view.migrations))
        seen = with_node(seen, end, node=replace(node.node, view=view))
    return seen


def actions_of(found: Plan, source: str) -> list[Any]:
    return [each for each in actions(found) if isinstance(each, MigrateSlots) and each.node == source]


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

    @pytest.mark.parametrize("held", ["goes on", "stopped", "too small"])
    def test_open_slots_that_fail_are_told_with_their_reason_and_not_looked_at_all_the_time(
        self, held: str
    ) -> None:
        scaling = self.scaling(is_stopped=held == "stopped")
        scaling = self.full(scaling) if held == "too small" else scaling
        found = planned(opened(scaling, failed_for=0.2))
        assert (
            "g-0-0 could not move slots (1 times, tried again within a minute): OOM" in found.report.message
        )
        assert found.again is not None
        assert (actions_of(found, name(0, 0)), found.again > 0.5) == ([], True)
        later = opened(scaling, failed_for=0.9)
        assert planned(later).report.message == found.report.message, "a status is not written at every look"

    def test_what_failed_before_it_was_stopped_keeps_nobody_waiting(self) -> None:
        seen = opened(self.scaling(is_stopped=True), failed_for=0.2, slots=())
        found = planned(seen)
        assert (actions(found), guards(found), found.again) == ([], {BY_HAND}, None)

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


class TestOpenSlots:
    """Half moved, and what would let them go on may be a restart."""

    def seen(self, failed_for: float = 0.2, **more: Any) -> SeenSharded:
        return opened(cluster(shards=4, wish=ClusterWish(4, 2)), failed_for, **more)

    def upgrading(self, **more: Any) -> SeenSharded:
        """The source runs the new version, for its replica has taken over, and the target the old one."""
        seen = self.seen(1000.0, **more)
        for index in range(2):
            seen = with_node(seen, name(3, index), major_version=8, needs_restart="another image")
        return seen

    def test_they_do_not_go_to_an_older_server_and_its_upgrade_goes_on(self) -> None:
        found = planned(self.upgrading())
        assert actions(found) == [RestartPod(name(3, 1), "another image")]
        assert guards(found) == {"slots_do_not_go_to_an_older_server"}
        assert found.report.operation is not None
        assert found.report.operation.kind == "RollingUpdate"

    def test_they_are_looked_at_seldom_where_nothing_is_to_be_restarted(self) -> None:
        found = planned(with_node(self.seen(1000.0), name(3, 0), major_version=8))
        assert (actions(found), found.again) == ([], HELD_BACK)
        assert "g-3-0 is older than g-0-0: finish the upgrade first" in found.report.message

    def test_what_is_empty_is_claimed_by_an_older_server_too(self) -> None:
        claimed = actions(planned(self.upgrading(state=MigrationState.EMPTIED)))
        assert [type(each) for each in claimed] == [ClaimSlots]

    @pytest.mark.parametrize("is_stopped", [False, True])
    def test_a_restart_may_be_what_helps_where_they_have_failed(self, is_stopped: bool) -> None:
        seen = with_node(self.seen(), name(3, 1), needs_restart="more memory")
        found = planned(replace(seen, wish=ClusterWish(4, 2, is_stopped=is_stopped)))
        assert actions(found) == [RestartPod(name(3, 1), "more memory")]
        assert "OOM" in found.report.message

    @pytest.mark.parametrize("state", [MigrationState.UNDER_WAY, MigrationState.EMPTIED])
    def test_nothing_is_restarted_while_slots_are_on_their_way(self, state: MigrationState) -> None:
        """Of the same source, one after the other."""
        before = opened(cluster(shards=4, wish=ClusterWish(4, 2)), 0.2, slots=(8,), state=state)
        seen = opened(before, 0.2, slots=(7, 8))
        seen = with_node(seen, name(3, 1), needs_restart="more memory")
        assert RestartPod not in {type(each) for each in actions(planned(seen))}


def test_a_shard_tells_its_memory_and_who_is_behind() -> None:
    seen = with_node(cluster(), name(0, 0), used_bytes=5, max_bytes=9)
    found = seen.of(name(0, 1))
    assert found is not None
    behind = with_node(seen, name(0, 1), node=replace(found.node, is_in_sync=False))
    shard = planned(behind).report.shards[0]
    assert (shard.behind, shard.used_bytes, shard.max_bytes) == ((name(0, 1),), 5, 9)
    assert planned(seen).report.shards[0].behind == ()


class TestWeights:
    """Of slots: which of them go is decided by what is in them."""

    def scaled(self, **more: Any) -> SeenSharded:
        seen = cluster(shards=4, wish=ClusterWish(4, 2), **more)
        counted = (replace(each.node, keys=10 * (each.node.shard < 3)) for each in seen.nodes)
        nodes = (
            replace(each, node=node, used_bytes=1 << 20)
            for each, node in zip(seen.nodes, counted, strict=True)
        )
        return replace(seen, nodes=tuple(nodes))

    def moved(self, seen: SeenSharded, source: str) -> frozenset[int]:
        found = [each for each in actions(planned(seen)) if isinstance(each, MigrateSlots)]
        return frozenset().union(*(each.slots for each in found if each.node == source))

    def test_keys_are_counted_before_slots_move_and_not_while_somebody_is_away(self) -> None:
        assert self.scaled().is_to_be_counted
        assert not self.scaled(slot_keys={}).is_to_be_counted
        assert not cluster().is_to_be_counted
        for seen in (self.scaled(), cluster()):
            nodes = (each.unheard() if each.name == name(0, 0) else each for each in seen.nodes)
            assert not replace(seen, nodes=tuple(nodes)).is_to_be_counted

    def test_those_go_that_bring_the_bytes_closest_to_even(self) -> None:
        heavy = dict.fromkeys(range(2500, 2564), 100)
        keys = {slot: heavy.get(slot, 0) for slot in range(5462)}
        assert not self.moved(self.scaled(), name(0, 0)) & heavy.keys()
        assert len(self.moved(self.scaled(slot_keys=keys), name(0, 0)) & heavy.keys()) > 8

    def test_a_shard_that_was_not_counted_whole_goes_by_the_number_of_slots(self) -> None:
        for keys in (dict.fromkeys(range(2500, 2564), 100), dict.fromkeys(range(5462), 0)):
            counted = self.moved(self.scaled(slot_keys=keys), name(0, 0))
            assert counted == self.moved(self.scaled(), name(0, 0))

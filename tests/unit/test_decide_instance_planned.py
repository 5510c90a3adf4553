"""Planned work on one primary and its replicas: switchover, scale, suspend, roll, lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.test_decide_instance import (
    DEAD,
    NOW,
    A,
    B,
    C,
    change,
    guards,
    node,
    planned,
    primary,
    recorded,
    replica,
    silent,
    three,
)
from valkey_operator.decide import lease
from valkey_operator.decide.actions import (
    HandOver,
    MakeNode,
    MoveService,
    Promote,
    RemoveNode,
    RestartPod,
    SetPromotable,
    UpdateNodes,
    WantedNode,
    Why,
)
from valkey_operator.decide.members import wanted_nodes
from valkey_operator.decide.requests import Answer
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.gate import Record
from valkey_operator.model.instance import Lease, NodeRecord, SeenInstance, SeenNode, SeenPod, Wish
from valkey_operator.render.node import valkey_node
from valkey_operator.render.pod import OperatorPlace

OLD = "another template"


class TestHandover:
    def test_a_person_names_the_new_primary(self) -> None:
        found = planned(three(wish=Wish(3, switchover=C)))
        assert recorded(found) == (2, C, Why.SWITCHOVER, True)

    def test_or_leaves_the_choice(self) -> None:
        found = planned(three(b=node(B, replica(900)), wish=Wish(3, switchover="")))
        assert recorded(found)[1] == C

    @pytest.mark.parametrize(
        ("b", "guard"),
        [
            (node(B, replica(link_is_up=False)), "replica_is_caught_up_before_switchover"),
            (node(B, replica(is_loading=True)), "replica_is_caught_up_before_switchover"),
            (node(B, replica(history="other")), "replica_is_caught_up_before_switchover"),
            (silent(B), "replica_is_caught_up_before_switchover"),
        ],
    )
    def test_only_one_that_is_caught_up(self, b: SeenNode, guard: str) -> None:
        found = planned(three(b=b, promotable=(), lease=Lease(), wish=Wish(3, switchover=B)))
        assert not found.actions
        assert guard in guards(found)

    def test_one_far_behind_is_not_caught_up(self) -> None:
        far = three(node(A, primary(10**8)), wish=Wish(3, switchover=B))
        assert "replica_is_caught_up_before_switchover" in guards(planned(far))

    def test_a_name_that_is_no_replica_is_refused(self) -> None:
        found = planned(three(wish=Wish(3, switchover="v-9")))
        assert guards(found) == {"a_new_primary_is_one_of_its_replicas"}

    def asked(self, to: str, asked_for: float = 0.0) -> Wish:
        return Wish(3, switchover=to, request="id-1", asked_for=asked_for)

    def test_one_that_can_be_is_taken_up_and_not_answered_yet(self) -> None:
        assert planned(three(wish=self.asked(B))).answer is None

    def test_who_asks_for_the_primary_itself_is_told_that_it_is_done(self) -> None:
        found = planned(three(wish=self.asked(A)))
        assert not found.actions
        assert found.answer == Answer("id-1", "Done", "v-0 is primary already")

    def test_but_not_before_the_primary_is_in_office(self) -> None:
        for seen in (
            three(DEAD, wish=self.asked(A)),
            self.recorded_for_b(node(A, primary()), node(B, replica()), wish=self.asked(B)),
        ):
            assert planned(seen).answer is None

    def test_a_name_that_is_no_replica_is_answered_at_once(self) -> None:
        found = planned(three(wish=self.asked("v-9")))
        assert found.answer == Answer(
            "id-1", "Refused", "a_new_primary_is_one_of_its_replicas: v-9 is no replica that stays"
        )

    def test_what_may_end_by_itself_is_waited_for_and_refused_after_half_a_minute(self) -> None:
        behind = node(B, replica(link_is_up=False))
        held = three(b=behind, promotable=(), lease=Lease(), wish=self.asked(B, 20.0))
        found = planned(held)
        assert found.answer is None
        assert found.again is not None
        assert found.again <= 10
        found = planned(replace(held, wish=self.asked(B, 31.0)))
        assert found.answer == Answer(
            "id-1", "Refused", "replica_is_caught_up_before_switchover: none of v-1 is in sync with v-0"
        )

    def test_one_that_something_else_holds_up_is_refused_with_what_that_is(self) -> None:
        unseen = three(silent(A), wish=self.asked(B, 31.0))
        answer = planned(unseen).answer
        assert answer is not None
        assert (answer.result, answer.message) == ("Refused", planned(unseen).report.message)

    def test_nobody_waits_for_one_that_is_paused(self) -> None:
        found = planned(three(wish=replace(self.asked(B), is_paused=True)))
        assert found.answer == Answer("id-1", "Refused", "nothing is done while spec.paused is set")

    def test_a_pod_that_is_being_stopped_hands_over_first(self) -> None:
        stopping = node(A, primary(), pod=SeenPod(is_ready=True, is_being_deleted=True))
        assert recorded(planned(three(stopping))) == (2, B, Why.POD_STOPPING, True)

    def test_it_waits_until_clients_have_followed_the_last_pod_but_not_for_a_pod_that_is_being_stopped(
        self,
    ) -> None:
        asked = three(wish=Wish(3, switchover=B), quiet_for=2.0)
        found = planned(asked)
        assert guards(found) == {"the_pods_have_been_quiet"}
        assert found.again is not None
        assert found.again < 1
        assert recorded(planned(replace(asked, quiet_for=2.3)))[1] == B
        pod = SeenPod("pod of v-0", is_ready=True, is_being_deleted=True)
        stopping = replace(node(A, primary()), pod=pod)
        assert recorded(planned(three(stopping, quiet_for=0.0)))[2] == Why.POD_STOPPING

    def recorded_for_b(self, a: SeenNode, b: SeenNode, **more: Any) -> SeenInstance:
        under_way = change(2, A, B, Why.SWITCHOVER, planned=True, ago=more.pop("ago", 1.0))
        return three(a, b, record=Record(2, B), last_failover=under_way, **more)

    def test_once_recorded_the_one_in_office_hands_over(self) -> None:
        seen = self.recorded_for_b(node(A, primary()), node(B, replica()))
        assert planned(seen).actions == (MoveService(B), HandOver(A, B, 2))

    def stopping(self, left: float = 60.0, b: SeenNode | None = None, **more: Any) -> SeenInstance:
        ends_at = NOW + timedelta(seconds=left)
        pod = SeenPod("pod of v-0", is_ready=True, is_being_deleted=True, ends_at=ends_at)
        under_way = change(2, A, B, Why.POD_STOPPING, planned=True, ago=more.pop("ago", 0.0))
        stopping = replace(node(A, primary()), pod=pod)
        return three(stopping, b or node(B, replica()), record=Record(2, B), last_failover=under_way, **more)

    def test_a_pod_that_is_being_stopped_serves_until_clients_have_followed_the_service(self) -> None:
        found = planned(self.stopping())
        assert found.actions == (MoveService(B),)
        assert found.again == pytest.approx(1.1)
        found = planned(self.stopping(service=B, moved_for=0.4))
        assert found.actions == ()
        assert found.again == pytest.approx(0.7)
        assert planned(self.stopping(service=B, moved_for=1.1)).actions == (HandOver(A, B, 2),)

    def test_an_operator_that_came_later_does_not_wait_for_clients_any_more(self) -> None:
        assert planned(self.stopping(service=B)).actions == (HandOver(A, B, 2),)

    @pytest.mark.parametrize("left", [9.0, -1.0])
    def test_a_pod_with_little_time_left_hands_over_at_once(self, left: float) -> None:
        assert planned(self.stopping(left)).actions == (MoveService(B), HandOver(A, B, 2))

    def test_while_clients_follow_nobody_minds_that_the_next_one_is_not_caught_up(self) -> None:
        for b in (node(B, replica(link_is_up=False)), silent(B)):
            found = planned(self.stopping(b=b, service=B, moved_for=0.4))
            assert found.actions == ()
            assert found.again == pytest.approx(0.7)
            assert recorded(planned(self.stopping(b=b, service=B, moved_for=1.1)))[2] == Why.HANDED_BACK
            assert recorded(planned(self.stopping(b=b)))[2] == Why.HANDED_BACK

    def test_the_time_in_which_clients_followed_is_not_taken_from_a_handover_that_was_refused(self) -> None:
        refused: dict[str, Any] = {"service": B, "moved_for": 3.0, "handover_failed": True}
        assert planned(self.stopping(ago=3.0, **refused)).actions == (HandOver(A, B, 2),)
        assert recorded(planned(self.stopping(ago=3.2, **refused)))[2] == Why.HANDED_BACK

    def test_cut_between_demotion_and_promotion_it_is_completed(self) -> None:
        seen = self.recorded_for_b(node(A, replica(follows=B, link_is_up=False), 2, B), node(B, replica()))
        assert planned(seen).actions == (Promote(B, 2), MoveService(B))

    def test_one_that_started_again_with_less_does_not_take_office(self) -> None:
        seen = self.recorded_for_b(node(A, replica(follows=B), 2, B), node(B, replica(0, link_is_up=False)))
        assert recorded(planned(seen)) == (3, A, Why.HANDED_BACK, True)

    def test_an_empty_one_waits_for_those_that_are_not_seen(self) -> None:
        a, b = node(A, replica(0, follows=B), 2, B), node(B, replica(0, link_is_up=False))
        assert not planned(self.recorded_for_b(a, b, c=silent(C))).actions

    def test_if_it_can_no_longer_take_over_the_one_in_office_stays(self) -> None:
        seen = self.recorded_for_b(node(A, primary()), silent(B))
        assert recorded(planned(seen)) == (3, A, Why.HANDED_BACK, True)

    def test_a_handover_that_does_not_come_about_is_given_up(self) -> None:
        seen = self.recorded_for_b(node(A, primary()), node(B, replica()), ago=31.0)
        assert recorded(planned(seen)) == (3, A, Why.HANDED_BACK, True)

    def test_one_that_was_refused_is_given_up_while_the_one_in_office_may_still_write(self) -> None:
        a, b = node(A, primary()), node(B, replica())
        tried = self.recorded_for_b(a, b, ago=1.0, handover_failed=True)
        assert planned(tried).actions == (MoveService(B), HandOver(A, B, 2))
        assert recorded(planned(self.recorded_for_b(a, b, ago=2.0, handover_failed=True)))[1] == A

    def test_nobody_waits_for_a_clock_that_was_ahead(self) -> None:
        done = replace(change(1, B, A, Why.SWITCHOVER, planned=True, ago=-3600.0), is_done=True)
        for last in (done, replace(done, reason=Why.HANDED_BACK)):
            found = planned(three(wish=Wish(3, switchover=B), last_failover=last))
            assert recorded(found)[1] == B
        begun = self.recorded_for_b(node(A, primary()), node(B, replica()), ago=-3600.0)
        assert recorded(planned(begun)) == (3, A, Why.HANDED_BACK, True)

    def test_and_not_tried_again_at_once(self) -> None:
        failed = replace(change(1, B, A, Why.HANDED_BACK, planned=True, ago=5.0), is_done=True)
        found = planned(three(wish=Wish(3, switchover=B), last_failover=failed))
        assert guards(found) == {"the_last_handover_did_not_fail_just_now"}

    def test_a_primary_that_dies_in_the_middle_is_followed_by_the_best(self) -> None:
        seen = self.recorded_for_b(DEAD, node(B, replica(980)), c=node(C, replica(990)))
        assert recorded(planned(seen))[:2] == (3, C)

    def test_one_lost_in_the_middle_is_replaced_as_any_other_lost_one(self) -> None:
        seen = self.recorded_for_b(silent(A), node(B, replica(silent_for=60)))
        assert recorded(planned(seen)) == (3, B, Why.UNREACHABLE, False)

    def test_nothing_else_is_done_meanwhile(self) -> None:
        seen = self.recorded_for_b(node(A, primary()), node(B, replica()), wish=Wish(1))
        assert planned(seen).actions == (MoveService(B), HandOver(A, B, 2))


DOES_WITHOUT: dict[str, dict[str, Any]] = {
    gone: {"promotable": (stays,), "lease": Lease(1000.0, 1.0, 1.0, frozenset({stays}), frozenset({stays}))}
    for gone, stays in ((B, C), (C, B))
}


def without(name: str, **more: Any) -> SeenInstance:
    """The primary has renewed its lease without this one."""
    return three(**DOES_WITHOUT[name], **more)


def rendered_members(wanted: WantedNode) -> list[str]:
    deployment = Deployment("Valkey", "v", "prod", "uid", {"persistence": {"enabled": False}})
    made = valkey_node(deployment, wanted.name, A, 1, OperatorPlace("image", "system"), wanted.record.members)
    members: list[str] = made["spec"]["valkeyConfig"]["members"]
    return members


class TestScale:
    def test_those_that_are_there_are_told_before_new_ones_are_made(self) -> None:
        seen = SeenInstance("v", Wish(3), Record(1, A), nodes=(node(A, primary()),), service=A)
        lone = replace(seen, nodes=(replace(seen.nodes[0], spec=NodeRecord(1, A, (A,))),))
        assert planned(lone).actions == (UpdateNodes((A,)), MakeNode(B), MakeNode(C))

    def test_specs_follow_from_the_record_and_the_members(self) -> None:
        assert {each.record for each in wanted_nodes(three())} == {NodeRecord(1, A, (A, B, C))}

    def test_twelve_nodes_that_say_what_was_rendered_are_left_alone(self) -> None:
        names = [f"v-{index}" for index in range(12)]
        replicas = [replace(node(B, replica()), name=name, index=int(name[2:])) for name in names[1:]]
        seen = three(
            wish=Wish(12), promotable=tuple(sorted(names[1:])), nodes=(node(A, primary()), *replicas)
        )
        specs = [NodeRecord(1, A, tuple(rendered_members(each))) for each in wanted_nodes(seen)]
        told = (replace(each, spec=spec) for each, spec in zip(seen.nodes, specs, strict=True))
        assert not planned(replace(seen, nodes=tuple(told))).actions

    def test_the_highest_goes_first_when_the_primary_does_without_it(self) -> None:
        found = planned(three(wish=Wish(1)))
        assert found.actions == (SetPromotable((B,)),)
        assert guards(found) == {"the_primary_does_without_it"}
        assert planned(without(C, wish=Wish(1))).actions == (RemoveNode(C),)

    @pytest.mark.parametrize(
        "lease", [Lease(1000.0), Lease(1000.0, 1.0, 1.0, frozenset({B}), frozenset({B, C}))]
    )
    def test_it_stays_until_the_primary_has_renewed_its_lease_without_it(self, lease: Lease) -> None:
        found = planned(three(wish=Wish(1), promotable=(B,), lease=lease))
        assert not found.actions
        assert guards(found) == {"the_primary_does_without_it"}
        assert "v-0 has yet to renew its lease without v-2" in found.report.message

    def test_the_primary_is_never_the_one_removed(self) -> None:
        nodes = (
            node(A, replica(follows=C), leader=C),
            node(B, replica(follows=C), leader=C),
            node(C, primary(), leader=C),
        )
        seen = three(*nodes, wish=Wish(2), record=Record(1, C), service=C, promotable=(A, B))
        assert recorded(planned(seen)) == (2, A, Why.SCALING, True)

    def test_a_replica_in_sync_stays(self) -> None:
        found = planned(three(b=node(B, replica(link_is_up=False)), wish=Wish(2), promotable=(C,)))
        assert not [each for each in found.actions if isinstance(each, RemoveNode)]
        assert "a_replica_in_sync_stays" in guards(found)

    def test_nothing_is_removed_while_nobody_is_in_office(self) -> None:
        found = planned(three(silent(A), wish=Wish(1), promotable=()))
        assert not found.actions
        assert "the_office_is_settled" in guards(found)

    def test_what_never_ran_may_go_at_any_time(self) -> None:
        pod = SeenPod(is_placed=False, unplaced_for=99.0, has_run=False)
        new = replace(node(C, None), pod=pod, said=None, answered=None, has_volume=False)
        assert RemoveNode(C) in planned(three(silent(A), c=new, wish=Wish(1), promotable=())).actions

    def test_suspended_the_primary_goes_last(self) -> None:
        assert planned(without(C, wish=Wish(0))).actions == (RemoveNode(C),)
        lone = replace(node(A, primary()), spec=NodeRecord(1, A, (A,)))
        seen = SeenInstance("v", Wish(0), Record(1, A), nodes=(lone,), service=A)
        assert planned(seen).actions == (RemoveNode(A),)

    def test_it_is_not_suspended_where_that_loses_everything(self) -> None:
        found = planned(three(wish=Wish(0, keeps_data=False)))
        assert not found.actions
        assert guards(found) == {"a_suspended_deployment_keeps_its_data"}
        assert planned(three(wish=Wish(0, keeps_data=False, gives_up=frozenset({A})))).actions

    def test_back_from_suspension_the_primary_that_was_is_made_too(self) -> None:
        found = planned(SeenInstance("v", Wish(1), Record(5, C)))
        assert found.actions == (MakeNode(A), MakeNode(C))


def rolling(*old: str, **more: Any) -> SeenInstance:
    seen = three(**more)
    nodes = (replace(each, needs_restart=OLD if each.name in old else "") for each in seen.nodes)
    return replace(seen, nodes=tuple(nodes))


class TestRoll:
    def test_replicas_go_first_the_highest_before_the_others(self) -> None:
        assert planned(rolling(A, B, C)).actions == (SetPromotable((B,)),)
        found = planned(rolling(A, B, C, **DOES_WITHOUT[C]))
        assert found.actions == (RestartPod(C, OLD),)
        assert found.report.operation is not None
        assert (found.report.operation.done, found.report.operation.total) == (0, 3)

    def test_each_is_back_in_sync_before_the_next(self) -> None:
        found = planned(rolling(A, B, c=node(C, replica(link_is_up=False)), promotable=(B,)))
        assert not found.actions
        assert guards(found) == {"only_one_pod_is_away_at_a_time"}

    def test_then_the_primary_hands_over(self) -> None:
        assert recorded(planned(rolling(A))) == (2, B, Why.ROLLING_UPDATE, True)

    def test_it_stops_when_the_first_pod_does_not_come_back(self) -> None:
        bad = node(C, None, pod=SeenPod(is_ready=False, fault="ImagePullBackOff"))
        found = planned(rolling(A, B, c=bad, promotable=(B,)))
        assert not found.actions
        assert guards(found) == {"the_first_pod_of_a_roll_came_back"}
        assert "v-2 does not come up, so nothing else is restarted" in found.report.message

    def test_and_goes_back_with_the_pod_that_failed(self) -> None:
        bad = node(C, None, pod=SeenPod(is_ready=False, fault="ImagePullBackOff"))
        assert planned(rolling(C, c=bad, promotable=(B,))).actions == (RestartPod(C, OLD),)

    @pytest.mark.parametrize(
        ("wish", "guard"),
        [
            (Wish(3, rolls=False), "updates_are_left_to_people"),
            (Wish(3, window_is_open=False), "a_roll_begins_in_its_window"),
        ],
    )
    def test_it_is_held_back(self, wish: Wish, guard: str) -> None:
        found = planned(rolling(A, B, C, wish=wish))
        assert not found.actions
        assert guards(found) == {guard}

    def test_one_that_has_begun_goes_on_when_its_window_closes(self) -> None:
        wish = Wish(3, window_is_open=False)
        found = planned(rolling(A, B, wish=wish, operation="RollingUpdate", **DOES_WITHOUT[B]))
        assert RestartPod(B, OLD) in found.actions

    def test_supervised_it_stops_before_the_primary(self) -> None:
        wish = Wish(3, is_supervised=True)
        assert RestartPod(C, OLD) in planned(rolling(A, C, wish=wish, **DOES_WITHOUT[C])).actions
        assert guards(planned(rolling(A, wish=wish))) == {"supervised_waits_for_a_person"}

    @pytest.mark.parametrize(("keeps_data", "is_restarted"), [(True, True), (False, False)])
    def test_a_lone_pod_is_restarted_only_with_its_data_on_a_volume(
        self, keeps_data: bool, is_restarted: bool
    ) -> None:
        lone = replace(node(A, primary()), spec=NodeRecord(1, A, (A,)), needs_restart=OLD)
        seen = SeenInstance("v", Wish(1, keeps_data=keeps_data), Record(1, A), nodes=(lone,), service=A)
        assert bool(planned(seen).actions) == is_restarted

    def test_without_volumes_replicas_are_restarted_and_copy_again(self) -> None:
        wish = Wish(3, keeps_data=False)
        assert RestartPod(C, OLD) in planned(rolling(A, B, C, wish=wish, **DOES_WITHOUT[C])).actions


class TestLease:
    def asks(self, seen: SeenInstance, **other: Any) -> lease.Grant | str:
        found: dict[str, Any] = {"node": A, "pod_uid": f"pod of {A}", "epoch": 1, **other}
        return lease.answer(seen, lease.Request(**found))

    def test_the_recorded_primary_may_write_and_counts_on_those_in_sync(self) -> None:
        assert self.asks(three(promotable=())) == lease.Grant(1, (B, C))

    def test_whoever_is_about_to_be_stopped_is_not_named_again(self) -> None:
        assert self.asks(rolling(A, B, C, promotable=(B,))) == lease.Grant(1, (B,))
        assert self.asks(three(wish=Wish(2), promotable=(B,))) == lease.Grant(1, (B,))

    def test_whoever_is_promotable_is_always_named(self) -> None:
        assert self.asks(three(b=silent(B))) == lease.Grant(1, (B, C))

    @pytest.mark.parametrize(
        ("seen", "other"),
        [
            (three(), {"node": B}),
            (three(), {"epoch": 2}),
            (three(), {"pod_uid": "the one before"}),
            (three(promotable=(A, B)), {}),
            (three(last_failover=change(1, B, A, Why.SWITCHOVER, planned=True)), {}),
        ],
        ids=["not primary", "another epoch", "another pod", "not settled", "not seen in office"],
    )
    def test_nobody_else_may(self, seen: SeenInstance, other: dict[str, Any]) -> None:
        assert isinstance(self.asks(seen, **other), str)

    def test_a_replica_is_promotable_when_the_primary_has_said_that_it_counts_on_it(self) -> None:
        counted = Lease(1000.0, 1.0, 1.0, frozenset({C}))
        assert planned(three(promotable=(), lease=counted)).actions == (SetPromotable((C,)),)

    def test_one_that_lost_its_link_is_not_while_the_primary_is_seen(self) -> None:
        assert planned(three(b=node(B, replica(link_is_up=False)))).actions == (SetPromotable((C,)),)

    def test_nobody_becomes_unfit_by_losing_the_primary(self) -> None:
        down = [node(name, replica(link_is_up=False)) for name in (B, C)]
        found = planned(three(silent(A), *down, lease=Lease(5.0)))
        assert not [each for each in found.actions if isinstance(each, SetPromotable)]

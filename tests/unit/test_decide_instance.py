"""One primary and its replicas: each case as a table of what is seen and what is done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from valkey_operator.api.status import State
from valkey_operator.decide.actions import (
    Follow,
    HandOver,
    MakeNode,
    MoveService,
    NoteFailover,
    NotePrimary,
    OpenGate,
    Promote,
    RecordPrimary,
    SetPromotable,
    Why,
)
from valkey_operator.decide.instance import Plan, plan
from valkey_operator.decide.succession import SILENT_LINK, loss, record
from valkey_operator.model.gate import Disk, Record
from valkey_operator.model.instance import (
    LastFailover,
    LastWord,
    Lease,
    Loss,
    NodeRecord,
    Said,
    SeenInstance,
    SeenNode,
    SeenPod,
    SeenServer,
    TakenOver,
    Wish,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
A, B, C = "v-0", "v-1", "v-2"
ALL = (A, B, C)
FULL = 1000
SAID = ("age", "disk", "gate_is_asked", "gate_waits_for", "noted_for", "taken_over")


def primary(offset: int = FULL, **more: Any) -> SeenServer:
    return SeenServer(is_primary=True, history="h", offset=offset, keys=offset, **more)


def replica(offset: int = FULL, follows: str = A, **more: Any) -> SeenServer:
    said: dict[str, Any] = {"link_is_up": True, "history": "h", "keys": offset, **more}
    return SeenServer(is_replica=True, follows=follows, offset=offset, **said)


def node(name: str, server: SeenServer | None, epoch: int = 1, leader: str = A, **more: Any) -> SeenNode:
    """It was asked just now, and answered."""
    said = {each: more.pop(each) for each in SAID if each in more}
    found: dict[str, Any] = {
        "has_volume": True,
        "spec": NodeRecord(epoch, leader, ALL),
        "pod": SeenPod(f"pod of {name}", is_ready=server is not None),
        "said": Said(server=server, record=Record(epoch, leader), **said),
        "answered": True,
        "was_in_sync": server is not None and server.is_replica,
    }
    return SeenNode(name, int(name[-1]), **{**found, **more})


def silent(name: str, **more: Any) -> SeenNode:
    """It was asked in vain, and its kubelet misses it too."""
    found = node(name, None, pod=SeenPod(is_ready=False, machine_is_lost=True), **more)
    return replace(found, said=None, unheard_for=60.0, answered=False)


def three(
    a: SeenNode | None = None, b: SeenNode | None = None, c: SeenNode | None = None, **more: Any
) -> SeenInstance:
    """All is well but for what is given; whoever is silent is silent for its replicas, too."""
    links: dict[str, Any] = {"silent_for": 60} if a is not None and a.said is None else {}
    nodes = (a or node(A, primary()), b or node(B, replica(**links)), c or node(C, replica(**links)))
    found: dict[str, Any] = {
        "wish": Wish(replicas=3), "record": Record(1, A), "promotable": (B, C), "service": A, "nodes": nodes,
        "lease": Lease(1000.0, 60.0, 60.0, frozenset({B, C})),
    }  # fmt: skip
    return SeenInstance("v", **{**found, **more})


def change(epoch: int, former: str, to: str, reason: Why, *, planned: bool, ago: float = 1.0) -> LastFailover:
    return LastFailover(epoch, former, to, planned, reason, NOW - timedelta(seconds=ago))


def planned(seen: SeenInstance) -> Plan:
    found = plan(seen, NOW)
    assert not found.ask
    return found


def guards(found: Plan) -> set[str]:
    return {each.refused_by for each in found.report.next if each.refused_by}


def recorded(found: Plan) -> tuple[int, str, Why, bool]:
    action, *then = found.actions
    assert isinstance(action, RecordPrimary)
    is_unproven = action.reason == Why.UNREACHABLE
    assert then == ([NotePrimary(action.primary, action.primary, action.epoch)] if is_unproven else [])
    return action.epoch, action.primary, action.reason, action.planned


DEAD = node(A, None, gate_is_asked=True, last_up=LastWord(FULL, 4.0))


class TestNothingToDo:
    def test_a_healthy_one_is_left_alone_and_nobody_is_asked(self) -> None:
        seen = three()
        seen = replace(seen, nodes=tuple(replace(each, answered=None) for each in seen.nodes))
        found = plan(seen, NOW)
        assert (found.actions, found.waits, found.ask) == ((), (), ())
        assert found.report.state == State.READY
        assert [each.role for each in found.report.nodes] == ["primary", "replica", "replica"]

    def test_before_anything_is_done_everybody_is_asked(self) -> None:
        seen = three(a=DEAD)
        seen = replace(seen, nodes=tuple(replace(each, answered=None) for each in seen.nodes))
        found = plan(seen, NOW)
        assert found.ask == ALL
        assert not found.actions

    def test_paused_nothing_is_done_not_even_a_failover(self) -> None:
        found = planned(three(a=DEAD, wish=Wish(3, is_paused=True)))
        assert not found.actions
        assert found.report.reason == "PausedByUser"

    def test_suspended_it_stays_so(self) -> None:
        found = planned(SeenInstance("v", Wish(0), Record(4, B)))
        assert (found.actions, found.waits) == ((), ())
        assert found.report.state == State.SUSPENDED


class TestFormation:
    def test_the_first_record_is_of_the_first_node(self) -> None:
        assert recorded(planned(SeenInstance("v", Wish(3)))) == (1, A, Why.FORMATION, True)

    def test_then_all_nodes_are_made_at_once(self) -> None:
        found = planned(SeenInstance("v", Wish(3), Record(1, A)))
        assert found.actions == (MakeNode(A), MakeNode(B), MakeNode(C))

    def test_the_gate_of_the_primary_opens_by_itself_when_everybody_answers(self) -> None:
        empty = [node(name, None, gate_is_asked=name == A) for name in ALL]
        found = planned(three(*empty, promotable=(), service=""))
        assert not found.actions
        assert "starts by itself" in found.report.message

    @pytest.mark.parametrize(
        ("waits_for", "c", "opens"),
        [
            ("every_member_must_have_answered: waits for an answer of v-1", node(C, None), True),
            ("every_member_must_have_answered: waits for an answer of v-2", silent(C), False),
            ("the gate asks the other members", node(C, None), False),
        ],
    )
    def test_one_that_does_not_reach_the_others_is_let_in_when_the_operator_has_asked_them(
        self, waits_for: str, c: SeenNode, opens: bool
    ) -> None:
        a = node(A, None, gate_is_asked=True, gate_waits_for=waits_for)
        found = planned(three(a, node(B, replica(0), was_in_sync=False), c, promotable=(), service=""))
        assert (found.actions == (OpenGate(A, 1),)) == opens
        assert opens or not found.actions

    @pytest.mark.parametrize(
        ("unplaced_for", "has_volume", "opens"),
        [(30.0, False, True), (5.0, False, False), (300.0, True, False)],
    )
    def test_a_pod_that_finds_no_machine_is_not_waited_for_if_it_never_had_anything(
        self, unplaced_for: float, has_volume: bool, opens: bool
    ) -> None:
        pod = SeenPod(is_placed=False, unplaced_for=unplaced_for, has_run=False)
        away = replace(node(C, None), pod=pod, said=None, answered=None, has_volume=has_volume)
        started = node(B, replica(0, link_is_up=False), was_in_sync=False)
        found = planned(three(node(A, None, gate_is_asked=True), started, away, promotable=()))
        assert (OpenGate(A, 1) in found.actions) == opens

    def test_a_record_that_nodes_have_noted_and_the_status_has_lost_is_found(self) -> None:
        found = planned(three(b=node(B, replica(), epoch=7, leader=B)))
        assert recorded(found) == (8, B, Why.RECORD_FOUND, False)

    def test_what_the_primary_has_handed_over_by_itself_is_told_as_that_and_is_done(self) -> None:
        b = node(B, primary(), epoch=2, leader=B, taken_over=TakenOver(A, 2))
        (action,) = planned(three(silent(A), b)).actions
        assert action == RecordPrimary(3, B, Why.POD_STOPPING, planned=True, former=A, made_in=2)
        told = change(2, A, B, Why.POD_STOPPING, planned=True)
        assert three(silent(A), b, record=Record(3, B), last_failover=told).change() is None

    @pytest.mark.parametrize(
        ("epoch", "taken"),
        [(2, None), (2, TakenOver(A, 1)), (2, TakenOver(C, 2)), (7, TakenOver(A, 7))],
        ids=["nobody knows", "by an earlier change", "by another one", "after changes that nobody knows of"],
    )
    def test_what_else_nodes_have_noted_is_no_handover(self, epoch: int, taken: TakenOver | None) -> None:
        b = node(B, primary(), epoch=epoch, leader=B, taken_over=taken)
        (action,) = planned(three(silent(A), b)).actions
        assert action == RecordPrimary(epoch + 1, B, Why.RECORD_FOUND, planned=False)


class TestProofOfDeath:
    def test_the_replica_with_most_follows_at_once(self) -> None:
        found = planned(
            three(DEAD, node(B, replica(990, link_is_up=False)), node(C, replica(995, link_is_up=False)))
        )
        assert recorded(found) == (2, C, Why.SERVER_DIED, False)

    def test_of_equals_the_first_one_follows(self) -> None:
        assert recorded(planned(three(DEAD)))[1] == B

    def test_what_may_be_lost_is_not_claimed_to_be_known(self) -> None:
        (action,) = planned(three(DEAD)).actions
        assert isinstance(action, RecordPrimary)
        assert action.loss == Loss(None, 4)

    @pytest.mark.parametrize(
        ("word", "writes_on", "lost"),
        [
            (None, False, Loss(is_unknown=True)),
            (LastWord(FULL, 3.2), False, Loss(None, 4)),
            (LastWord(FULL, 3.2), True, Loss(None, 13)),  # until it is fenced for sure
            (LastWord(FULL + 5, 3.2), False, Loss(is_unknown=True)),  # nobody knows since when
            (LastWord(FULL + 5, 3.2, is_final=True), False, Loss(5, 4)),
            (LastWord(FULL, 3.2, is_final=True), False, Loss(0, 0)),
            # Fenced when it was heard last; out of sight, its replicas may have let it write again.
            (LastWord(FULL, 3.2, is_final=True), True, Loss(None, 13)),
        ],
    )
    def test_what_can_be_lost_is_told_from_the_last_word(
        self, word: LastWord | None, writes_on: bool, lost: Loss
    ) -> None:
        former = node(A, None, last_up=word)
        assert loss(former, node(B, replica()), writes_on=writes_on) == lost

    def test_of_a_primary_that_wrote_no_more_it_is_known(self) -> None:
        fenced = replace(DEAD, last_up=LastWord(FULL, 4.0, is_final=True))
        (action,) = planned(three(fenced, node(B, replica(990)), node(C, replica(980)))).actions
        assert isinstance(action, RecordPrimary)
        assert action.loss.bytes == 10

    @pytest.mark.parametrize(
        "unfit",
        [
            node(B, replica(link_is_up=False), was_in_sync=False),
            node(B, replica(is_loading=True)),
            node(B, replica(is_syncing=True)),
            node(B, replica(), pod=SeenPod(is_being_deleted=True)),
            node(B, replace(replica(), answers=False)),
        ],
        ids=["never in sync", "loading", "syncing", "leaving", "silent"],
    )
    def test_a_replica_that_is_unfit_does_not_follow(self, unfit: SeenNode) -> None:
        assert recorded(planned(three(DEAD, unfit, node(C, replica(10)))))[1] == C

    def test_an_empty_node_never_leads_a_full_one(self) -> None:
        full = replace(
            DEAD, said=Said(disk=Disk(has_data=True, offset=900), record=Record(1, A), gate_is_asked=True)
        )
        found = planned(three(full, node(B, replica(0)), node(C, replica(0))))
        assert not [each for each in found.actions if isinstance(each, RecordPrimary)]

    def test_a_primary_whose_disk_is_complete_is_waited_for(self) -> None:
        disk = Disk(has_data=True, was_stopped_cleanly=True, offset=FULL)
        assert not planned(three(node(A, None, disk=disk, dead_for=2.0))).actions
        assert recorded(planned(three(node(A, None, disk=disk, dead_for=11.0))))[1] == B

    def test_the_old_primary_is_told_before_the_new_one_takes_office(self) -> None:
        under_way = change(2, A, B, Why.SERVER_DIED, planned=False)
        found = planned(three(DEAD, record=Record(2, B), last_failover=under_way))
        assert found.actions == (NotePrimary(A, B, 2), Promote(B, 2), MoveService(B))

    def test_one_that_came_back_meanwhile_gets_the_office_back(self) -> None:
        under_way = change(2, A, B, Why.SERVER_DIED, planned=False)
        behind = node(B, replica(10, link_is_up=False))
        found = planned(three(b=behind, record=Record(2, B), last_failover=under_way))
        assert recorded(found) == (3, A, Why.HANDED_BACK, False)

    @pytest.mark.parametrize(
        ("reason", "feared", "lost"),
        [
            (Why.SERVER_DIED, Loss(None, 1), Loss(is_unknown=True)),
            (Why.SERVER_DIED, Loss(is_unknown=True), Loss(is_unknown=True)),
            (Why.SERVER_DIED, Loss(0, 0), Loss(0, 0)),  # its last word was final
            (Why.UNREACHABLE, Loss(None, 13), Loss(None, 13)),
        ],
        ids=["died", "died long ago", "died after it had stopped writing", "was only unseen"],
    )
    def test_the_office_handed_back_does_not_hide_what_was_lost(
        self, reason: Why, feared: Loss, lost: Loss
    ) -> None:
        under_way = replace(change(2, A, B, reason, planned=False), loss=feared)
        behind = node(B, replica(10, link_is_up=False))
        found = planned(three(b=behind, record=Record(2, B), last_failover=under_way))
        [action] = [each for each in found.actions if isinstance(each, RecordPrimary)]
        assert action.loss == lost

    def test_one_that_was_only_unseen_and_follows_its_follower_again_has_lost_nobody_knows_what(self) -> None:
        under_way = replace(change(2, A, B, Why.UNREACHABLE, planned=False), loss=Loss(None, 13))
        seen = three(record=Record(2, B), last_failover=under_way)
        step = record(seen, seen.nodes[0], Why.SERVER_DIED, B, planned=False)
        [action] = [each for each in step.actions if isinstance(each, RecordPrimary)]
        assert (action.primary, action.loss) == (A, Loss(is_unknown=True))

    def test_when_it_is_in_office_everything_follows(self) -> None:
        under_way = change(2, A, B, Why.SERVER_DIED, planned=False)
        seen = three(DEAD, node(B, primary(), 2, B), record=Record(2, B), last_failover=under_way)
        assert planned(seen).actions == (
            MoveService(B), NotePrimary(A, B, 2), SetPromotable(()), NoteFailover(2, 1000), Follow(C, B, 2),
        )  # fmt: skip

    def test_a_pod_that_is_gone_is_dead_but_its_successor_might_start_so_the_fence_is_waited_for(
        self,
    ) -> None:
        gone = replace(silent(A), pod=None, was_seen_dying=True)
        assert recorded(planned(three(gone)))[2] == Why.SERVER_DIED
        under_way = change(2, A, B, Why.SERVER_DIED, planned=False)
        noted = node(B, replica(link_is_up=False), 2, B, noted_for=3.0)
        found = planned(three(gone, noted, record=Record(2, B), last_failover=under_way))
        assert not found.actions
        assert found.again == 3.0


class TestAllGoneAtOnce:
    def rdb(self, name: str, offset: int, server: SeenServer | None = None) -> SeenNode:
        disk = Disk(has_data=True, history="h", offset=offset)
        return node(name, server, disk=disk, gate_is_asked=name == A, was_in_sync=False)

    def started(self, name: str, offset: int) -> SeenNode:
        return self.rdb(name, offset, replica(offset, link_is_up=False))

    def test_the_fullest_disk_becomes_primary(self) -> None:
        found = planned(three(self.rdb(A, 500), self.started(B, 700), self.started(C, 600)))
        assert recorded(found) == (2, B, Why.FULLEST_DATA, False)

    def test_the_primary_is_let_in_if_it_has_most(self) -> None:
        found = planned(three(self.rdb(A, 800), self.started(B, 700), self.started(C, 600)))
        assert found.actions == (OpenGate(A, 1),)

    @pytest.mark.parametrize(
        "was_in_sync", [False, None]
    )  # None: this operator never saw the primary in office
    def test_a_log_of_the_primary_has_more_than_any_snapshot(self, was_in_sync: bool | None) -> None:
        log = node(A, None, disk=Disk(has_data=True, has_append_only_file=True), gate_is_asked=True)
        b, c = (replace(self.started(name, 700), was_in_sync=was_in_sync) for name in (B, C))
        assert planned(three(log, b, c, promotable=())).actions == (OpenGate(A, 1),)

    def test_nothing_is_decided_before_everybody_was_seen(self) -> None:
        found = planned(three(self.rdb(A, 800), self.started(B, 700), silent(C)))
        assert not found.actions
        assert "valkey.io/allow-data-loss: v-2" in found.report.message

    def test_an_empty_primary_that_waits_for_one_that_was_never_made_is_let_in(self) -> None:
        a, b = node(A, None, gate_is_asked=True), node(B, replica(0, link_is_up=False), was_in_sync=False)
        nothing_yet = three(a, b, wish=Wish(2), promotable=())
        assert planned(replace(nothing_yet, nodes=(a, b))).actions == (OpenGate(A, 1),)
        told = [replace(each, spec=NodeRecord(1, A, (A, B))) for each in (a, b)]
        assert not planned(replace(nothing_yet, nodes=tuple(told))).actions

    def test_what_a_person_has_given_up_is_not_waited_for(self) -> None:
        wish = Wish(3, gives_up=frozenset({C}))
        found = planned(three(self.rdb(A, 500), self.started(B, 700), silent(C), wish=wish))
        assert recorded(found) == (2, B, Why.FULLEST_DATA, False)
        nobody = planned(three(self.rdb(A, 500), silent(B), silent(C), wish=wish))
        assert not nobody.actions

    def test_a_replica_that_is_still_starting_is_waited_for(self) -> None:
        assert not planned(three(self.rdb(A, 500), self.started(B, 700), self.rdb(C, 900))).actions


READY = replace(silent(A), pod=SeenPod(is_ready=True))


class TestWithoutProof:
    def test_one_the_primary_counts_on_is_recorded_when_nobody_sees_it(self) -> None:
        found = planned(three(silent(A)))
        assert recorded(found) == (2, B, Why.UNREACHABLE, False)

    @pytest.mark.parametrize(
        ("seen", "guard"),
        [
            (three(replace(silent(A), unheard_for=3.0)), "nobody_hears_the_primary"),
            (three(silent(A), lease=Lease(1000.0, 2.0, 2.0)), "nobody_hears_the_primary"),
            (three(READY, node(B, replica())), "somebody_else_misses_the_primary"),
            (three(silent(A), c=node(C, replica())), "no_replica_hears_the_primary"),
            (three(replace(silent(A), pod=None), node(B, replica())), "no_replica_hears_the_primary"),
            (three(silent(A), promotable=()), "only_a_replica_the_primary_counts_on_replaces_it_unproven"),
            (
                three(silent(A), silent(B), silent(C)),
                "only_a_replica_the_primary_counts_on_replaces_it_unproven",
            ),
        ],
    )
    def test_otherwise_it_is_refused(self, seen: SeenInstance, guard: str) -> None:
        found = planned(seen)
        assert not found.actions
        assert guards(found) == {guard}

    def test_broken_links_are_a_second_witness(self) -> None:
        down = [node(name, replica(link_is_up=False)) for name in (B, C)]
        assert recorded(planned(three(READY, *down)))[2] == Why.UNREACHABLE

    def test_so_are_links_on_which_nothing_comes_any_more(self) -> None:
        mute = [node(name, replica(silent_for=SILENT_LINK)) for name in (B, C)]
        assert recorded(planned(three(READY, *mute)))[2] == Why.UNREACHABLE
        heard = three(READY, mute[0], node(C, replica(silent_for=SILENT_LINK - 1)))
        assert guards(planned(heard)) == {"somebody_else_misses_the_primary"}

    def test_one_that_does_not_ask_for_its_lease_is_asked(self) -> None:
        """Its last heartbeat alone would be believed for longer."""
        heard = replace(node(A, primary(), age=4.0), answered=None)
        counted_on = frozenset({B, C})
        assert plan(three(heard, lease=Lease(1000.0, 4.0, 4.0, counted_on)), NOW).ask == (A,)
        assert not plan(three(heard, lease=Lease(1000.0, 2.0, 2.0, counted_on)), NOW).ask

    def test_who_hears_somebody_else_does_not_hear_the_primary(self) -> None:
        chained = node(C, replica(follows=B))
        assert recorded(planned(three(silent(A), c=chained)))[2] == Why.UNREACHABLE

    def test_one_that_a_replica_hears_again_is_not_replaced_after_all(self) -> None:
        """Its links were down for a moment, and its sidecar, which alone could put up the fence, is away."""
        new = node(B, replica(link_is_up=False), 2, B, noted_for=20.0)
        under_way = change(2, A, B, Why.UNREACHABLE, planned=False)
        heard = three(silent(A), new, node(C, replica()), record=Record(2, B), last_failover=under_way)
        found = planned(heard)
        assert not found.actions
        assert guards(found) == {"no_replica_hears_the_primary"}
        gone = replace(silent(A), pod=None, was_seen_dying=True)
        proven = planned(replace(heard, nodes=(gone, *heard.nodes[1:])))
        assert proven.actions == (Promote(B, 2), MoveService(B))

    def taking_over(self, noted: float | None, granted: float | None, leads: float = 1000.0) -> Plan:
        epoch, leader = (2, B) if noted is not None else (1, A)
        new = node(B, replica(link_is_up=False), epoch, leader, noted_for=noted or 0.0)
        under_way = change(2, A, B, Why.UNREACHABLE, planned=False)
        leases = Lease(leads, granted, 60.0)
        return planned(three(silent(A), new, record=Record(2, B), last_failover=under_way, lease=leases))

    def test_it_notes_that_it_no_longer_follows_then_waits_then_takes_office(self) -> None:
        assert self.taking_over(None, 60.0).actions == (NotePrimary(B, B, 2),)
        assert self.taking_over(9.0, 60.0).actions == (Promote(B, 2), MoveService(B))

    @pytest.mark.parametrize(
        ("noted", "granted", "leads", "left"),
        [(20.0, 8.0, 1000.0, 1.0), (2.0, 60.0, 1000.0, 4.0), (20.0, None, 5.0, 4.0)],
        ids=["after the last grant", "after it was noted", "after the start of a new operator"],
    )
    def test_it_waits_for_the_fence_from_whatever_was_last(
        self, noted: float, granted: float | None, leads: float, left: float
    ) -> None:
        found = self.taking_over(noted, granted, leads)
        assert not found.actions
        assert found.again == left

    def test_an_old_primary_that_comes_back_meanwhile_keeps_the_office(self) -> None:
        under_way = change(2, A, B, Why.UNREACHABLE, planned=False)
        noted = node(B, replica(link_is_up=False), 2, B)
        found = planned(three(b=noted, record=Record(2, B), last_failover=under_way))
        assert recorded(found) == (3, A, Why.HANDED_BACK, False)

    @pytest.mark.parametrize(
        ("b", "wish", "is_back"),
        [
            (silent(B), Wish(3), False),
            (silent(B), Wish(3, gives_up=frozenset({B})), True),
            (replace(silent(B), unheard_for=8.0), Wish(3, gives_up=frozenset({B})), False),
            (replace(silent(B), pod=None, was_seen_dying=True), Wish(3), False),
            (replace(silent(B), pod=None, was_seen_dying=True, has_volume=False), Wish(3), True),
            (replace(silent(B), pod=SeenPod(is_placed=False, unplaced_for=30.0), has_volume=False), Wish(3), True),
        ],
        ids=["unseen", "given up", "just now", "dead, with a volume", "dead, without one", "never placed"],
    )  # fmt: skip
    def test_one_that_is_back_goes_on_where_its_successor_is_gone_for_good(
        self, b: SeenNode, wish: Wish, is_back: bool
    ) -> None:
        under_way = replace(change(2, A, B, Why.UNREACHABLE, planned=False), loss=Loss(None, 13))
        found = planned(three(b=b, wish=wish, record=Record(2, B), last_failover=under_way))
        if not is_back:
            assert not found.actions
            assert "valkey.io/allow-data-loss: v-1" in found.report.message
            return
        assert recorded(found) == (3, A, Why.HANDED_BACK, False)
        [action] = [each for each in found.actions if isinstance(each, RecordPrimary)]
        assert action.loss == Loss(is_unknown=True)

    def test_one_on_whom_nobody_may_follow_is_replaced_when_a_person_gives_it_up(self) -> None:
        assert (
            "if its server is off for sure, set the annotation valkey.io/allow-data-loss: v-0"
            in planned(three(silent(A), promotable=())).report.message
        )
        wish = Wish(3, gives_up=frozenset({A}))
        b, c = (node(name, replica(offset, silent_for=60)) for name, offset in ((B, 900), (C, 950)))
        given_up = three(silent(A), b, c, promotable=(), wish=wish)
        assert recorded(planned(given_up)) == (2, C, Why.FULLEST_DATA, False)
        assert guards(planned(three(silent(A), b, node(C, replica()), promotable=(), wish=wish))) == {
            "no_replica_hears_the_primary"
        }
        empty = [node(name, replica(0, link_is_up=False)) for name in (B, C)]
        assert recorded(planned(three(silent(A), *empty, promotable=(), wish=wish)))[1] == B
        assert not planned(three(silent(A), silent(B), empty[1], promotable=(), wish=wish)).actions

    def test_then_it_takes_office_when_the_last_grant_is_over(self) -> None:
        wish = Wish(3, gives_up=frozenset({A}))
        under_way = change(2, A, B, Why.FULLEST_DATA, planned=False)
        new = node(B, replica(silent_for=60), 2, B, noted_for=20.0)
        seen = three(silent(A), new, wish=wish, promotable=(), record=Record(2, B), last_failover=under_way)
        assert planned(seen).actions == (Promote(B, 2), MoveService(B))
        assert planned(replace(seen, lease=Lease(1000.0, 8.0, 60.0))).again == 1.0
        without = planned(replace(seen, wish=Wish(3)))
        assert not without.actions
        assert "valkey.io/allow-data-loss: v-0" in without.report.message

    def test_one_that_comes_back_later_follows(self) -> None:
        seen = three(
            node(A, primary()),
            node(B, primary(), 2, B),
            node(C, replica(follows=B), 2, B),
            record=Record(2, B),
            service=B,
        )
        assert planned(replace(seen, promotable=())).actions[0] == Follow(A, B, 2)

    def test_a_new_pod_does_not_speak_for_the_one_before_it(self) -> None:
        twin = replace(DEAD, may_have_a_twin=True)
        assert recorded(planned(three(twin)))[2] == Why.UNREACHABLE
        assert not planned(three(twin, promotable=())).actions

    def test_but_it_is_waited_for_where_its_disk_is_complete(self) -> None:
        complete = Disk(has_data=True, is_synced_always=True)
        assert not planned(three(node(A, None, disk=complete, may_have_a_twin=True))).actions
        late = node(A, None, disk=complete, may_have_a_twin=True, dead_for=11.0)
        assert recorded(planned(three(late)))[2] == Why.UNREACHABLE

    def test_a_server_that_is_silent_is_not_dead(self) -> None:
        assert not planned(three(node(A, SeenServer(answers=False)))).actions


class TestHandsOfPeople:
    @pytest.mark.parametrize(
        "server", [primary(), replica(follows=C), replica(follows="")], ids=["primary", "chained", "nobody"]
    )
    def test_whoever_does_not_follow_the_primary_is_put_back(self, server: SeenServer) -> None:
        assert planned(three(b=node(B, server))).actions == (Follow(B, A, 1),)

    def test_a_primary_that_was_demoted_is_put_back(self) -> None:
        assert planned(three(node(A, replica(follows=B, link_is_up=False)))).actions == (
            Promote(A, 1),
            MoveService(A),
        )

    def test_if_it_follows_a_new_one_that_one_hands_over(self) -> None:
        swapped = three(node(A, replica(follows=B)), node(B, primary()))
        assert planned(swapped).actions == (HandOver(B, A, 1),)

    def test_a_primary_made_by_hand_has_no_claim_when_the_recorded_one_dies(self) -> None:
        found = planned(three(DEAD, node(B, primary(10), was_in_sync=False)))
        assert recorded(found)[1] == C

    def test_a_full_one_is_not_made_to_follow_an_empty_primary(self) -> None:
        found = planned(three(node(A, primary(0)), node(B, primary()), node(C, replica(0)), promotable=(C,)))
        assert not found.actions
        assert guards(found) == {"an_empty_node_never_leads_a_full_one"}

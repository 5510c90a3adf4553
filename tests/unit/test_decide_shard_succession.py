"""Who follows primaries that are lost, dead or empty: each case as a table of what is seen and what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from tests.unit.test_decide_sharded import (
    COMPLETE,
    UNPROVEN,
    actions,
    cluster,
    dead,
    guards,
    name,
    planned,
    replaced,
    with_node,
)
from valkey_operator.api.reasons import Reason
from valkey_operator.api.status import State
from valkey_operator.decide.cluster_actions import (
    AssignSlots,
    FailOver,
    Follow,
    Forget,
    OpenGate,
)
from valkey_operator.decide.shard_succession import Election, elections, in_office
from valkey_operator.decide.sharded import Plan
from valkey_operator.model.cluster import ClusterView, SeenMember
from valkey_operator.model.gate import Disk
from valkey_operator.model.instance import LastWord, SeenPod, TakenOver
from valkey_operator.model.sharded import Change, ClusterWish, SeenSharded

LOGGED = Disk(has_data=True, has_append_only_file=True)


def silent(seen: SeenSharded, *names: str, **more: Any) -> SeenSharded:
    """Asked, and did not answer."""
    for each in names:
        seen = with_node(seen, each, answered=False, is_heard=False, age=20.0, **more)
    return seen


def without_volumes(seen: SeenSharded, which: str, **more: Any) -> SeenSharded:
    """Silent, and of its pod nobody knows that it has run."""
    found = seen.of(which)
    assert found is not None
    node = replace(found.node, view=None, known_id=found.node.id, is_in_sync=False, may_hold_data=False)
    return with_node(seen, which, node=node, is_heard=False, **more)


def takeovers(found: Plan) -> list[FailOver]:
    return [each for each in actions(found) if isinstance(each, FailOver) and each.proof]


class TestLostQuorum:
    """Two of three primaries are missing: no vote can succeed."""

    def both_dead(self, **more: Any) -> SeenSharded:
        return dead(dead(cluster(), name(0, 0), **more), name(1, 0), **more)

    def test_one_replica_takes_over_without_a_vote_and_the_next_is_voted_for(self) -> None:
        (action,) = takeovers(planned(self.both_dead()))
        assert (action.node, action.former_id) == (name(0, 1), "id-0-0")
        assert "the sidecar of g-0-0" in action.proof
        assert "the sidecar of g-1-0" in action.proof
        one_left = dead(cluster(), name(1, 0))
        (voted,) = actions(planned(one_left))
        assert (voted.node, voted.proof) == (name(1, 1), "")

    def test_whoever_loads_its_data_is_not_replaced_by_a_persons_word(self) -> None:
        """It was let in by it, and has more than the one that follows it."""
        seen = dead(cluster(wish=ClusterWish(3, 2, allows_takeover=frozenset({0}))), name(0, 0))
        hung = with_node(seen, name(0, 0), is_dead=False)
        assert [each.node for each in actions(planned(hung)) if isinstance(each, FailOver)] == [name(0, 1)]
        loading = with_node(hung, name(0, 0), is_loading=True)
        assert not actions(planned(loading))
        lost = silent(loading, name(0, 0))
        assert [each.node for each in actions(planned(lost)) if isinstance(each, FailOver)] == [name(0, 1)]

    def test_the_second_waits_until_it_knows_the_epoch_of_the_first(self) -> None:
        seen = self.both_dead()
        first = seen.of(name(2, 1))
        assert first is not None
        assert first.node.view is not None
        newer = replace(first.node, view=replace(first.node.view, current_epoch=9))
        assert not actions(planned(with_node(seen, name(2, 1), node=newer)))

    @pytest.mark.parametrize("index", [0, 1])
    def test_silence_is_no_proof_and_the_status_says_what_is_needed(self, index: int) -> None:
        """Whether one is proven dead or none: the operator may be on the minority's side."""
        seen = self.both_dead() if index else cluster()
        gone = silent(seen, name(0, 0)) if index else silent(seen, name(0, 0), name(1, 0))
        found = planned(with_node(gone, name(0, 0), machine="m1", is_dead=False))
        assert not takeovers(found)
        assert guards(found) == {UNPROVEN}
        assert "its machine (m1) be deleted or tainted" in found.report.message
        assert f"valkey.io/allow-takeover: {'0' if index else '0,1'} be set" in found.report.message

    def test_on_the_minority_side_of_a_partition_nothing_is_taken_over(self) -> None:
        """It sees one primary, and the replicas of the other two."""
        found = planned(silent(cluster(), name(0, 0), name(1, 0), name(2, 1)))
        assert not [each for each in actions(found) if isinstance(each, FailOver)]

    def test_a_machine_that_is_fenced_is_proof(self) -> None:
        seen = silent(cluster(), name(0, 0), name(1, 0), last_up=LastWord(100, 8.0), unlinked_for=7.0)
        gone = {"id-0-0": "its machine m1 is out of service", "id-1-0": "its machine m1 is out of service"}
        (action,) = takeovers(planned(replace(seen, gone=gone)))
        assert (action.node, action.lost_seconds) == (name(0, 1), 8)
        assert "its machine m1 is out of service" in action.proof
        assert not takeovers(planned(replace(seen, gone={"id-0-0": gone["id-0-0"]})))

    def test_a_person_may_allow_it_for_each_shard_and_nobody_knows_what_is_lost(self) -> None:
        wish = ClusterWish(3, 2, allows_takeover=frozenset({0, 1}))
        seen = silent(cluster(wish=wish), name(0, 0), name(1, 0), last_up=LastWord(100, 8.0))
        (action,) = takeovers(planned(seen))
        assert (action.shard, action.lost_seconds) == (0, None)
        one = replace(seen, wish=ClusterWish(3, 2, allows_takeover=frozenset({0})))
        assert not takeovers(planned(one))

    def test_an_allowance_is_good_for_one_time(self) -> None:
        wish = ClusterWish(3, 2, allows_takeover=frozenset({0, 1}))
        seen = silent(cluster(wish=wish), name(0, 0))
        assert planned(seen).report.used_takeovers == {1}

    def test_a_second_pod_that_waits_for_the_first_proves_nothing(self) -> None:
        assert not takeovers(planned(self.both_dead(is_alone=False)))

    def test_pods_that_came_after_others_were_taken_away_by_force_prove_nothing(self) -> None:
        """Those may be cut off and in office together: the status says what is needed."""
        found = planned(self.both_dead(is_alone=False, is_at_the_gate=True, machine="m1"))
        assert (actions(found), guards(found)) == ([], {UNPROVEN})
        assert (
            "g-0-0, g-1-0 may be alive: each must answer, or its machine (m1) be deleted"
            in found.report.message
        )

    def test_a_shard_of_one_cluster_is_healed_too(self) -> None:
        lone = replace(cluster(shards=1, slots_of=1), wish=ClusterWish(1, 2))
        (action,) = takeovers(planned(dead(lone, name(0, 0))))
        assert action.node == name(0, 1)

    def test_pods_that_are_about_to_return_are_waited_for_without_an_alarm(self) -> None:
        seen = silent(cluster(), name(0, 0), name(1, 0), pod=None)
        found = planned(seen)
        assert (actions(found), guards(found)) == ([], set())


class TestOneThatNeverRan:
    """A replica for which no machine has room: nobody knows its id, and it may never answer."""

    def without(self, which: str, *, may_hold_data: bool, replicas: int = 2) -> SeenSharded:
        seen = cluster(replicas=replicas)
        nodes = []
        for each in seen.nodes:
            view = each.node.view
            assert view is not None
            if each.name == which:
                never = replace(each.node, view=None, is_in_sync=False, may_hold_data=may_hold_data)
                pod = SeenPod("p", is_placed=False, has_run=False)
                nodes.append(replace(each, node=never, pod=pod, is_heard=False, answered=False))
            else:
                known = tuple(member for member in view.members if member.id != which.replace("g", "id"))
                nodes.append(replace(each, node=replace(each.node, view=replace(view, members=known))))
        return replace(seen, nodes=tuple(nodes))

    def stopped(self, seen: SeenSharded, **more: Any) -> SeenSharded:
        gone = dead(seen, name(0, 0), is_at_the_gate=True)
        return with_node(gone, name(0, 0), **{"disk": COMPLETE, "dead_for": 11.0, **more})

    def test_does_not_keep_its_primary_at_the_gate(self) -> None:
        seen = self.without(name(0, 1), may_hold_data=False)
        assert OpenGate(name(0, 0)) not in actions(planned(self.stopped(seen, dead_for=5.0)))
        found = planned(self.stopped(seen))
        assert OpenGate(name(0, 0)) in actions(found)
        empty = planned(self.stopped(seen, disk=Disk()))
        assert OpenGate(name(0, 0)) in actions(empty)

    def test_an_earlier_pod_of_that_primary_may_be_in_office_and_then_no_second_server_of_its_name_starts(
        self,
    ) -> None:
        seen = self.stopped(
            self.without(name(0, 1), may_hold_data=False),
            is_alone=False,
            may_run_elsewhere=True,
            machine="m1",
        )
        found = planned(seen)
        assert OpenGate(name(0, 0)) not in actions(found)
        assert "its machine (m1) must be deleted or tainted" in found.report.message
        assert "valkey.io/allow-takeover: 0 be set" in found.report.message
        allowed = replace(seen, wish=ClusterWish(3, 2, allows_takeover=frozenset({0})))
        assert OpenGate(name(0, 0)) in actions(planned(allowed))

    def test_one_that_may_hold_data_does(self) -> None:
        seen = self.stopped(self.without(name(0, 1), may_hold_data=True))
        assert OpenGate(name(0, 0)) not in actions(planned(seen))

    @pytest.mark.parametrize(
        "may_run_elsewhere", [True, False], ids=["known", "to an operator that came later"]
    )
    @pytest.mark.parametrize("pod", [None, SeenPod("new", is_placed=False, has_run=False)])
    def test_one_whose_earlier_pod_was_taken_away_by_force_has_run_and_may_have_everything(
        self, pod: SeenPod | None, may_run_elsewhere: bool
    ) -> None:
        """Without volumes: its server lives, cut off, and that of its primary was killed before it had saved."""
        seen = without_volumes(cluster(), name(0, 1), pod=pod, may_run_elsewhere=may_run_elsewhere)
        assert OpenGate(name(0, 0)) not in actions(planned(self.stopped(seen, disk=Disk())))
        ended = replace(seen, gone={"id-0-1": "its kubelet has ended its pod for good"})
        opens = OpenGate(name(0, 0)) in actions(planned(self.stopped(ended, disk=Disk())))
        assert opens is not may_run_elsewhere

    def test_nor_is_the_word_of_its_next_pod_enough_that_no_server_runs(self) -> None:
        seen = without_volumes(cluster(), name(0, 1), is_dead=True, may_run_elsewhere=True)
        assert "g-0-1 of shard 0 does not answer" in planned(self.stopped(seen)).report.message

    def test_nor_does_it_keep_another_replica_from_being_compared_with_the_disk(self) -> None:
        seen = self.without(name(0, 2), may_hold_data=False, replicas=3)
        unlinked = with_node(seen, name(0, 1), was_linked=False, offset=50)
        assert OpenGate(name(0, 0)) in actions(planned(self.stopped(unlinked, disk=LOGGED)))
        (action,) = [
            each
            for each in actions(planned(self.stopped(unlinked, disk=Disk())))
            if isinstance(each, FailOver)
        ]
        assert action.node == name(0, 1)


class TestOneThatIsGoneForGood:
    """A replica with a volume whose machine was lost; its primary is at the gate, which asks it in vain."""

    MACHINE: ClassVar[dict[str, str]] = {"id-0-1": "its machine m2 was deleted"}
    UNPLACED = SeenPod("next", is_placed=False, has_run=False, unplaced_for=600.0)
    STUCK = SeenPod("old", is_being_deleted=True, has_run=True)

    def stopped(self, replicas: int = 1, allowed: int | None = None, **more: Any) -> SeenSharded:
        allows = frozenset() if allowed is None else frozenset({allowed})
        seen = dead(
            cluster(wish=ClusterWish(3, replicas, allows_takeover=allows)), name(0, 0), is_at_the_gate=True
        )
        seen = with_node(seen, name(0, 0), disk=LOGGED, dead_for=600.0)
        found = seen.of(name(0, 1))
        assert found is not None
        node = replace(found.node, view=None, known_id=found.node.id, is_in_sync=False)
        lost = {"node": node, "is_heard": False, "answered": False, "machine": "m2", "pod": self.UNPLACED}
        return with_node(seen, name(0, 1), **lost | more)

    def opens(self, seen: SeenSharded) -> bool:
        return OpenGate(name(0, 0)) in actions(planned(seen))

    def test_one_that_is_not_wanted_any_more_is_not_waited_for(self) -> None:
        assert self.opens(replace(self.stopped(), gone=self.MACHINE))

    def test_nor_is_one_that_is_on_its_way_out(self) -> None:
        leaving = self.stopped(is_being_deleted=True, pod=self.STUCK)
        assert self.opens(replace(leaving, gone=self.MACHINE))

    @pytest.mark.parametrize("is_being_deleted", [True, False])
    def test_without_proof_it_may_be_in_office_and_the_status_says_what_a_person_can_do(
        self, is_being_deleted: bool
    ) -> None:
        found = planned(self.stopped(is_being_deleted=is_being_deleted, pod=self.STUCK))
        assert OpenGate(name(0, 0)) not in actions(found)
        assert (
            "g-0-1 of shard 0 does not answer, and may be in office or have newer data: it is waited for; if it is "
            "lost for good, its machine (m2) must be deleted or tainted node.kubernetes.io/out-of-service, or the "
            "annotation valkey.io/allow-takeover: 0 be set"
        ) in found.report.message
        assert self.opens(self.stopped(is_being_deleted=is_being_deleted, pod=self.STUCK, allowed=0))
        assert not self.opens(self.stopped(is_being_deleted=is_being_deleted, pod=self.STUCK, allowed=1))

    def test_one_that_is_wanted_may_bring_its_volume_unless_a_person_says_otherwise(self) -> None:
        found = planned(replace(self.stopped(replicas=2), gone=self.MACHINE))
        assert OpenGate(name(0, 0)) not in actions(found)
        assert (
            "if the volume is lost for good, the annotation valkey.io/allow-takeover: 0"
            in found.report.message
        )
        assert self.opens(self.stopped(replicas=2, allowed=0))

    @pytest.mark.parametrize(
        "pod",
        [
            None,
            SeenPod("next", has_run=False),
            SeenPod("next", is_placed=False, has_run=False, unplaced_for=5.0),
        ],
        ids=["yet to come", "about to start", "looking for a machine"],
    )
    def test_so_may_one_that_is_not_wanted_where_its_next_pod_may_start(self, pod: SeenPod | None) -> None:
        assert not self.opens(replace(self.stopped(pod=pod), gone=self.MACHINE))

    def test_beside_its_volume_no_empty_primary_is_let_in_without_a_person(self) -> None:
        def empty(seen: SeenSharded) -> SeenSharded:
            return with_node(replace(seen, gone=self.MACHINE), name(0, 0), disk=Disk())

        assert not self.opens(empty(self.stopped()))
        assert self.opens(empty(self.stopped(allowed=0)))

    def test_an_earlier_pod_of_it_may_be_in_office(self) -> None:
        assert not self.opens(replace(self.stopped(may_run_elsewhere=True), gone=self.MACHINE))

    def test_an_earlier_pod_of_the_primary_may_be_too(self) -> None:
        seen = replace(self.stopped(), gone=self.MACHINE)
        assert not self.opens(with_node(seen, name(0, 0), may_run_elsewhere=True))

    def test_one_that_is_loading_is_not_lost_whatever_a_person_allows(self) -> None:
        found = planned(self.stopped(allowed=0, is_heard=True, answered=True))
        assert OpenGate(name(0, 0)) not in actions(found)
        assert "the server of g-0-1 of shard 0 runs, and has not answered yet" in found.report.message

    def test_a_primary_that_does_not_answer_either_is_not_said_to_start(self) -> None:
        silent_too = with_node(
            self.stopped(allowed=0),
            name(0, 0),
            is_dead=False,
            is_heard=False,
            is_at_the_gate=False,
            answered=False,
        )
        assert (
            "g-0-0 does not answer, and nobody who does has the data of shard 0"
            in planned(silent_too).report.message
        )

    @pytest.mark.parametrize(("follows", "opens"), [("", True), ("id-old", False)])
    def test_beside_one_that_came_back_empty_it_is_not_waited_for_either(
        self, follows: str, opens: bool
    ) -> None:
        """A replica of another one has data of the shard, and has yet to learn whom it follows."""
        more = cluster(replicas=3, wish=ClusterWish(3, 2)).of(name(0, 2))
        assert more is not None
        seen = replace(self.stopped(replicas=2, allowed=0), gone=self.MACHINE)
        view = ClusterView(
            "id-new", members=(SeenMember("id-new", is_primary=not follows, primary_id=follows),)
        )
        third = replace(more, node=replace(more.node, view=view, keys=0, is_in_sync=False))
        assert self.opens(replace(seen, nodes=(*seen.nodes, third))) is opens


class TestElections:
    def test_a_primary_that_the_servers_have_chosen_is_noticed(self) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1), 1: name(1, 0)})
        assert elections(seen) == (Election(0, name(0, 1), name(0, 0), was_handed_over=False),)

    @pytest.mark.parametrize(
        ("former", "epoch", "was_handed_over"),
        [(name(0, 1), 1, True), (name(0, 1), 9, False), (name(0, 2), 1, False)],
        ids=["with every write", "by an earlier change", "by another one, after a change that nobody saw"],
    )
    def test_a_handover_is_what_the_new_primary_says_of_this_very_change(
        self, former: str, epoch: int, was_handed_over: bool
    ) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1)})
        said = with_node(seen, name(0, 0), taken_over=TakenOver(former, epoch))
        assert elections(said) == (Election(0, name(0, 1), name(0, 0), was_handed_over),)

    def test_that_the_former_ones_pod_is_being_stopped_proves_no_handover(self) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1)})
        leaving = with_node(seen, name(0, 1), pod=SeenPod("p", is_being_deleted=True))
        assert not elections(leaving)[0].was_handed_over

    @pytest.mark.parametrize(
        ("shard", "former", "to", "is_recorded"),
        [(0, 1, 0, True), (1, 1, 0, False), (0, 2, 0, False), (0, 1, 2, False)],
        ids=["this one", "of another shard", "from another one", "to another one"],
    )
    def test_what_an_operator_recorded_before_it_was_gone_is_no_election(
        self, shard: int, former: int, to: int, is_recorded: bool
    ) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1)})
        change = Change(shard, name(0, former), name(0, to), is_planned=False)
        (found,) = elections(replace(seen, recorded=change))
        assert found.is_recorded is is_recorded
        (found,) = elections(replace(seen, recorded=replace(change, is_planned=True)))
        assert not found.is_recorded, "nobody knows that it has every write"
        handed_over = with_node(seen, name(0, 0), taken_over=TakenOver(name(0, 1), 1))
        (found,) = elections(replace(handed_over, recorded=replace(change, is_planned=True)))
        assert found.is_recorded is is_recorded

    def test_before_the_new_primary_knows_how_it_came_to_office_nothing_is_said_of_it(self) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1)})
        taking = TakenOver(name(0, 1), is_under_way=True)
        assert elections(with_node(seen, name(0, 0), taken_over=taking)) == ()
        assert in_office(with_node(seen, name(0, 0), taken_over=taking)).keys() == {1, 2}
        heir = seen.of(name(0, 0))
        assert heir is not None
        assert heir.node.view is not None
        replica = replace(heir.node.view.own, is_primary=False, ranges=())
        stale = replace(heir.node.view, members=(replica,))
        older = with_node(seen, name(0, 0), node=replace(heir.node, view=stale))
        assert older.primary_of(0) is not None, "by the word of the others"
        assert elections(older) == ()

    def test_who_is_not_seen_was_not_elected(self) -> None:
        seen = replace(cluster(), primaries={0: name(0, 1)})
        assert elections(seen.believed()) == elections(seen)
        assert elections(silent(seen, name(0, 0)).believed()) == ()


class TestWhatIsLeft:
    """All servers ended at once: the replicas are back with what was on their disks, and were never in sync since."""

    def stopped(self, disk: Disk, **replica: Any) -> SeenSharded:
        seen = dead(cluster(), name(0, 0), disk=disk, is_at_the_gate=True)
        return with_node(seen, name(0, 1), **{"was_linked": False, "offset": 50} | replica)

    @pytest.mark.parametrize(
        ("disk", "replica", "opens"),
        [
            (Disk(has_data=True, offset=60), {}, True),
            (Disk(has_data=True, offset=40), {}, False),
            (Disk(has_data=True, has_append_only_file=True), {}, True),
            # This operator never saw it before: that says nothing of who has more.
            (Disk(has_data=True, has_append_only_file=True), {"was_linked": None}, True),
            (Disk(), {}, False),
        ],
    )
    def test_whoever_has_most_leads(self, disk: Disk, replica: dict[str, Any], opens: bool) -> None:
        (action,) = actions(planned(self.stopped(disk, **replica)))
        if opens:
            assert action == OpenGate(name(0, 0))
        else:
            assert (action.node, action.reason, action.lost_seconds) == (name(0, 1), "FullestData", None)

    @pytest.mark.parametrize("may_hold_data", [True, False])
    @pytest.mark.parametrize("pod", [None, SeenPod("old", is_being_deleted=True, has_run=True)])
    def test_one_whose_next_pod_is_yet_to_come_is_waited_for_if_it_has_a_volume(
        self, may_hold_data: bool, pod: SeenPod | None
    ) -> None:
        """Its replica ended before it, and is back first: what was written in between is on that volume alone."""
        seen = silent(cluster(), name(0, 0), pod=pod)
        found = seen.of(name(0, 0))
        assert found is not None
        seen = with_node(seen, name(0, 0), node=replace(found.node, may_hold_data=may_hold_data))
        seen = with_node(seen, name(0, 1), was_linked=False, offset=50)
        ended = replace(seen, gone={"id-0-0": "its kubelet has ended its pod for good"})
        failovers = [each.node for each in actions(planned(ended)) if isinstance(each, FailOver)]
        assert failovers == ([] if may_hold_data else [name(0, 1)])

    def test_the_bound_of_a_loss_is_never_below_what_was_lost(self) -> None:
        """Only what came after the last word can be lost; if the heir lacks some of that, nobody knows."""
        seen = dead(cluster(), name(0, 0), last_up=LastWord(100, 1.3))
        assert actions(planned(seen))[0].lost_seconds == 2
        lagging = with_node(seen, name(0, 1), offset=99)
        assert actions(planned(lagging))[0].lost_seconds is None


class TestEmptyVolumes:
    @pytest.mark.parametrize("alive", [True, False])
    def test_a_replica_never_follows_a_primary_that_came_back_empty(self, alive: bool) -> None:
        found = planned(replaced(cluster(), name(1, 0), alive=alive))
        assert not [each for each in actions(found) if isinstance(each, Follow)]
        assert "only_our_nodes_are_members" not in guards(found)
        assert found.report.shards[1].primary == ""

    def test_with_proof_that_the_old_one_is_gone_its_replica_is_asked_at_once(self) -> None:
        seen = replace(
            replaced(cluster(), name(1, 0)), gone={"id-1-0": "its kubelet has ended its pod for good"}
        )
        (action,) = actions(planned(seen))
        assert (action.node, action.former, action.former_id) == (name(1, 1), name(1, 0), "id-1-0")

    def test_a_shard_that_lost_all_its_data_is_said_and_not_refilled(self) -> None:
        seen = replaced(replaced(cluster(), name(1, 0)), name(1, 1))
        found = planned(seen)
        assert not [each for each in actions(found) if isinstance(each, AssignSlots)]
        assert guards(found) == {"lost_slots_are_not_refilled"}
        assert "the data of shard 1, slots 5462-10922, is lost" in found.report.message
        assert "valkey.io/allow-data-loss: 1" in found.report.message
        assert (found.report.state, found.report.reason) == (State.DEGRADED, Reason.SLOTS_WITHOUT_PRIMARY)
        assert found.report.slots_assigned == 16384 - 5461

    @pytest.mark.parametrize(("allowed", "is_done"), [({1}, True), ({0}, False), ({0, 1}, True)])
    def test_its_slots_are_served_again_only_when_a_person_names_the_shard(
        self, allowed: set[int], is_done: bool
    ) -> None:
        wish = ClusterWish(3, 2, allows_data_loss=frozenset(allowed))
        found = planned(replaced(replaced(cluster(wish=wish), name(1, 0)), name(1, 1)))
        assigned = [each for each in actions(found) if isinstance(each, AssignSlots)]
        assert bool(assigned) is is_done
        if is_done:
            forgotten = {each.node for each in actions(found) if isinstance(each, Forget)}
            assert forgotten == {each.name for each in cluster().nodes}
            assert [(each.node, each.slots) for each in assigned] == [(name(1, 0), ((5462, 10922),))]
        assert not found.report.used_data_losses

    def test_made_again_over_volumes_of_which_one_is_missing_it_says_so_too(self) -> None:
        """The resource is new, and knows nothing of what was formed; its servers do."""
        lost = replace(replaced(replaced(cluster(), name(1, 0)), name(1, 1)), is_formed=False)
        found = planned(lost)
        assert guards(found) == {"lost_slots_are_not_refilled"}
        assert "the data of shard 1, slots 5462-10922, is lost" in found.report.message
        allowed = replace(lost, wish=ClusterWish(3, 2, allows_data_loss=frozenset({1})))
        assigned = [each for each in actions(planned(allowed)) if isinstance(each, AssignSlots)]
        assert [(each.node, each.slots) for each in assigned] == [(name(1, 0), ((5462, 10922),))]

    def test_slots_that_were_no_shards_are_served_by_the_one_that_the_status_names(self) -> None:
        """Somebody took them away by hand: each shard owns some."""
        seen = cluster(wish=ClusterWish(3, 2, allows_data_loss=frozenset({0})))
        nodes = tuple(
            replace(each, node=replace(each.node, view=replace(each.node.view, members=tuple(
                replace(member, ranges=((0, 5000),)) if member.id == "id-0-0" else member
                for member in each.node.view.members
            ))))
            for each in seen.nodes if each.node.view is not None
        )  # fmt: skip
        found = planned(replace(seen, nodes=nodes, wish=ClusterWish(3, 2)))
        assert "slots 5001-5461, is lost" in found.report.message
        assert "valkey.io/allow-data-loss: 0" in found.report.message
        assigned = [
            each for each in actions(planned(replace(seen, nodes=nodes))) if isinstance(each, AssignSlots)
        ]
        assert [(each.node, each.slots) for each in assigned] == [(name(0, 0), ((5001, 5461),))]

    def test_nothing_is_refilled_while_one_is_silent_that_may_have_the_data(self) -> None:
        wish = ClusterWish(3, 2, allows_data_loss=frozenset({1}))
        seen = silent(replaced(cluster(wish=wish), name(1, 0)), name(1, 1))
        assert not [each for each in actions(planned(seen)) if isinstance(each, AssignSlots | Forget)]

    def test_an_allowance_that_is_not_needed_counts_as_used(self) -> None:
        wish = ClusterWish(3, 2, allows_data_loss=frozenset({1}))
        assert planned(cluster(wish=wish)).report.used_data_losses == {1}


def test_members_of_another_deployment_are_forgotten_by_all_at_once() -> None:
    seen = cluster()
    ours = next(view for _, view in seen.cluster.answered).members
    named = tuple(replace(each, hostname=f"{each.id.replace('id', 'g')}.ns.svc") for each in ours)
    other = SeenMember("x", "10.9.9.9:6379@16379", "other-0-0.ns.svc", config_epoch=7)
    nodes = tuple(
        replace(each, node=replace(each.node, view=replace(each.node.view, members=(*named, other))))
        for each in seen.nodes
        if each.node.view is not None
    )
    found = planned(replace(seen, nodes=nodes))
    assert actions(found) == [Forget(each.name, ("x",), though_they_own_slots=True) for each in nodes]
    assert "other-0-0.ns.svc" in found.report.message

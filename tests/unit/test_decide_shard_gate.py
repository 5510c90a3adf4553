"""A primary at its gate beside one whose server does not start: whose disk counts, and what a person can do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.test_decide_sharded import actions, cluster, dead, name, planned, with_node
from valkey_operator.decide.cluster_actions import OpenGate
from valkey_operator.model.gate import Disk
from valkey_operator.model.instance import SeenPod
from valkey_operator.model.sharded import ClusterWish, SeenSharded

LOGGED = Disk(has_data=True, has_append_only_file=True)


class TestOneWhoseServerDoesNotStart:
    """Beside a primary at the gate, which asks a third that never answers; or only waits for the other's disk."""

    NEVER_RAN = SeenPod("next", is_placed=False, has_run=False, unplaced_for=600.0)
    SNAPSHOT = Disk(has_data=True, history="h", offset=50)

    def stopped(self, disk: Disk, other: Disk, *, allowed: bool = False, **more: Any) -> SeenSharded:
        allows = frozenset({0} if allowed else ())
        seen = cluster(replicas=3, wish=ClusterWish(3, 3, allows_takeover=allows))
        seen = dead(seen, name(0, 0), is_at_the_gate=True)
        seen = with_node(seen, name(0, 0), disk=disk, dead_for=600.0)
        seen = with_node(dead(seen, name(0, 1)), name(0, 1), disk=other, **{"dead_for": 20.0, **more})
        third = seen.of(name(0, 2))
        assert third is not None
        node = replace(third.node, view=None, known_id="", may_hold_data=False)
        return with_node(
            seen, name(0, 2), node=node, pod=self.NEVER_RAN, is_heard=False, answered=False, offset=0
        )

    def opens(self, seen: SeenSharded) -> bool:
        return OpenGate(name(0, 0)) in actions(planned(seen))

    @pytest.mark.parametrize(
        ("disk", "other"),
        [
            (LOGGED, LOGGED),
            (LOGGED, Disk(has_data=True, history="h", offset=50)),
            (SNAPSHOT, Disk()),
            (SNAPSHOT, replace(SNAPSHOT, offset=50)),
            (Disk(), Disk()),
        ],
    )
    def test_one_whose_disk_goes_no_further_is_not_waited_for(self, disk: Disk, other: Disk) -> None:
        assert self.opens(self.stopped(disk, other))
        assert not self.opens(self.stopped(disk, other, may_run_elsewhere=True))
        assert not self.opens(self.stopped(disk, other, is_alone=False))

    @pytest.mark.parametrize(
        ("disk", "other"),
        [
            (SNAPSHOT, replace(SNAPSHOT, offset=51)),
            (SNAPSHOT, replace(SNAPSHOT, history="another")),
            (SNAPSHOT, LOGGED),
            (Disk(), SNAPSHOT),
        ],
    )
    def test_one_whose_disk_may_go_further_is_waited_for_until_a_person_gives_it_up(
        self, disk: Disk, other: Disk
    ) -> None:
        found = planned(self.stopped(disk, other))
        assert OpenGate(name(0, 0)) not in actions(found)
        assert (
            "g-0-0 waits at its gate, for the disk of g-0-1 of shard 0 may hold newer data, and no server runs there: "
            "it is waited for; if that data is not wanted, the annotation valkey.io/allow-takeover: 0 must be set"
        ) in found.report.message
        assert self.opens(self.stopped(disk, other, allowed=True))
        assert not self.opens(self.stopped(disk, other, allowed=True, dead_for=5.0)), "it may start"

    def test_without_a_third_too(self) -> None:
        further = replace(self.SNAPSHOT, offset=51)
        for allowed in (False, True):
            seen = self.stopped(self.SNAPSHOT, further, allowed=allowed)
            two = replace(seen, nodes=tuple(each for each in seen.nodes if each.name != name(0, 2)))
            assert self.opens(two) is allowed

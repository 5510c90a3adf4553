"""Whose sidecar is replaced next: one at a time, the primary's last, and none while somebody is away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.test_decide_sharded import cluster, with_node
from valkey_operator.api.guards import Guard
from valkey_operator.decide import cluster_actions
from valkey_operator.decide.sharded import plan
from valkey_operator.decide.sidecars import REPLACING, Candidate, Found, find
from valkey_operator.kube.objects import Metadata
from valkey_operator.model.instance import SeenPod
from valkey_operator.model.sharded import ClusterWish
from valkey_operator.operator.instance_seen import pod_of
from valkey_operator.operator.memory import Remembered
from valkey_operator.operator.seen import Container, Pod, PodSpec
from valkey_operator.render.node import fingerprint

OLD = SeenPod("p", is_ready=True, has_old_sidecar=True)
NEW = SeenPod("p", is_ready=True)
CHANGING = SeenPod("p", is_ready=True, sidecar_is_changing=True)


def nodes(*pods: SeenPod | None, away: str = "") -> list[Candidate]:
    """The first is the primary."""
    return [Candidate(f"v-{n}", pod, n == 0, f"v-{n}" != away) for n, pod in enumerate(pods)]


@pytest.mark.parametrize(
    ("pods", "away", "node", "guard"),
    [
        ((NEW, NEW, NEW), "", "", None),
        ((OLD, OLD, OLD), "", "v-1", None),
        ((OLD, NEW, OLD), "", "v-2", None),
        ((OLD, NEW, NEW), "", "v-0", None),
        ((OLD, CHANGING, OLD), "", "", Guard.ONLY_ONE_SIDECAR_IS_REPLACED_AT_A_TIME),
        ((OLD, NEW, OLD), "v-1", "", Guard.ONLY_ONE_SIDECAR_IS_REPLACED_AT_A_TIME),
        ((OLD, None, OLD), "v-1", "", Guard.ONLY_ONE_SIDECAR_IS_REPLACED_AT_A_TIME),
        ((NEW, NEW, NEW), "v-1", "", None),
        ((NEW, CHANGING, NEW), "", "", None),
    ],
)
def test_one_at_a_time_and_the_primary_last(
    pods: tuple[SeenPod | None, ...], away: str, node: str, guard: Guard | None
) -> None:
    found = find(nodes(*pods, away=away), rolls=True, may_begin=True)
    assert (found.node, found.refusal.guard if found.refusal else None) == (node, guard)


def test_it_says_how_far_it_is() -> None:
    found = find(nodes(OLD, NEW, OLD), rolls=True, may_begin=True)
    assert found.doing is not None
    assert (found.doing.kind, found.doing.done, found.doing.total) == (REPLACING, 1, 3)


@pytest.mark.parametrize(
    ("rolls", "may_begin", "guard"),
    [
        (False, True, Guard.UPDATES_ARE_LEFT_TO_PEOPLE),
        (True, False, Guard.A_ROLL_BEGINS_IN_ITS_WINDOW),
    ],
)
def test_it_keeps_to_what_the_spec_says_of_updates(rolls: bool, may_begin: bool, guard: Guard) -> None:
    found = find(nodes(OLD, OLD), rolls=rolls, may_begin=may_begin)
    assert (found.node, found.refusal.guard if found.refusal else None) == ("", guard)
    assert find(nodes(NEW, NEW), rolls=rolls, may_begin=may_begin) == Found()


def test_in_a_cluster_replicas_go_first_and_no_server_is_restarted() -> None:
    seen = cluster()
    old = replace(seen, nodes=tuple(replace(each, pod=OLD) for each in seen.nodes))
    assert plan(old).stages == ((cluster_actions.ReplaceSidecar("g-0-1"),),)
    primaries = replace(
        seen, nodes=tuple(replace(each, pod=OLD if each.node.index == 0 else NEW) for each in seen.nodes)
    )
    assert plan(primaries).stages == ((cluster_actions.ReplaceSidecar("g-0-0"),),)
    changing = with_node(primaries, "g-2-1", pod=CHANGING)
    assert plan(changing).stages == ()
    assert plan(replace(old, wish=ClusterWish(3, 2, rolls=False))).stages == ()


def test_another_image_of_the_sidecar_is_no_other_template() -> None:
    def spec(**changed: Any) -> dict[str, Any]:
        images = {"sidecar": "operator:1", "valkey": "valkey:9", **changed}
        return {
            "containers": [
                {"name": "sidecar", "image": images["sidecar"]},
                {"name": "valkey", "image": images["valkey"], "resources": changed.get("resources", {})},
            ],
        }

    assert fingerprint(spec()) == fingerprint(spec(sidecar="operator:2", resources={"limits": {"cpu": "1"}}))
    assert fingerprint(spec()) != fingerprint(spec(valkey="valkey:8"))


@pytest.mark.parametrize(
    ("containers", "is_old"),
    [({"sidecar": "operator:1"}, True), ({"sidecar": "operator:2"}, False), ({"valkey": "valkey:9"}, False)],
    ids=["of another image", "as wanted", "where an earlier build has it"],
)
def test_which_sidecar_is_an_old_one(containers: dict[str, str], is_old: bool) -> None:
    spec = PodSpec("node1", tuple(Container(name, image=image) for name, image in containers.items()))
    seen = pod_of(Pod(Metadata("p"), spec), Remembered(), 0.0, "", "operator:2")
    assert seen is not None
    assert seen.has_old_sidecar == is_old

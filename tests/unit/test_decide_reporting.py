"""What people read when pods do not come up."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tests.unit.test_decide_sharded import cluster
from valkey_operator.decide.reporting import LONGEST, message, next_steps, troubles
from valkey_operator.decide.resharding import MigrateSlots
from valkey_operator.decide.sharded import plan
from valkey_operator.model.instance import SeenPod
from valkey_operator.operator.seen import Pod

FULL = "no machine takes it: 0/3 nodes are available: 3 Insufficient memory."


def test_pods_in_the_same_trouble_share_a_sentence() -> None:
    pods = [
        ("a", SeenPod(trouble=FULL)),
        ("b", SeenPod(is_ready=True, trouble="the exporter has ended")),
        ("c", SeenPod(trouble=FULL)),
        ("d", SeenPod(trouble="container valkey waits: ErrImagePull")),
        ("e", None),
        ("f", SeenPod()),
    ]
    assert troubles(pods) == [f"a, c: {FULL}", "d: container valkey waits: ErrImagePull"]


def test_a_cluster_says_why_a_pod_does_not_come_up() -> None:
    seen = cluster()
    silent = replace(seen.nodes[1].unheard(), pod=SeenPod("p", is_placed=False, trouble=FULL))
    found = plan(replace(seen, nodes=(seen.nodes[0], silent, *seen.nodes[2:])))
    assert f"g-0-1: {FULL}" in found.report.message


def test_a_pod_that_no_machine_takes_is_in_trouble_and_without_fault() -> None:
    said = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"conditions": [said]}}, Pod)
    assert (pod.unplaced, pod.fault) == ("no machine takes it: 0/3 nodes are available", "")
    placed = msgspec.convert(
        {"metadata": {"name": "p"}, "status": {"conditions": [{**said, "status": "True"}]}}, Pod
    )
    assert placed.unplaced == ""


def test_a_message_says_nothing_twice_and_has_an_end() -> None:
    assert message("a", "b", "a") == "a; b"
    assert len(message("x" * 2 * LONGEST)) == LONGEST


def test_a_step_names_whom_it_is_about() -> None:
    (step,) = next_steps([MigrateSlots("g-0-0", "g-1-0", "id", frozenset({1}), key_by_key=False)], [])
    assert (step.action, step.why) == ("MigrateSlots", "g-0-0 g-1-0")

"""A kubelet is told to look, again and again, but not for ever."""

from __future__ import annotations

from valkey_operator.kube.objects import Metadata
from valkey_operator.operator.nudges import ATTEMPTS, Nudges
from valkey_operator.operator.seen import Pod

POD = Pod(Metadata(name="one-0-0", namespace="prod", uid="1"))


def test_a_pod_is_nudged_less_and_less_often_and_then_no_more() -> None:
    clock = [0.0]
    nudges = Nudges(lambda: clock[0])
    written = []
    for second in range(300):
        clock[0] = float(second)
        if value := nudges.value(POD, "inputs", "7"):
            written.append((second, value))
    assert written == [(0, "7"), (2, "7-2"), (6, "7-3"), (14, "7-4"), (30, "7-5"), (62, "7-6")]
    assert len(written) == ATTEMPTS
    assert nudges.pause(POD, "inputs") is None


def test_something_new_is_told_at_once() -> None:
    clock = [0.0]
    nudges = Nudges(lambda: clock[0])
    assert nudges.value(POD, "inputs", "7") == "7"
    assert nudges.value(POD, "inputs", "7") is None
    assert nudges.pause(POD, "inputs") == 2.0
    assert nudges.value(POD, "inputs", "8") == "8"
    assert nudges.value(POD, "others", "8") == "8"


def test_what_has_arrived_is_forgotten() -> None:
    nudges = Nudges(lambda: 0.0)
    assert nudges.value(POD, "inputs", "7") == "7"
    nudges.arrived(POD, "inputs")
    assert nudges.pause(POD, "inputs") is None
    assert nudges.value(POD, "inputs", "7") == "7"

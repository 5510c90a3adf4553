"""A kubelet is told to look, again and again, but not for ever."""

from __future__ import annotations

from valkey_operator.kube.objects import Key, Metadata
from valkey_operator.operator.nudges import ATTEMPTS, Nudges, Starts
from valkey_operator.operator.seen import Pod, PodSpec, PodStatus

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


NODE = Key("prod", "one-0")


def placed(uid: str = "1", machine: str = "m", address: str = "") -> Pod:
    metadata = Metadata(name="one-0-0", namespace="prod", uid=uid)
    return Pod(metadata, PodSpec(machine), PodStatus("Pending", pod_ip=address))


def test_a_kubelet_that_does_not_begin_is_told_again_and_not_for_ever() -> None:
    clock = [0.0]
    starts = Starts(lambda: clock[0])
    written = []
    for second in range(600):
        clock[0] = float(second)
        if value := starts.value(NODE, placed()):
            written.append((second, value))
    assert written == [(3, "1"), (6, "2"), (12, "3"), (24, "4"), (48, "5"), (96, "6")]
    assert starts.pause(NODE) is None


def test_where_many_start_each_is_waited_for_longer() -> None:
    clock = [0.0]
    starts = Starts(lambda: clock[0])
    many = [Key("prod", f"one-{index}-0") for index in range(40)]
    for node in many:
        assert starts.value(node, placed()) is None
    clock[0] = 11.9
    assert [starts.value(node, placed()) for node in many] == [None] * 40
    assert 0 < (starts.pause(many[0]) or 0) <= 0.11
    for node in many[10:]:
        assert starts.value(node, placed(address="10.0.0.1")) is None
    assert starts.value(many[0], placed()) == "1", "of ten that are left each is late after three seconds"


def test_a_pod_without_a_machine_or_with_an_address_is_not_late() -> None:
    clock = [0.0]
    starts = Starts(lambda: clock[0])
    assert starts.value(NODE, placed(machine="")) is None
    assert starts.pause(NODE) is None
    assert starts.value(NODE, placed()) is None
    assert starts.pause(NODE) == 3.0
    clock[0] = 2.0
    assert starts.value(NODE, placed(uid="2")) is None
    assert starts.pause(NODE) == 3.0, "another pod of the node begins anew"
    clock[0] = 20.0
    assert starts.value(NODE, placed(uid="2", address="10.0.0.1")) is None
    assert starts.pause(NODE) is None

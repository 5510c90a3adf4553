"""In which order a pod's resources and its server's memory change, and when only a new pod helps."""

from __future__ import annotations

from typing import Any

import pytest

from valkey_operator.decide.resize import Memory, Plan, SeenPod, most_memory, plan

GI = 2**30
WAITS_FOR_KUBELET = Plan(waits_for="the kubelet has yet to resize the pod")


def sized(memory: str, cpu: str = "1") -> dict[str, Any]:
    return {"limits": {"memory": memory, "cpu": cpu}, "requests": {"memory": memory}}


@pytest.mark.parametrize(
    ("wanted", "maxmemory", "pod", "decided"),
    [
        (sized("1Gi"), 0, SeenPod(sized("1024Mi", "1000m"), sized("1Gi")), Plan()),
        ({}, 0, SeenPod({}, {}), Plan()),
        (sized("2Gi"), GI, SeenPod(sized("1Gi"), sized("1Gi")), Plan(resize=True)),
        (sized("1Gi", "2"), GI, SeenPod(sized("1Gi"), sized("1Gi")), Plan(resize=True)),
        (sized("2Gi"), GI, SeenPod(sized("2Gi"), sized("1Gi")), WAITS_FOR_KUBELET),
        (
            sized("2Gi"), GI, SeenPod(sized("2Gi"), sized("1Gi"), obstacle="node has no room"),
            Plan(needs_restart="its resources cannot be changed in place: node has no room"),
        ),
        (
            sized("2Gi"), GI, SeenPod(sized("1Gi"), sized("1Gi"), refused="no such subresource"),
            Plan(needs_restart="its resources cannot be changed in place: no such subresource"),
        ),
        (sized("1Gi"), GI // 2, SeenPod(sized("2Gi"), sized("2Gi"), memory=Memory(9, GI // 2)), Plan(resize=True)),
        (sized("1Gi"), 0, SeenPod(sized("2Gi"), sized("2Gi"), memory=Memory(9, 0)), Plan(resize=True)),
    ],
)  # fmt: skip
def test_what_is_done(wanted: Any, maxmemory: int, pod: SeenPod, decided: Plan) -> None:
    assert plan(wanted, maxmemory, pod) == decided


@pytest.mark.parametrize(
    ("memory", "maxmemory", "words"),
    [
        (None, GI, "not known"),
        (Memory(9, 2 * GI), GI // 2, "has yet to lower maxmemory"),
        (Memory(9, 0), GI // 2, "has yet to lower maxmemory"),
        (Memory(GI, GI // 2), GI // 2, "more than the"),
        (Memory(2 * GI, 0), 0, "more than the"),
    ],
)
def test_memory_is_taken_only_after_the_server_gave_it_back(
    memory: Memory | None, maxmemory: int, words: str
) -> None:
    decided = plan(sized("1Gi"), maxmemory, SeenPod(sized("2Gi"), sized("2Gi"), memory=memory))
    assert not decided.resize
    assert words in decided.waits_for


@pytest.mark.parametrize(
    ("wanted", "applied", "maxmemory", "most"),
    [
        (sized("2Gi"), sized("1Gi"), GI, GI // 2),
        (sized("1Gi"), sized("1Gi"), GI, None),
        (sized("1Gi"), sized("2Gi"), GI, None),
        (sized("2Gi"), sized("1Gi"), 0, None),
        ({}, sized("1Gi"), GI, None),
        (sized("2Gi"), {}, GI, None),
    ],
)
def test_memory_is_used_only_after_the_pod_has_it(
    wanted: Any, applied: Any, maxmemory: int, most: int | None
) -> None:
    assert most_memory(wanted, maxmemory, applied) == most

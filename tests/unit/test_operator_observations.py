"""What the leader remembers of each node: the newest, never something older."""

from __future__ import annotations

import logging

import pytest

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator.observations import Events, Observations

KEY = Key("prod", "cache-0-0")
STARTED = contract.Event(kind=contract.Event.KIND_SERVER_STARTED, at=1)


def seen(sequence: int, run: int = 1, uid: str = "u1") -> contract.Observation:
    return contract.Observation(node=KEY.name, pod_uid=uid, run=run, sequence=sequence)


def test_the_newest_is_remembered_with_its_time() -> None:
    observations = Observations(now=iter((5.0, 7.0)).__next__)
    assert observations.get(KEY) is None
    assert observations.take(KEY, seen(1)) == ""
    assert observations.take(KEY, seen(2)) == ""
    heard = observations.get(KEY)
    assert heard is not None
    assert (heard.observation.sequence, heard.at) == (2, 7.0)


@pytest.mark.parametrize(
    ("next_one", "is_taken"),
    [
        (seen(6, run=3), True),
        (seen(5, run=3), False),
        (seen(4, run=3), False),
        (seen(1, run=4), True),
        (seen(9, run=2), False),
        (seen(1, run=1, uid="u2"), True),
    ],
)
def test_only_something_newer_replaces_it(next_one: contract.Observation, is_taken: bool) -> None:
    observations = Observations()
    observations.take(KEY, seen(5, run=3))
    refused = observations.take(KEY, next_one)
    heard = observations.get(KEY)
    assert heard is not None
    assert heard.observation == (next_one if is_taken else seen(5, run=3))
    assert refused == (
        "" if is_taken else f"an observation of {KEY} that is as new or newer is known already"
    )


def test_nodes_do_not_know_of_each_other_and_can_be_forgotten() -> None:
    observations = Observations()
    other = Key("test", KEY.name)
    observations.take(KEY, seen(5))
    assert observations.take(other, seen(1)) == ""
    observations.forget(KEY)
    assert observations.get(KEY) is None
    assert observations.get(other) is not None
    assert observations.take(KEY, seen(1)) == ""


def test_listeners_hear_of_what_was_taken_and_one_that_fails_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observations = Observations()
    heard: list[tuple[int, int, list[int]]] = []

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    def listen(
        key: Key, before: contract.Observation | None, after: contract.Observation, events: Events
    ) -> None:
        assert key == KEY
        heard.append((before.sequence if before else 0, after.sequence, [event.at for event in events]))

    observations.on_change(fail)
    observations.on_change(listen)
    with caplog.at_level(logging.ERROR):
        observations.take(KEY, seen(1), [STARTED])
        observations.take(KEY, seen(1), [STARTED])
        observations.take(KEY, seen(2))
    assert heard == [(0, 1, [1]), (1, 2, [])]
    assert caplog.text.count("a listener failed at an observation of prod/cache-0-0") == 2

"""How long it will take is told from what was seen to be done, and by nobody who has seen nothing."""

from __future__ import annotations

from valkey_operator.kube.objects import Key
from valkey_operator.operator.cluster_status import SMALL, steady
from valkey_operator.operator.pace import MOST, WINDOW, Pace

KEY, OTHER = Key("prod", "grid"), Key("prod", "other")


def test_the_rest_takes_as_long_as_what_was_done_has_taken() -> None:
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    assert pace.seconds_left(KEY, 100, 400) is None
    clock[0] = 10.0
    assert pace.seconds_left(KEY, 100, 400) is None
    clock[0] = 20.0
    assert pace.seconds_left(KEY, 200, 400) == 40.0
    assert pace.seconds_left(OTHER, 200, 400) is None
    assert pace.seconds_left(KEY, 400, 400) == 0.0


def test_what_was_long_ago_does_not_count() -> None:
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    for second in range(0, 400, 2):
        clock[0] = float(second)
        left = pace.seconds_left(KEY, second if second < 200 else 200 + (second - 200) * 10, 10_000)
    assert left is not None
    assert 780 < left < 820  # of 7800 that are left, ten in each second
    assert len(pace._seen[KEY]) <= WINDOW / 2 + 2 <= MOST


def test_another_operation_begins_anew() -> None:
    clock = [0.0]
    pace = Pace(lambda: clock[0])
    pace.seconds_left(KEY, 100, 400)
    clock[0] = 5.0
    assert pace.seconds_left(KEY, 0, 300) is None
    pace.forget(KEY)
    assert pace.seconds_left(KEY, 300, 300) is None


def test_memory_is_told_again_only_when_it_is_another() -> None:
    told = 100 * SMALL
    assert steady(0, told) == told
    assert steady(told, told + told // 8) == told
    assert steady(told, told - told // 8 - 1) == told - told // 8 - 1
    assert steady(2 * SMALL, 3 * SMALL) == 2 * SMALL
    assert steady(told, 0) == told  # who does not answer says nothing of it

"""When a maintenance window is open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from valkey_operator.decide.window import is_open
from valkey_operator.model.times import span

SATURDAY_AT_FOUR = "0 4 * * 6"


@pytest.mark.parametrize(
    ("hour", "minute", "opened"), [(3, 59, False), (4, 0, True), (4, 59, True), (5, 1, False)]
)
def test_a_window_opens_at_its_time_and_lasts(hour: int, minute: int, opened: bool) -> None:
    now = datetime(2026, 11, 14, hour, minute, tzinfo=UTC)  # a Saturday
    assert is_open(SATURDAY_AT_FOUR, "1h", now) is opened
    assert not is_open(SATURDAY_AT_FOUR, "1h", now + timedelta(days=1))


def test_without_a_window_it_is_always_open() -> None:
    assert is_open("", "1h", datetime.now(UTC))


def test_a_duration_is_a_span_of_time() -> None:
    assert span("1h30m") == timedelta(minutes=90)
    assert span("500ms") == timedelta(milliseconds=500)

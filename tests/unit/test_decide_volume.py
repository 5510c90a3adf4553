"""What size a claim is asked for, and what is said while it is not there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from valkey_operator.decide.volume import Plan, SeenClaim, plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)


@pytest.mark.parametrize(
    ("claim", "decided"),
    [
        (None, Plan("2Gi")),
        (SeenClaim("2Gi", "2Gi"), Plan("2Gi")),
        (SeenClaim("2048Mi"), Plan("2Gi")),
        (SeenClaim("1Gi", "1Gi"), Plan("2Gi", "the volume has 1Gi and grows to 2Gi")),
        (SeenClaim("3Gi", "3Gi"), Plan("3Gi", "the volume has 3Gi and cannot shrink to 2Gi")),
        (
            SeenClaim("1Gi", "1Gi", "not this class"),
            Plan("1Gi", "the volume cannot grow to 2Gi: not this class"),
        ),
    ],
)
def test_the_size_that_is_asked_for(claim: SeenClaim | None, decided: Plan) -> None:
    assert plan("2Gi", claim, LONG_AGO, NOW) == decided


def test_a_file_system_that_grows_while_mounted_is_given_time() -> None:
    claim = SeenClaim("2Gi", "1Gi", file_system_waits_since=NOW - timedelta(seconds=30))
    decided = plan("2Gi", claim, LONG_AGO, NOW)
    assert not decided.needs_restart
    assert decided.again == timedelta(seconds=90)


def test_one_that_does_not_grow_needs_a_restart() -> None:
    claim = SeenClaim("2Gi", "1Gi", file_system_waits_since=NOW - timedelta(minutes=3))
    assert "next start" in plan("2Gi", claim, LONG_AGO, NOW).needs_restart


def test_a_restart_that_did_not_help_is_not_asked_for_again() -> None:
    claim = SeenClaim("2Gi", "1Gi", file_system_waits_since=NOW - timedelta(minutes=3))
    decided = plan("2Gi", claim, NOW - timedelta(minutes=2), NOW)
    assert not decided.needs_restart
    assert "not even with a new pod" in decided.message

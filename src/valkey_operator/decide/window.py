"""Maintenance windows: each begins at the times of a cron expression in UTC, and lasts for a while."""

from __future__ import annotations

from datetime import datetime

from cronsim import CronSim, CronSimError

from valkey_operator.model.times import span


def is_open(window: str, duration: str, now: datetime) -> bool:
    """Always, where there is none. What is no window never opens: leases are answered also while a wish is refused."""
    if not window:
        return True
    try:
        return bool(next(CronSim(window, now - span(duration))) <= now)
    except (CronSimError, StopIteration, OverflowError, ValueError):
        return False

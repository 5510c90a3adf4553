"""Maintenance windows: each begins at the times of a cron expression in UTC, and lasts for a while."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from cronsim import CronSim

_PART = re.compile(r"(\d+)(ms|s|m|h)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


def is_open(window: str, duration: str, now: datetime) -> bool:
    """Always, where there is none. Both texts were validated before."""
    if not window:
        return True
    return bool(next(CronSim(window, now - span(duration))) <= now)


def span(duration: str) -> timedelta:
    """`1h30m` as time."""
    return sum((int(count) * _UNITS[unit] for count, unit in _PART.findall(duration)), timedelta())

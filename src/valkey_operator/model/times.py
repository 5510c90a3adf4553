"""Moments and spans of time as Kubernetes writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_FORM = "%Y-%m-%dT%H:%M:%SZ"
_PART = re.compile(r"([0-9]{1,9})(ms|s|m|h)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_FORM)


def read(text: str) -> datetime:
    return datetime.strptime(text, _FORM).replace(tzinfo=UTC)


def span(duration: str) -> timedelta:
    """`1h30m` as time; the text was validated before."""
    return sum((int(count) * _UNITS[unit] for count, unit in _PART.findall(duration)), timedelta())

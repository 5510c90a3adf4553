"""Moments as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_FORM)


def read(text: str) -> datetime:
    return datetime.strptime(text, _FORM).replace(tzinfo=UTC)

"""Reads what INFO says."""

from __future__ import annotations


def parse(text: str) -> dict[str, str]:
    """All fields of all sections."""
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}

"""Reads what INFO says."""

from __future__ import annotations


def parse(text: str) -> dict[str, str]:
    """All fields of all sections."""
    # Once a second beside every server: this is the quickest way. Titles of sections have no colon.
    return dict([line.split(":", 1) for line in text.splitlines() if ":" in line])

"""Reads what INFO says."""

from __future__ import annotations

import re
from collections.abc import Mapping

DATABASE = re.compile(r"db\d+")


def parse(text: str) -> dict[str, str]:
    """All fields of all sections."""
    # Once a second beside every server: this is the quickest way. Titles of sections have no colon.
    return dict([line.split(":", 1) for line in text.splitlines() if ":" in line])


def keys(said: Mapping[str, str]) -> int:
    """In all databases: DBSIZE tells of one of them. As in db0:keys=3,expires=0,avg_ttl=0."""
    databases = (value for name, value in said.items() if DATABASE.fullmatch(name))
    return sum(int(value.partition(",")[0].removeprefix("keys=")) for value in databases)

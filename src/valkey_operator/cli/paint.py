"""Colours and line widths for people; none of it where no person looks."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

WIDTH = 80
CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
SPANS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True)
class Paint:
    """Puts colours around words, or leaves them as they are."""

    is_on: bool = False

    @classmethod
    def on(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Paint:
        """On a terminal, unless NO_COLOR says otherwise (https://no-color.org)."""
        is_wanted = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        return cls(is_wanted and stream.isatty())

    def __call__(self, colour: str, text: str) -> str:
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if self.is_on and text else text


def plain(text: str) -> str:
    """What servers and people wrote, without what would move the cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def wrapped(label: str, text: str, indent: int = 0, column: int = 17) -> list[str]:
    """`text` beside its label, on as many lines as it needs."""
    first, rest = f"{' ' * indent}{label:<{column - indent}}", " " * column
    # A name must not be cut at its dash.
    lines = textwrap.wrap(
        plain(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return lines or [first.rstrip()]


def span(seconds: float) -> str:
    """In its two largest units: 3m20s, 5h, 60d."""
    left, parts = int(abs(seconds)), []
    for unit, length in SPANS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
        if parts and (len(parts) == 2 or unit == "d"):
            break
    return "".join(parts) or "0s"


def ago(moment: str, now: datetime) -> str:
    return f"{span((now - datetime.fromisoformat(moment)).total_seconds())} ago"


def until(moment: str, now: datetime) -> str:
    left = (datetime.fromisoformat(moment) - now).total_seconds()
    return f"in {span(left)}" if left >= 0 else f"{span(left)} ago"

"""Amounts as the core API writes them: 500m, 2, 10Gi. What nobody can have is refused and never computed.

A few letters ask for a number that no memory holds: 1e999999999. So digits and exponents are counted first.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

# The exponent ends where the number cannot be kept any more.
FORM = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
LONGEST = 64
# The API server makes every larger amount this one.
MOST = 2**63 - 1
UNITS = {
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(FORM)
_PARTS = re.compile(r"(.*?)([KMGTPE]i|[numkMGTPE])?")


def is_amount(text: str) -> bool:
    """Of the right form; it may still be more than anybody can have."""
    return len(text) <= LONGEST and "\n" not in text and _FORM.search(text) is not None


def amount(quantity: Any) -> Decimal | None:
    """None for nonsense, and for more than anybody can have."""
    if isinstance(quantity, int):
        return Decimal(quantity) if abs(quantity) <= MOST else None
    text = str(quantity)
    if not is_amount(text):
        return None
    parts = _PARTS.fullmatch(text)
    found = Decimal(parts[1]) * UNITS.get(parts[2], 1) if parts else None
    return found if found is not None and abs(found) <= MOST else None


def quantity_bytes(quantity: Any) -> int | None:
    """In whole bytes, rounded up as the API server does; None for nonsense."""
    found = amount(quantity)
    return None if found is None else int(found.to_integral_value(ROUND_CEILING))


def shown(value: Any) -> str:
    """In a sentence: nobody reads five thousand digits, and a number of so many cannot even be written."""
    if isinstance(value, int) and abs(value) > MOST:
        return "a number of more than 19 digits"
    text = str(value)
    return text if len(text) <= 64 else f"{text[:40]}… ({len(text)} letters)"

"""Kubernetes quantities of storage, as bytes."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from devcluster.problem import Problem

_UNITS: dict[str, Decimal | int] = {
    "": 1,
    "m": Decimal("0.001"),
    **{letter: 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([kMGTP]i?|Ki|m)?")


def parse_bytes(quantity: str) -> int:
    match = _QUANTITY.fullmatch(quantity)
    if not match:
        raise Problem(f"{quantity!r} is not a quantity of storage such as 512Mi or 10Gi")
    return math.ceil(Decimal(match[1]) * _UNITS[match[2] or ""])

"""Kubernetes quantities of storage, as bytes."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from devcluster.problem import Problem

_UNITS = {"": 1, "m": Decimal("0.001"), "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
          "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}  # fmt: skip
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\d+)?)([kMGTP]i?|Ki|m)?")


def parse_bytes(quantity: str) -> int:
    match = _QUANTITY.fullmatch(quantity)
    if not match:
        raise Problem(f"{quantity!r} is not a quantity of storage such as 512Mi or 10Gi")
    return math.ceil(Decimal(match[1]) * _UNITS[match[2] or ""])

"""How long to wait before trying again: longer each time, spread, and short again after a success."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Backoff:
    first: float = 0.1
    longest: float = 60.0
    failures: int = 0

    def failed(self) -> float:
        """Count a failure; the seconds to wait now."""
        wait = min(self.longest, self.first * float(2 ** min(self.failures, 30)))
        self.failures += 1
        return wait * random.uniform(0.75, 1.25)  # noqa: S311 - spread, not secrecy

    def succeeded(self) -> None:
        self.failures = 0

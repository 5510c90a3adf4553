"""Conditions of a status: what holds, since when, and why. Their times change only when what they say turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from valkey_operator.api.reasons import ConditionType
from valkey_operator.model.times import written

LONGEST = 1024


@dataclass(frozen=True)
class Condition:
    """One thing that holds, does not, or cannot be said."""

    type: ConditionType
    holds: bool | None
    reason: str
    message: str

    @property
    def status(self) -> Literal["True", "False", "Unknown"]:
        return "Unknown" if self.holds is None else "True" if self.holds else "False"


def conditions(
    before: Mapping[str, Any], said: Iterable[Condition], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """`before` is the status as it was. A condition that is not said any more goes."""
    known = {each["type"]: each for each in before.get("conditions") or []}
    found = []
    for each in said:
        old = known.get(each.type, {})
        turned = old.get("status") != each.status
        found.append(
            {
                "type": str(each.type),
                "status": each.status,
                "observedGeneration": generation,
                "lastTransitionTime": written(now) if turned else old["lastTransitionTime"],
                "reason": str(each.reason),
                "message": each.message[:LONGEST],
            }
        )
    return found

"""Why something that was asked of this sidecar is not done; each with the name of the rule that says so."""

from __future__ import annotations

from valkey_operator.api.guards import Guard


class Refusal(Exception):
    """Nothing was changed; `guard` is the rule that said no."""

    def __init__(self, guard: Guard, message: str) -> None:
        super().__init__(message)
        self.guard = guard


class Failure(Exception):
    """It was begun and did not end well; `guard` is the rule that ended it, if one did."""

    def __init__(self, guard: Guard | None, message: str) -> None:
        super().__init__(message)
        self.guard = guard

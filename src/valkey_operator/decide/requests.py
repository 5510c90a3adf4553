"""A request for another primary is answered once: it is taken up, or was not needed, or is refused with the reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from valkey_operator.api.guards import Guard
from valkey_operator.decide.actions import Refusal
from valkey_operator.model.instance import Wish
from valkey_operator.model.sharded import ClusterWish

# For so long what holds a request back may end by itself. Later nobody would expect it to be carried out.
PATIENCE = 30.0
# These do not end by themselves.
LASTING = (Guard.A_NEW_PRIMARY_IS_ONE_OF_ITS_REPLICAS, Guard.A_REPLICA_TAKES_OVER)
PAUSED = "nothing is done while spec.paused is set"


class Answer(NamedTuple):
    """For `status.lastSwitchover`."""

    request: str
    result: Literal["Done", "Refused"]
    message: str


def answer(
    wish: Wish | ClusterWish, in_office: Collection[str], refusals: Sequence[Refusal], otherwise: str
) -> Answer | None:
    """`in_office`: primaries that nobody is about to replace; `otherwise`: what to say where no guard holds it back."""
    if wish.switchover is None:
        return None
    if wish.switchover in in_office:
        return Answer(wish.request, "Done", f"{wish.switchover} is primary already")
    if wish.is_paused:
        return Answer(wish.request, "Refused", PAUSED)
    held = next((each for each in refusals if each.of_request), None)
    if wish.asked_for < PATIENCE and (held is None or held.guard not in LASTING):
        return None
    return Answer(wish.request, "Refused", otherwise if held is None else f"{held.guard}: {held.why}")


def due(wish: Wish | ClusterWish) -> float | None:
    """In how many seconds it has to be answered."""
    return None if wish.switchover is None else max(PATIENCE - wish.asked_for, 1.0)

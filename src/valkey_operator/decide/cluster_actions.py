"""What can be done to a cluster, each step by name; those of one stage may be done at once."""

from __future__ import annotations

from dataclasses import dataclass

from valkey_operator.decide.actions import Doing, Refusal, Wait
from valkey_operator.decide.resharding import SlotAction
from valkey_operator.model.cluster import SlotRange


@dataclass(frozen=True)
class Hurry:
    """Short timers for a while, so that what this node knows travels fast."""

    node: str
    ping_milliseconds: int = 100
    # None: it stays as it is.
    node_timeout_milliseconds: int | None = 500


@dataclass(frozen=True)
class EndHurry:
    node: str


@dataclass(frozen=True)
class AssignSlots:
    node: str
    slots: tuple[SlotRange, ...]
    config_epoch: int


@dataclass(frozen=True)
class Meet:
    """`others` by name; each is asked who it is before."""

    node: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Follow:
    node: str
    primary: str
    primary_id: str


@dataclass(frozen=True)
class Forget:
    node: str
    ids: tuple[str, ...]
    # A person has said that what is in their slots may be lost.
    though_they_own_slots: bool = False
    # Their pods are gone: a server says "connected" also while it tries to be.
    though_they_seem_connected: bool = False


@dataclass(frozen=True)
class ResetNode:
    """It owns and holds nothing, and begins anew, as a server that nobody has met."""

    node: str


@dataclass(frozen=True)
class NoteFormed:
    """Every slot has an owner: from now on one without is a loss, and not a beginning."""


@dataclass(frozen=True)
class MakeNode:
    name: str


@dataclass(frozen=True)
class RemoveNode:
    name: str


@dataclass(frozen=True)
class RestartPod:
    name: str
    reason: str


@dataclass(frozen=True)
class ReplaceSidecar:
    """Its pod gets the sidecar that a new one would have; the server goes on."""

    node: str


@dataclass(frozen=True)
class FailOver:
    """A replica takes over: with every write, or, of one that is dead, by a vote of the others."""

    node: str
    shard: int
    former: str
    former_id: str
    reason: str
    planned: bool
    # How much can be lost at most, in seconds of writes; None is not known.
    lost_seconds: int | None = 0
    # Without a vote, for want of voters: how each that is missing is known to be dead.
    proof: str = ""


@dataclass(frozen=True)
class OpenGate:
    """Its server starts with what is on its volume: nobody else of its shard has more."""

    node: str


ClusterAction = (
    Hurry | EndHurry | AssignSlots | Meet | Follow | Forget | ResetNode | NoteFormed | MakeNode | RemoveNode
    | RestartPod | ReplaceSidecar | FailOver | OpenGate | SlotAction
)  # fmt: skip


@dataclass(frozen=True)
class ClusterStep:
    """Stages one after the other, what is waited for, what is refused."""

    stages: tuple[tuple[ClusterAction, ...], ...] = ()
    waits: tuple[Wait, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    doing: Doing | None = None
    # It was done before, and nothing came of it: there is no need to look again at once.
    is_in_vain: bool = False

    def __add__(self, other: ClusterStep) -> ClusterStep:
        """First this, then the other."""
        steps = [each for each in (self, other) if each.actions]
        return ClusterStep(
            self.stages + other.stages,
            self.waits + other.waits,
            self.refusals + other.refusals,
            self.doing or other.doing,
            bool(steps) and all(each.is_in_vain for each in steps),
        )

    @property
    def actions(self) -> tuple[ClusterAction, ...]:
        return tuple(action for stage in self.stages for action in stage)

    @property
    def is_settled(self) -> bool:
        return not self.actions and not self.waits and not self.refusals

"""What can be done to a cluster, each step by name; those of one stage may be done at once."""

from __future__ import annotations

from dataclasses import dataclass

from valkey_operator.decide.actions import Refusal, Wait
from valkey_operator.model.cluster import SlotRange


@dataclass(frozen=True)
class Hurry:
    """Short timers for a while, so that what this node knows travels fast."""

    node: str
    ping_milliseconds: int = 100
    node_timeout_milliseconds: int = 500


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


@dataclass(frozen=True)
class NoteFormed:
    """Every slot has an owner: from now on one without is a loss, and not a beginning."""


ClusterAction = Hurry | EndHurry | AssignSlots | Meet | Follow | Forget | NoteFormed


@dataclass(frozen=True)
class ClusterStep:
    """Stages one after the other, what is waited for, what is refused."""

    stages: tuple[tuple[ClusterAction, ...], ...] = ()
    waits: tuple[Wait, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def actions(self) -> tuple[ClusterAction, ...]:
        return tuple(action for stage in self.stages for action in stage)

    @property
    def is_settled(self) -> bool:
        return not self.actions and not self.waits and not self.refusals

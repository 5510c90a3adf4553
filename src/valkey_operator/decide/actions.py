"""What can be done to one primary and its replicas, each step by name; and why a step is not taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import unique

from valkey_operator.api.guards import Guard
from valkey_operator.api.reasons import Word
from valkey_operator.model.instance import NOTHING_LOST, Loss, NodeRecord


@unique
class Why(Word):
    """Why the primary is another one; `lastFailover.reason`."""

    FORMATION = "Formation", "there was no primary yet"
    RECORD_FOUND = "RecordFound", "a node has noted a newer primary than the status, and that one is right"
    SERVER_DIED = (
        "ServerDied",
        "the server of the former primary is dead, and a replica that was in sync follows",
    )
    UNREACHABLE = "Unreachable", "nobody reaches the former primary, and it has stopped writing"
    ELECTED = "Elected", "the servers of a cluster chose it by themselves, without the operator"
    FULLEST_DATA = "FullestData", "no replica was in sync, and this node has the most data"
    HANDED_BACK = "HandedBack", "a handover did not come about, and the former primary keeps the office"
    POD_STOPPING = "PodStopping", "the pod of the former primary is being stopped"
    SCALING = "Scaling", "the former primary is one of the nodes that are to go"
    SWITCHOVER = "Switchover", "a person asked for it"
    ROLLING_UPDATE = "RollingUpdate", "the former primary is to be restarted"


@dataclass(frozen=True)
class RecordPrimary:
    """Write `status.primary`, `primaryEpoch`, `promotable` and `lastFailover` by compare-and-swap, all in one write.

    `lastFailover` is not done yet: its `writePauseMs` stays empty. `former` is who may still be in office.
    """

    epoch: int
    primary: str
    reason: Why
    planned: bool
    former: str = ""
    promotable: tuple[str, ...] = ()
    loss: Loss = NOTHING_LOST
    # The nodes have made this change by themselves, in this epoch, and nothing of it is under way: `lastFailover` is of
    # this epoch, and nobody knows its `writePauseMs`.
    made_in: int | None = None


@dataclass(frozen=True)
class NotePrimary:
    """The sidecar of `node` notes on its volume that in this epoch `primary` is the primary."""

    node: str
    primary: str
    epoch: int


@dataclass(frozen=True)
class HandOver:
    """The sidecar of `source` pauses writes, demotes its server and lets `to` take over."""

    source: str
    to: str
    epoch: int


@dataclass(frozen=True)
class Promote:
    node: str
    epoch: int


@dataclass(frozen=True)
class Follow:
    node: str
    primary: str
    epoch: int


@dataclass(frozen=True)
class OpenGate:
    """The server that waits in `node` may start as primary."""

    node: str
    epoch: int


@dataclass(frozen=True)
class MoveService:
    to: str


@dataclass(frozen=True)
class SetPromotable:
    names: tuple[str, ...]


@dataclass(frozen=True)
class NoteFailover:
    """The change of this epoch is done: the status says how long it took."""

    epoch: int
    write_pause_milliseconds: int


@dataclass(frozen=True)
class MakeNode:
    name: str


@dataclass(frozen=True)
class UpdateNodes:
    """Apply `wanted_nodes` to the nodes that exist."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class RestartPod:
    node: str
    reason: str


@dataclass(frozen=True)
class ReplaceSidecar:
    """Its pod gets the sidecar that a new one would have; the server goes on."""

    node: str


@dataclass(frozen=True)
class RemoveNode:
    """Delete the node's object; its volume stays."""

    name: str


Action = (
    RecordPrimary
    | NotePrimary
    | HandOver
    | Promote
    | Follow
    | OpenGate
    | MoveService
    | SetPromotable
    | NoteFailover
    | MakeNode
    | UpdateNodes
    | RestartPod
    | ReplaceSidecar
    | RemoveNode
)


@dataclass(frozen=True)
class Refusal:
    """A step that is not taken, what it was for, and the guard that holds it back with its sentence."""

    action: str
    guard: Guard
    why: str
    # A person has asked for this very step.
    of_request: bool = False


@dataclass(frozen=True)
class Wait:
    """What is waited for, and in how many seconds to look again if nothing wakes us."""

    sentence: str
    again: float = 2.0


@dataclass(frozen=True)
class Doing:
    """The operation under way."""

    kind: str
    step: str
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Step:
    """What one concern has to say: steps to take now, what it waits for, what it refuses."""

    actions: tuple[Action, ...] = ()
    waits: tuple[Wait, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    doing: Doing | None = None
    # Nothing else may be done before this is over.
    is_exclusive: bool = False

    def __add__(self, other: Step) -> Step:
        return Step(
            self.actions + other.actions,
            self.waits + other.waits,
            self.refusals + other.refusals,
            self.doing or other.doing,
            self.is_exclusive or other.is_exclusive,
        )


def wait(sentence: str, again: float = 2.0) -> Step:
    """Nothing else may be done meanwhile."""
    return Step(waits=(Wait(sentence, again),), is_exclusive=True)


@dataclass(frozen=True)
class WantedNode:
    """What a node's spec must say."""

    name: str
    record: NodeRecord


NO_STEP = Step()

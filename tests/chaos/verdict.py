"""What the judge found, in values for a test and in words for a tired person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tests.chaos.history import Operation, Write
from tests.chaos.outcomes import Outcome

SHOWN = 5


@dataclass(frozen=True)
class Phantom:
    """Present, although it was refused or never sent."""

    element: str
    why: str


@dataclass(frozen=True)
class Rollback:
    """A counter that went backwards or counted what it never accepted."""

    element: str
    what: str


@dataclass(frozen=True)
class Divergence:
    """A replica that does not hold what its primary holds."""

    node: str
    shard: str
    what: str


@dataclass(frozen=True)
class Pause:
    """The longest time in which no write to a tag was acknowledged."""

    tag: str
    began: float
    ended: float
    during: tuple[str, ...]
    is_open: bool  # it lasted until the end of the run

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def __str__(self) -> str:
        during = f", during {' and '.join(self.during)}" if self.during else ""
        to_the_end = ", to the end of the run" if self.is_open else ""
        return f"{self.seconds:.2f} s (from {self.began:.2f} s{to_the_end}{during})"


@dataclass(frozen=True)
class Verdict:
    outcomes: Mapping[Outcome, int]
    lost: tuple[Write, ...]
    waited: int
    lost_after_wait: tuple[Write, ...]
    phantoms: tuple[Phantom, ...]
    recovered: int
    rollbacks: tuple[Rollback, ...]
    diverged: tuple[Divergence, ...]
    pauses: Mapping[str, Pause]
    nodes_read: int
    doubts: tuple[str, ...]  # why this history cannot prove that nothing was lost
    too_long: tuple[str, ...]  # pauses above the promised bound
    operations: tuple[Operation, ...]  # what happened meanwhile

    @property
    def clean(self) -> bool:
        return not (
            self.lost or self.phantoms or self.rollbacks or self.diverged or self.doubts or self.too_long
        )

    @property
    def longest_pause(self) -> float:
        return max((pause.seconds for pause in self.pauses.values()), default=0.0)

    def seconds_lost(self, lost: Sequence[Write]) -> float:
        """How far back these were lost: from the oldest one to the last one, or to the beginning of what cost them.

        Without limit if that was over when one was acknowledged: then nothing that happened explains it."""
        if not lost:
            return 0.0
        first, last = min(write.done for write in lost), max(write.done for write in lost)
        costs = [each.began for each in self.operations if each.ended >= last]
        return max(last, min(costs)) - first if costs else inf

    def __str__(self) -> str:
        return "\n  ".join([self._headline(), *self._findings(), *self._figures()])

    def _headline(self) -> str:
        acknowledged = self.outcomes[Outcome.OK]
        if self.lost:
            return f"LOST: {len(self.lost)} of {acknowledged} acknowledged writes are gone"
        if self.clean:
            return f"CLEAN: all {acknowledged} acknowledged writes are there"
        if self.phantoms or self.rollbacks or self.diverged:
            return (
                f"WRONG: no element is lost of {acknowledged} acknowledged writes, but the data is not right"
            )
        if self.doubts:
            return f"NOT PROVEN: {acknowledged} acknowledged writes are too weak a proof"
        return f"TOO SLOW: all {acknowledged} acknowledged writes are there, but writing paused too long"

    def _findings(self) -> list[str]:
        return [
            *self.doubts,
            *_some("lost", [_lost_text(write) for write in self.lost]),
            *_some("present but should not be", [f"{p.element}: {p.why}" for p in self.phantoms]),
            *_some("counter", [f"{r.element}: {r.what}" for r in self.rollbacks]),
            *_some("diverged", [f"{d.node} of shard {d.shard}: {d.what}" for d in self.diverged]),
            *self.too_long,
        ]

    def _figures(self) -> list[str]:
        return [
            f"{self.outcomes[Outcome.FAIL]} refused, {self.outcomes[Outcome.INFO]} indeterminate "
            f"({self.recovered} of them present, which is allowed)",
            f"{self.waited} confirmed by WAIT 1, {len(self.lost_after_wait)} of them lost",
            *(f"longest write pause of shard {shard}: {pause}" for shard, pause in self.pauses.items()),
            f"{self.nodes_read} servers read back",
        ]


def _lost_text(write: Write) -> str:
    during = f" during {write.during}" if write.during else ""
    return f"{write.element}, acknowledged at {write.done:.3f} s by {write.node}{during}"


def _some(title: str, texts: list[str]) -> list[str]:
    more = [f"… and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return [f"{title}: {text}" for text in texts[:SHOWN]] + more

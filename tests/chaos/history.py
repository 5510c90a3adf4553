"""What happened in one run: typed records, kept as JSON lines so that they can be judged again later.

A file is a header, then writes, waits and operations as they happen, then the final reads, then an
end line. Without its end line a file is truncated, and a truncated history proves nothing.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO, TypeAlias

from tests.chaos.outcomes import Outcome
from tests.chaos.slots import SlotRange

FORMAT = 1


class Kind(StrEnum):
    SET = "set"  # one key per element
    COUNTER = "counter"  # one growing number per tag
    WAITED = "waited"  # as SET, then WAIT 1


class Role(StrEnum):
    PRIMARY = "primary"
    REPLICA = "replica"


@dataclass(frozen=True)
class Demands:
    """What a history must contain before it may be called clean."""

    writes: int = 100  # acknowledged in the whole run
    replicas: int = 0  # read back in every shard
    pause: float | None = None  # the longest write pause that is allowed, in seconds


@dataclass(frozen=True)
class Header:
    target: str
    run: str  # prefix of every key of this run
    seed: int
    started: str
    tags: tuple[str, ...]
    versions: Mapping[str, str]
    demands: Demands = field(default_factory=Demands)
    format: int = FORMAT


@dataclass(frozen=True)
class Write:
    """One write, sent once. Times are seconds since the start, by a monotonic clock."""

    kind: Kind
    element: str  # the key without the run's prefix
    tag: str
    sent: float
    done: float
    outcome: Outcome
    during: str = ""  # the operation under way when it was sent
    node: str = ""
    reason: str = ""
    value: int | None = None  # what the server answered to a counter


@dataclass(frozen=True)
class Waited:
    """How many replicas confirmed an acknowledged element."""

    element: str
    replicas: int


@dataclass(frozen=True)
class Operation:
    name: str
    began: float
    ended: float


@dataclass(frozen=True)
class NodeRead:
    """Everything of this run that one server holds at the end."""

    node: str
    role: Role
    shard: str
    slots: tuple[SlotRange, ...]
    state: str  # by ROLE: `master`, or the state of a replica's link
    elements: frozenset[str]
    counters: Mapping[str, int]


@dataclass(frozen=True)
class End:
    ended: float  # when the workload was told to stop
    unread: str = ""  # why there is no final read


Record: TypeAlias = Header | Write | Waited | Operation | NodeRead | End


@dataclass
class History:
    header: Header
    writes: list[Write] = field(default_factory=list)
    waits: list[Waited] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    reads: list[NodeRead] = field(default_factory=list)
    end: End = field(default_factory=lambda: End(0.0))

    def add(self, record: Record) -> None:
        match record:
            case Write():
                self.writes.append(record)
            case Waited():
                self.waits.append(record)
            case Operation():
                self.operations.append(record)
            case NodeRead():
                self.reads.append(record)
            case End():
                self.end = record
            case Header():
                raise ValueError("a history has one header")


def line_of(record: Record) -> str:
    return json.dumps({type(record).__name__.lower(): record}, default=_plain, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value):
        return vars(value)
    raise TypeError(f"cannot write {type(value).__name__} into a history")


class Recorder:
    """Keeps the history of a run in memory and, line by line as it happens, in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._file: TextIO | None = None
        self._history: History | None = None
        self._started = time.monotonic()

    @property
    def history(self) -> History:
        if self._history is None:
            raise RuntimeError("this recorder has not begun")
        return self._history

    def begin(self, header: Header) -> None:
        if self._history is not None:
            raise RuntimeError("a recorder records one run only")
        self._history = History(header)
        self._started = time.monotonic()
        if self.path is not None:
            self._file = self.path.open("x", encoding="utf-8")
        self._store(header)

    def now(self) -> float:
        return round(time.monotonic() - self._started, 6)

    def record(self, record: Record) -> None:
        self.history.add(record)
        self._store(record)

    def finish(self, end: End) -> None:
        self.record(end)
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _store(self, record: Record) -> None:
        if self._file is not None:
            self._file.write(line_of(record) + "\n")
            self._file.flush()


def wall_clock() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""What is known when a server asks to be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Record:
    """Who is primary, and since which change of the primary; the newest epoch wins."""

    epoch: int = 0
    primary: str = ""


@dataclass(frozen=True)
class Disk:
    """What the last run has left on this node's volume."""

    has_data: bool = False
    # The last server ended by itself, in good order, and nothing has run since.
    was_stopped_cleanly: bool = False
    # An append-only file that was synced on every write: whatever was acknowledged is in it.
    is_synced_always: bool = False
    has_append_only_file: bool = False
    # From the snapshot on disk: which history it belongs to and how far it goes.
    history: str = ""
    offset: int = 0

    @property
    def is_complete(self) -> bool:
        return self.has_data and (self.was_stopped_cleanly or self.is_synced_always)


@dataclass(frozen=True)
class Lineage:
    """The history of the last run's data, and the one it grew out of, up to an offset."""

    history: str = ""
    before: str = ""
    until: int = 0

    def holds(self, disk: Disk) -> bool:
        """Whether what is on the disk is an earlier state of that run's data."""
        if not self.history or not disk.history:
            return False
        return disk.history == self.history or (disk.history == self.before and disk.offset <= self.until)


@dataclass(frozen=True)
class Member:
    """What another node of the same deployment has answered."""

    # A server runs there, even one that does not answer just now.
    is_up: bool = False
    record: Record = Record()
    # That server holds data, as far as can be known.
    has_data: bool = False
    disk: Disk = Disk()


@dataclass(frozen=True)
class Silence:
    """In place of an answer: why that node cannot be asked. It may be doing anything."""

    reason: str = "it was not asked"


@dataclass(frozen=True)
class Start:
    """A server that asks to be started, and all that is known about it."""

    node: str
    record: Record
    disk: Disk = Disk()
    # Every other node that holds the same data.
    members: Mapping[str, Member | Silence] = field(default_factory=dict)
    # Of this node's last run.
    lineage: Lineage = Lineage()
    # The operator, which sees pods, machines and volumes, or a person, has said that this node may start.
    is_allowed: bool = False

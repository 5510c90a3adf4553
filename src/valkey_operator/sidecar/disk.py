"""What lies on the node's volume: data, how the last run ended, and the record of who was primary.

Notes of our own are beside the data, in `.valkey-operator/`; each is written whole or not at all.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from valkey_operator.model.gate import Disk, Lineage, Record
from valkey_operator.sidecar.parsed import forget, parsed

NOTES = ".valkey-operator"
# Opened by the sidecar's supervisor: a lock on it outlives a sidecar that starts again.
LOCK = 9
AUXILIARY = 0xFA
log = logging.getLogger(__name__)


class Space(NamedTuple):
    """In bytes; of size 0 when it cannot be seen."""

    free: int
    size: int


@dataclass(frozen=True)
class Kept:
    """What a server is told to keep on its disk."""

    snapshots: bool = False
    appendonly: bool = False
    # If it has an append-only file: on every write.
    synced_always: bool = False

    def counts_snapshots(self, asked: Kept) -> bool:
        """With what is asked for now: until the log that is to follow is whole, the snapshot is all there is."""
        is_all = asked.appendonly and not self.appendonly
        return self.snapshots and (asked.snapshots or is_all)


class Volume:
    """The folder `/data` of this node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / NOTES
        self._manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
        # Written from the begin of a new log until it is whole; meanwhile the manifest names the one before.
        self._unfinished = folder / "appendonlydir" / "temp-appendonly.aof.incr"
        self._notes.mkdir(exist_ok=True)
        self._lock: int | None = None

    def lock(self) -> bool:
        """Whether the volume is this pod's alone, which it is until the pod's end.

        Of two pods of one node on one machine only one gets it, by its kernel. On two machines that depends on the
        storage: the operator does not take it for proof.
        """
        if self._lock is None:
            self._lock = _inherited(self._notes / "lock")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def seen(self, *, appendonly: bool) -> Disk:
        """As a server finds it that starts now, with an append-only file or without.

        It loads one kind of file only; and that is data only if the last run kept it: a snapshot of an earlier
        configuration may be a year old. So may a log beside which another one was begun, after a full copy.
        """
        snapshot = self._folder / "dump.rdb"
        facts = read_snapshot_facts(snapshot)
        kept = self.kept
        has_log = (
            appendonly and kept.appendonly and _is_filled(self._manifest) and not self._unfinished.exists()
        )
        has_snapshot = not appendonly and kept.snapshots and _is_filled(snapshot)
        return Disk(
            has_data=has_log or has_snapshot,
            was_stopped_cleanly=bool(self._read("clean")),
            is_synced_always=has_log and kept.synced_always,
            has_append_only_file=has_log,
            history=facts.get("repl-id", ""),
            offset=int(facts.get("repl-offset", "0")),
        )

    @property
    def kept(self) -> Kept:
        """By the last run; before the first one, whatever somebody has put here counts."""
        run = self._read("run")
        if not run:
            return Kept(snapshots=True, appendonly=True)
        return Kept(bool(run.get("snapshots")), bool(run.get("appendonly")), bool(run.get("synced_always")))

    def starts_with_log(self, wanted: bool) -> bool:
        """Whether to start from the append-only file; a change of that is made live, after the start.

        A server that starts with the log on loads nothing else, and one with it off ignores the log: started in
        another mode than the last run's, it would come up empty, or with data that is long past.
        """
        was = self._read("run").get("appendonly")
        if was is None or was == wanted:
            return wanted
        has_old_log = wanted and _is_filled(self._manifest)
        return bool(was) if self.seen(appendonly=bool(was)).has_data or has_old_log else wanted

    def space(self) -> Space:
        try:
            found = os.statvfs(self._folder)
        except OSError as error:
            log.debug("the volume cannot be looked at: %s", error)
            return Space(0, 0)
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def note_start(self, kept: Kept) -> None:
        """Before each start: from now on the last stop is not a clean one any more."""
        (self._notes / "clean").unlink(missing_ok=True)
        self._settle()
        self.note_kept(kept)
        # No server removes it: left by one that was killed, it would speak against each log from now on.
        self._unfinished.unlink(missing_ok=True)

    def note_kept(self, kept: Kept) -> None:
        """What of the disk a later start may rely on, from now on."""
        self._note("run", asdict(kept))

    def note_clean_stop(self) -> None:
        """After the server has ended by our own order, without an error."""
        self._note("clean", {"clean": True})

    @property
    def lineage(self) -> Lineage:
        known = self._read("lineage")
        return Lineage(
            str(known.get("history", "")), str(known.get("before", "")), int(known.get("until", 0))
        )

    def note_lineage(self, lineage: Lineage) -> None:
        self._note("lineage", asdict(lineage))

    @property
    def record(self) -> Record:
        known = self._read("record")
        return Record(int(known.get("epoch", 0)), str(known.get("primary", "")))

    def note_record(self, record: Record) -> None:
        self._note("record", {"epoch": record.epoch, "primary": record.primary})

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = parsed(self._notes, name, json.loads)
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _note(self, name: str, content: dict[str, Any]) -> None:
        """Nothing is written where nothing changes: a full disk must not keep a server from starting."""
        if content == self._read(name):
            return
        arriving = self._notes / f"{name}.new"
        with arriving.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        arriving.rename(self._notes / name)
        forget()
        self._settle()

    def _settle(self) -> None:
        folder = os.open(self._notes, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _inherited(file: Path) -> int:
    """The supervisor's descriptor, or one of our own where there is no supervisor."""
    own = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        is_same = own != LOCK and os.path.sameopenfile(LOCK, own)
    except OSError:
        is_same = False
    if not is_same:
        return own
    os.close(own)
    return LOCK


def _is_filled(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def read_snapshot_facts(file: Path) -> dict[str, str]:
    """The fields at the head of an RDB file, such as `repl-id` and `repl-offset`; none of a broken one."""
    try:
        with file.open("rb") as opened:
            head = opened.read(4096)
    except FileNotFoundError:
        return {}
    facts: dict[str, str] = {}
    place = 9  # after the magic and the version
    try:
        while head[place] == AUXILIARY:
            name, place = _text(head, place + 1)
            facts[name], place = _text(head, place)
    except IndexError:
        pass  # cut short: what was read is right
    return facts


def _text(head: bytes, place: int) -> tuple[str, int]:
    first = head[place]
    if first >> 6 == 3:  # a number, in 1, 2 or 4 bytes
        size = {0xC0: 1, 0xC1: 2, 0xC2: 4}[first] if first <= 0xC2 else _fail()
        return str(int.from_bytes(_take(head, place + 1, size), "little", signed=True)), place + 1 + size
    if first >> 6 == 0:
        size, start = first & 0x3F, place + 1
    elif first >> 6 == 1:
        size, start = (first & 0x3F) << 8 | head[place + 1], place + 2
    else:
        size, start = int.from_bytes(_take(head, place + 1, 4), "big"), place + 5
    return _take(head, start, size).decode(errors="replace"), start + size


def _take(head: bytes, start: int, size: int) -> bytes:
    if start + size > len(head):
        raise IndexError(start)
    return head[start : start + size]


def _fail() -> int:
    raise IndexError("compressed")

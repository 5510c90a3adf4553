"""What lies on the node's volume: data, how the last run ended, and the record of who was primary.

Notes of our own are beside the data, in `.valkey-operator/`; each is written whole or not at all.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

from valkey_operator.model.gate import Disk, Record

NOTES = ".valkey-operator"
# Opened by the sidecar's supervisor: a lock on it outlives a sidecar that starts again.
LOCK = 9
AUXILIARY = 0xFA
log = logging.getLogger(__name__)


class Space(NamedTuple):
    """In bytes; of size 0 when it cannot be seen."""

    free: int
    size: int


class Volume:
    """The folder `/data` of this node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / NOTES
        self._manifest = folder / "appendonlydir" / "appendonly.aof.manifest"
        self._notes.mkdir(exist_ok=True)
        self._lock: int | None = None

    def lock(self) -> bool:
        """Whether the volume is this pod's alone, which it is until the pod's end.

        Of two pods of one node only one gets it: on one machine by its kernel; on two, a volume for one machine is
        not there a second time.
        """
        if self._lock is None:
            self._lock = _inherited(self._notes / "lock")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def seen(self) -> Disk:
        snapshot = self._folder / "dump.rdb"
        manifest = self._manifest
        facts = read_snapshot_facts(snapshot)
        run = self._read("run")
        return Disk(
            has_data=_is_filled(manifest) if run.get("appendonly") else _is_filled(snapshot),
            was_stopped_cleanly=bool(self._read("clean")),
            is_synced_always=bool(run.get("synced_always")),
            has_append_only_file=bool(run.get("appendonly")) and _is_filled(manifest),
            history=facts.get("repl-id", ""),
            offset=int(facts.get("repl-offset", "0")),
        )

    def space(self) -> Space:
        try:
            found = os.statvfs(self._folder)
        except OSError as error:
            log.debug("the volume cannot be looked at: %s", error)
            return Space(0, 0)
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def starts_with_log(self, wanted: bool) -> bool:
        """Whether to start from the append-only file; a change of that is made live, after the start.

        A server that starts with the log on loads nothing else, and one with it off ignores the log: started in
        another mode than the last run's, it would come up empty, or with data that is long past.
        """
        was = self._read("run").get("appendonly")
        if was is None or was == wanted:
            return wanted
        has_old_log = wanted and _is_filled(self._manifest)
        return bool(was) if self.seen().has_data or has_old_log else wanted

    @property
    def is_log_whole(self) -> bool:
        """The log alone holds all data of the last run, or of this one."""
        return bool(self._read("run").get("appendonly"))

    def note_start(self, *, appendonly: bool, synced_always: bool) -> None:
        """Before each start: from now on the last stop is not a clean one any more."""
        (self._notes / "clean").unlink(missing_ok=True)
        self.note_run(appendonly=appendonly, synced_always=synced_always)

    def note_run(self, *, appendonly: bool, synced_always: bool) -> None:
        noted = {"appendonly": appendonly, "synced_always": synced_always}
        if noted != self._read("run"):
            self._write("run", noted)

    def note_clean_stop(self) -> None:
        """After the server has ended by our own order, without an error."""
        self._write("clean", {"clean": True})

    @property
    def record(self) -> Record:
        known = self._read("record")
        return Record(int(known.get("epoch", 0)), str(known.get("primary", "")))

    def note_record(self, record: Record) -> None:
        if record != self.record:
            self._write("record", {"epoch": record.epoch, "primary": record.primary})

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self._notes / name).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        arriving = self._notes / f"{name}.new"
        with arriving.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        arriving.rename(self._notes / name)
        folder = os.open(self._notes, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _inherited(file: Path) -> int:
    """The supervisor's descriptor, or one of our own where there is no supervisor."""
    own = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        is_same = os.path.sameopenfile(LOCK, own)
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

"""Notes on the volume what a later start must load: the append-only file, or the snapshot.

Either may be turned on and off while the server runs, and neither holds all data at once: a new log is whole when
its first rewrite has ended, and without the log a snapshot must be taken first. Until then the old one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Info = Mapping[str, str]


class Server(Protocol):
    info: Info | None

    async def call(self, *words: str | int) -> Any: ...


class Volume(Protocol):
    @property
    def is_log_whole(self) -> bool: ...

    def note_run(self, *, appendonly: bool, synced_always: bool) -> None: ...


class LogMode:
    """Of one node's volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        # When the last snapshot was taken before the one that is waited for.
        self._before: str | None = None

    async def follow(self, server: Server, *, saves: bool, synced_always: bool) -> None:
        """`saves`: snapshots are wanted at all; `synced_always`: so is a log that holds every write at once."""
        info = server.info
        if info is None or info.get("loading") == "1":
            return
        was, is_on = self._volume.is_log_whole, info.get("aof_enabled") == "1"
        if is_on or not was:
            is_whole = is_on and (was or is_settled(info))
            self._before = None
        else:
            is_whole = saves and not await self._has_snapshot(server, info)
        self._volume.note_run(appendonly=is_whole, synced_always=is_on and is_whole and synced_always)

    async def _has_snapshot(self, server: Server, info: Info) -> bool:
        """Of all that the log held: one is asked for when the log has gone, and waited for."""
        if self._before is None:
            await server.call("BGSAVE", "SCHEDULE")
            self._before = info.get("rdb_last_save_time", "")
            return False
        is_saving = info.get("rdb_bgsave_in_progress") == "1"
        return not is_saving and info.get("rdb_last_save_time") != self._before


def is_settled(info: Info) -> bool:
    """The log is on, and its base has been written."""
    at_work = "1" in (info.get("aof_rewrite_in_progress"), info.get("aof_rewrite_scheduled"))
    return not at_work and info.get("aof_last_bgrewrite_status") == "ok"

"""Notes on the volume what a later start must load: the append-only file, or the snapshot.

Either may be turned on and off while the server runs, and neither holds all data at once: a new log is whole when
its first rewrite has ended, and without the log a snapshot must be taken first. Until then the old one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from valkey_operator.sidecar.disk import Kept

Info = Mapping[str, str]


class Server(Protocol):
    info: Info | None

    async def call(self, *words: str | int) -> Any: ...


class Volume(Protocol):
    @property
    def kept(self) -> Kept: ...

    def note_kept(self, kept: Kept) -> None: ...


class LogMode:
    """Of one node's volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        # When the last snapshot was taken before the one that is waited for.
        self._before: str | None = None

    async def follow(self, server: Server, wanted: Kept, *, synced_always: bool) -> None:
        """`wanted` by the directives in force; `synced_always`: also by those that are mounted."""
        info, kept = server.info, self._volume.kept
        if info is None:
            return
        is_on = info.get("aof_enabled") == "1"
        if info.get("loading") == "1":
            if wanted.appendonly and not is_on:  # a replica that is given everything anew
                self._volume.note_kept(replace(kept, appendonly=False, synced_always=False))
            return
        if is_on or not kept.appendonly:
            is_whole = is_on and (kept.appendonly or is_settled(info))
            self._before = None
        elif wanted.appendonly:
            # A replica that is given everything anew stops its log, and writes a new one afterwards.
            is_whole = False
        else:
            is_whole = wanted.snapshots and not await self._has_snapshot(server, info)
        is_synced = is_on and is_whole and synced_always and not is_to_be_written_anew(info)
        self._volume.note_kept(replace(kept, appendonly=is_whole, synced_always=is_synced))

    async def _has_snapshot(self, server: Server, info: Info) -> bool:
        """Of all that the log held: one is asked for when the log has gone, and waited for."""
        if self._before is None:
            await server.call("BGSAVE", "SCHEDULE")
            self._before = info.get("rdb_last_save_time", "")
            return False
        is_saving = info.get("rdb_bgsave_in_progress") == "1"
        return not is_saving and info.get("rdb_last_save_time") != self._before


def is_to_be_written_anew(info: Info) -> bool:
    """It may be the first time after a full copy: then what is on the disk is from before it."""
    return info.get("aof_rewrite_scheduled") == "1"


def is_settled(info: Info) -> bool:
    """The log is on, and its base has been written."""
    at_work = "1" in (info.get("aof_rewrite_in_progress"), info.get("aof_rewrite_scheduled"))
    return not at_work and info.get("aof_last_bgrewrite_status") == "ok"

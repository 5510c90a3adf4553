"""Brings what is mounted into force in the running server; what the server takes only at its start waits for one.

The server itself says which is which: it answers "can't set immutable config". What is in force is noted beside
the server's other files, so that a sidecar that starts again beside a living server knows it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import fence, files
from valkey_operator.valkey import config_file, defaults
from valkey_operator.valkey.connection import Refused

# Each setting of it says only a part; the rest is the default's, as in a file.
PARTIAL = ("client-output-buffer-limit",)
# What goes back to its default by its old name does so by the new one too, and has to be set again.
TODAY = {
    "min-slaves-to-write": "min-replicas-to-write",
    "min-slaves-max-lag": "min-replicas-max-lag",
    "repl-ping-slave-period": "repl-ping-replica-period",
    "slave-read-only": "replica-read-only",
}
AT_START = ("can't set immutable config", "can't set protected config", "Unknown option")
NAMED = re.compile(r"related to argument '([^']+)'|CONFIG SET - '([^']+)'")
log = logging.getLogger(__name__)

Directives = Mapping[str, str]


class Server(Protocol):
    async def call(self, *words: str | int) -> Any: ...


@dataclass(frozen=True)
class Change:
    """What has to be told to the server: first what goes back to its default, then what is new."""

    back: dict[str, str]
    new: dict[str, str]
    # Nobody asks for them any more, and what they were without that only a new start tells.
    unknown: frozenset[str] = frozenset()


def plan(in_force: Directives, wanted: Directives, usual: Directives) -> Change:
    gone = in_force.keys() - wanted.keys()
    again = {TODAY[name] for name in gone & TODAY.keys()}
    changed = {name: value for name, value in wanted.items() if name in again or in_force.get(name) != value}
    return Change(
        back={name: usual[name] for name in sorted(gone & usual.keys())},
        new={name: _whole(name, value, usual) for name, value in sorted(changed.items())},
        unknown=frozenset(gone - usual.keys()),
    )


@dataclass
class Result:
    """What came of a change."""

    done: set[str] = field(default_factory=set)
    needs_restart: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    # To be tried again: the fence stands where the value would go.
    held: set[str] = field(default_factory=set)


class LiveConfig:
    """The configuration of one run of the server."""

    def __init__(self, settings: SidecarSettings) -> None:
        self._settings = settings
        self._tried = ""
        # Of which `needs_restart` and `refused` speak; empty before the first.
        self._followed = ""
        self.needs_restart: tuple[str, ...] = ()
        self.refused = ""

    @property
    def mounted(self) -> str:
        """What was looked at last: of what has arrived since, nobody knows yet whether it needs a restart."""
        return self._followed or config_file.fingerprint(files.directives(self._settings))

    @property
    def directives(self) -> Mapping[str, str]:
        """Those in force."""
        return files.in_force(self._settings)

    @property
    def in_force(self) -> str:
        return config_file.fingerprint(self.directives)

    @property
    def is_synced_always(self) -> bool:
        """Every write is on disk before it is acknowledged, now and after what is mounted is in force."""
        both = (self.directives, files.directives(self._settings))
        return all(each.get("appendonly") == "yes" and each.get("appendfsync") == "always" for each in both)

    async def follow(self, server: Server) -> bool:
        """Look whether something else is mounted than is in force, and set it; True when there is news of that.

        What the server did not take is tried again when something else is mounted, not again and again.
        """
        wanted, running = files.directives(self._settings), files.in_force(self._settings)
        mark = config_file.fingerprint(wanted)
        if mark == self._tried:
            return False
        change = plan(running, wanted, defaults.known()) if running != wanted else Change({}, {})
        result = await _apply(server, change)
        after = {name: value for name, value in running.items() if name in wanted or name not in result.done}
        files.note_in_force(
            self._settings, after | {name: wanted[name] for name in result.done & wanted.keys()}
        )
        is_another = bool(self._followed) and self._followed != mark
        self._followed = mark
        before = (self.needs_restart, self.refused)
        self.needs_restart = tuple(sorted(result.needs_restart))
        self.refused = "; ".join(f"{name}: {words}" for name, words in sorted(result.refused.items()))
        self._tried = "" if result.held else mark
        return is_another or bool(result.done) or before != (self.needs_restart, self.refused)


async def _apply(server: Server, change: Change) -> Result:
    result = Result(needs_restart=set(change.unknown))
    for part in (change.back, change.new):
        pending = dict(part)
        if pending.keys() & fence.DIRECTIVES and await fence.is_up(server):
            result.held |= pending.keys() & fence.DIRECTIVES
            pending = {name: value for name, value in pending.items() if name not in fence.DIRECTIVES}
        await _set(server, pending, result)
    if result.done:
        await _read_back(server, result)
    return result


async def _set(server: Server, pending: dict[str, str], result: Result) -> None:
    """In one command, which the server takes wholly or not at all; without what it names as not to be set."""
    while pending:
        try:
            await server.call("CONFIG", "SET", *(word for pair in pending.items() for word in pair))
        except Refused as refusal:
            words = str(refusal)
            named = NAMED.search(words)
            name = (named[1] or named[2]) if named else ""
            for each in [name] if name in pending else list(pending):
                del pending[each]
                if any(answer in words for answer in AT_START):
                    result.needs_restart.add(each)
                else:
                    result.refused[each] = words.partition(" - ")[2] or words
        else:
            result.done |= pending.keys()
            return


async def _read_back(server: Server, result: Result) -> None:
    """Sizes and flags come back in the server's own form, so they are shown and not compared."""
    said = await server.call("CONFIG", "GET", *sorted(result.done))
    values = dict(zip(said[::2], said[1::2], strict=True))
    log.info("in force now: %s", values)
    for name in result.done - values.keys():
        result.done.discard(name)
        result.refused[name] = "the server does not show it after it was set"


def _whole(name: str, value: str, usual: Directives) -> str:
    return f"{usual[name]} {value}" if name in PARTIAL and name in usual else value

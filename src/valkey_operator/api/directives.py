"""The directives of valkey.conf: which the operator owns, which a version knows, and what they take.

What servers know is in directives.json, asked of real ones by tools/directives.py.
"""

from __future__ import annotations

import difflib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, TypedDict

from pydantic import JsonValue

from valkey_operator.api.quantity import MOST, shown
from valkey_operator.api.words import one_word, words

# Of one thing with a field here: the names of today, and the old ones that servers still know.
FIELDS = {
    "min-replicas-to-write": "replication.minReplicasToWrite",
    "min-slaves-to-write": "replication.minReplicasToWrite",
    "min-replicas-max-lag": "replication.minReplicasMaxLag",
    "min-slaves-max-lag": "replication.minReplicasMaxLag",
}
# Of directives that we write too: under both names, whichever is read last would count.
OLD_NAMES = {
    "repl-ping-slave-period": "repl-ping-replica-period",
    "slave-read-only": "replica-read-only",
}
OWNED: dict[str, str] = {
    **{name: f"use {field}" for name, field in FIELDS.items()},
    "aclfile": "the operator renders it; use auth.acl",
    "appenddirname": "the operator keeps files where it can find them",
    "appendfilename": "the operator keeps files where it can find them",
    "availability-zone": "use azDistribution",
    "bind": "the operator decides where servers listen",
    "bind-source-addr": "the operator decides where servers listen",
    "cluster-allow-replica-migration": "the operator keeps each replica in its shard",
    "cluster-config-file": "the operator keeps files where it can find them",
    "cluster-enabled": "the kind decides: use a ValkeyCluster",
    "cluster-replica-no-failover": "the sidecar decides which replica may be elected",
    "cluster-slave-no-failover": "the sidecar decides which replica may be elected",
    "cluster-port": "each deployment has its own, so that clusters cannot be mixed up",
    "daemonize": "the server is the container's process",
    "dbfilename": "the operator keeps files where it can find them",
    "dir": "data is in /data",
    "enable-debug-command": "it would let clients stop servers",
    "enable-module-command": "it would let clients load code",
    "enable-protected-configs": "it would let clients change files",
    "include": "write the directives here",
    "logfile": "servers log to their container",
    "masterauth": "the operator keeps the replication user",
    "masteruser": "the operator keeps the replication user",
    "pidfile": "the server is the container's process",
    "port": "plaintext is on 6379; use tls.port and tls.disablePlaintextPort",
    "primaryauth": "the operator keeps the replication user",
    "primaryuser": "the operator keeps the replication user",
    "protected-mode": "the operator decides where servers listen",
    "rename-command": "use the permissions of auth.acl",
    "replicaof": "the operator decides who follows whom",
    "requirepass": "use auth.password",
    "slaveof": "the operator decides who follows whom",
    "supervised": "the server is the container's process",
    "unixsocket": "the sidecar listens there",
    "unixsocketperm": "the sidecar listens there",
    "user": "use auth.acl",
}
OWNED_PREFIXES = {
    "cluster-announce-": "the operator announces each server's address",
    "replica-announce-": "the operator announces each server's address",
    "slave-announce-": "the operator announces each server's address",
    "tls-": "use tls",
}
FILE_ONLY = ("loadmodule",)
INTEGER = re.compile(r"-?[0-9]{1,19}")
MEMORY = re.compile(r"([0-9]{1,19})(b|k|kb|m|mb|g|gb)?", re.IGNORECASE)
PERCENT = re.compile(r"(100|[0-9]{1,2})%")
# Of the events that servers tell by `notify-keyspace-events`.
EVENTS = re.compile(r"[Ag$lshzxeKEtmdn]*")
UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 10**6, "mb": 1 << 20, "g": 10**9, "gb": 1 << 30}


class Directive(TypedDict, total=False):
    """What servers say of a directive."""

    versions: list[str]
    type: str
    choices: list[str]
    several: bool
    # The least and the most.
    range: list[int]
    # The file takes several words for it; of other text it reads one.
    words: bool


@cache
def known() -> dict[str, Directive]:
    loaded: dict[str, Directive] = json.loads(files(__package__).joinpath("directives.json").read_text())
    return loaded


def refusal(name: str, value: JsonValue, version: str | None) -> str | None:
    """Why a directive cannot stand in `config`, or None. `version` is major.minor, None when it is not known."""
    if owner := owner_of(name):
        return f"{shown(name)} is the operator's: {owner}"
    if name in OLD_NAMES:
        return f"{name} is the old name of {OLD_NAMES[name]}; write that"
    if _has_line_break(value):
        return f"{shown(name)} has a line break in it; a directive is one line"
    if name in FILE_ONLY:
        return _wrong_module(name, value)
    directive = known().get(name)
    if directive is None:
        near = difflib.get_close_matches(name, known(), n=1)
        return f"{shown(name)} is no directive of Valkey" + (f"; did you mean {near[0]}?" if near else "")
    if version in _versions() and version not in directive["versions"]:
        return f"{name} is not known to Valkey {version}, only to {', '.join(directive['versions'])}"
    return _wrong_value(name, value, directive)


def owner_of(name: str) -> str | None:
    """Why nobody but the operator sets it."""
    prefixed = (why for start, why in OWNED_PREFIXES.items() if name.startswith(start))
    return OWNED.get(name) or next(prefixed, None)


def _has_line_break(value: JsonValue) -> bool:
    """It would smuggle in another directive, one of the operator's own among them."""
    parts = value if isinstance(value, list) else [value]
    return any(mark in part for part in parts if isinstance(part, str) for mark in "\n\r\0")


def _versions() -> set[str]:
    return {version for directive in known().values() for version in directive["versions"]}


def _wrong_value(name: str, value: JsonValue, directive: Directive) -> str | None:
    if isinstance(value, list) and not all(isinstance(part, str) for part in value):
        return f"{name} is a list of other things than text"
    if isinstance(value, dict) or value is None:
        return f"{name} must be text, a number, true or false, or a list of text"
    if isinstance(value, int) and abs(value) > MOST:
        return f"{name} is {shown(value)}, and no server reads so much"
    text = _text(value)
    match directive["type"]:
        case "integer":
            return _wrong_integer(name, text, directive)
        case "boolean" if text not in ("yes", "no"):
            return f"{name} is {shown(text)}; it must be yes or no"
        case "memory" if memory_bytes(text) is None:
            return f"{name} is {shown(text)}; it must be a size such as 100mb{_most(text)}"
        case "percent" if memory_bytes(text) is None and not PERCENT.fullmatch(text):
            return (
                f"{name} is {shown(text)}; it must be a size such as 100mb, or a part such as 5%{_most(text)}"
            )
        case "choice" if not set(text.split(" ") if directive.get("several") else [text]) <= set(
            directive["choices"]
        ):
            return f"{name} is {shown(text)}; it must be one of {', '.join(directive['choices'])}"
        case "text":
            return _wrong_text(name, text)
    return None


def _wrong_integer(name: str, text: str, directive: Directive) -> str | None:
    if not _is_integer(text):
        return f"{name} is {shown(text)}; it must be a whole number{_most(text)}"
    least, most = directive.get("range", [-MOST, MOST])
    if not least <= int(text) <= most:
        return f"{name} is {shown(text)}; it must be from {least} to {most}"
    return None


def _wrong_text(name: str, text: str) -> str | None:
    """With which the server does not start, though it may take it while it runs."""
    if _has_words(name) and words(text) is None:
        return (
            f"{name} is {shown(text)}; servers find no end of a quote in it: close the quote, or take it out"
        )
    if name == "save" and not _is_save(words(text) or []):
        return (
            f"save is {shown(text)}; it must be pairs of seconds and changes such as 900 1 300 10, or empty for no "
            "snapshots"
        )
    if name == "notify-keyspace-events" and not EVENTS.fullmatch(as_set(name, text)):
        return f"{name} is {shown(text)}; it must be letters of Ag$lshzxeKEtmdn, such as KEA, or empty"
    return None


def _is_save(given: list[str]) -> bool:
    """Pairs, which may stand in one word; none is no snapshots."""
    points = given if len(given) > 1 else [point for word in given for point in word.split(" ") if point]
    are_numbers = all(_is_integer(point) and int(point) >= 0 for point in points)
    return are_numbers and len(points) % 2 == 0 and not any(int(seconds) == 0 for seconds in points[::2])


def _wrong_module(name: str, value: JsonValue) -> str | None:
    parts = value if isinstance(value, list) else [value]
    if not parts or not all(isinstance(part, str) and words(part) for part in parts):
        return f"{name} must be the path of a module with its arguments, or a list of such texts"
    return None


def as_lines(name: str, value: Any) -> list[str]:
    """As the file writes it behind the name: a list is one line, but for modules, of which each has its own."""
    if name in FILE_ONLY:
        return [str(part) for part in value] if isinstance(value, list) else [str(value)]
    text = _text(value)
    if known().get(name, {}).get("type") == "text" and not _has_words(name):
        return [one_word(text)]
    return [text if text.strip() else '""']


def as_set(name: str, value: Any) -> str:
    """As the server reads what the file writes: what CONFIG SET takes."""
    return "\n".join(" ".join(words(line) or []) for line in as_lines(name, value))


def _has_words(name: str) -> bool:
    return known().get(name, {}).get("words", False)


def _text(value: Any) -> str:
    """A list is one text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _most(text: str) -> str:
    """Said only to who comes near it."""
    return f", of at most {MOST}" if sum(map(str.isdigit, text)) > 9 else ""


def _is_integer(text: str) -> bool:
    """The length is looked at before the number."""
    return INTEGER.fullmatch(text) is not None and abs(int(text)) <= MOST


def memory_bytes(value: Any) -> int | None:
    """A size as valkey.conf writes it, in bytes; None for a percentage, nonsense, or more than anybody can have."""
    if isinstance(value, int) and abs(value) > MOST:
        return None
    match = MEMORY.fullmatch(_text(value))
    found = int(match[1]) * UNITS[(match[2] or "").lower()] if match else None
    return found if found is not None and found <= MOST else None

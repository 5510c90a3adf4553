"""Writes the server's files: what the operator rendered, and what only the pod knows.

They lie on a volume in memory, so a container that starts again finds them; a password is in the file that
needs it and nowhere else.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from valkey_operator.settings.sidecar import SidecarSettings

SOCKET = "valkey.sock"
CONFIG = "valkey.conf"
USERS = "users.acl"


@dataclass(frozen=True)
class ServerFiles:
    """The directives that matter to the sidecar itself, read back from what it wrote."""

    appendonly: bool
    synced_always: bool


def write(settings: SidecarSettings, primary: str) -> ServerFiles:
    """Everything the server reads at its start; `primary` is the node to follow, or this one."""
    own = [
        f"dir {settings.data}",
        f"unixsocket {settings.run / SOCKET}",
        "unixsocketperm 700",
        f"aclfile {settings.run / USERS}",
        f"replica-announce-ip {settings.node}.{settings.namespace}.svc",
    ]
    if primary != settings.node:
        own.append(f"replicaof {primary}.{settings.namespace}.svc 6379")
    write_users(settings)
    note_users(settings)
    rendered = (settings.config / CONFIG).read_text()
    _replace(settings.run / CONFIG, "\n".join([rendered.rstrip("\n"), *own, ""]))
    _note(settings, CONFIG, rendered)
    said = directives(settings)
    appendonly = said.get("appendonly") == "yes"
    return ServerFiles(appendonly, appendonly and said.get("appendfsync") == "always")


def write_users(settings: SidecarSettings) -> None:
    _replace(settings.run / USERS, (settings.users / USERS).read_text())


def note_users(settings: SidecarSettings) -> None:
    """After the server has read the users' file, or before it does so at its start."""
    _note(settings, USERS, (settings.run / USERS).read_text())


def in_force(settings: SidecarSettings, name: str) -> str:
    """SHA-256 of the rendered file that the running server has read; it outlives this sidecar, as the server does."""
    note = settings.run / f"{name}.sha256"
    return note.read_text() if note.exists() else ""


def begin_run(settings: SidecarSettings) -> int:
    """Milliseconds since 1970, and more than any run before in this pod: a clock that was put back must not make
    this run look older than the last."""
    note = settings.run / "sidecar-run"
    before = note.read_text() if note.exists() else ""
    now = max(time.time_ns() // 1_000_000, int(before) + 1 if before.isdigit() else 0)
    _replace(note, str(now))
    return now


def directives(settings: SidecarSettings) -> dict[str, str]:
    """What the operator rendered, the last of each name."""
    lines = (settings.config / CONFIG).read_text().splitlines()
    pairs = (line.strip().partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return {name.lower(): value.strip() for name, _, value in pairs}


def _note(settings: SidecarSettings, name: str, content: str) -> None:
    _replace(settings.run / f"{name}.sha256", hashlib.sha256(content.encode()).hexdigest())


def _replace(file: Path, content: str) -> None:
    arriving = file.with_name(f"{file.name}.new")
    descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(content)
    arriving.rename(file)

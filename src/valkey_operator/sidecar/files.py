"""Writes the server's files: what the operator rendered, and what only the pod knows.

They lie on a volume in memory, so a container that starts again finds them; a password is in the file that
needs it and nowhere else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from valkey_operator.settings.sidecar import SidecarSettings

SOCKET = "valkey.sock"


@dataclass(frozen=True)
class ServerFiles:
    """The directives that matter to the sidecar itself, read back from what it wrote."""

    appendonly: bool
    synced_always: bool


def write(settings: SidecarSettings, primary: str) -> ServerFiles:
    """Everything the server reads at its start; `primary` is the node to follow, or this one."""
    rendered = (settings.config / "valkey.conf").read_text()
    own = [
        f"dir {settings.data}",
        f"unixsocket {settings.run / SOCKET}",
        "unixsocketperm 700",
        f"aclfile {settings.run / 'users.acl'}",
        f"replica-announce-ip {settings.node}.{settings.namespace}.svc",
    ]
    if primary != settings.node:
        own.append(f"replicaof {primary}.{settings.namespace}.svc 6379")
    _replace(settings.run / "users.acl", (settings.users / "users.acl").read_text())
    _replace(settings.run / "valkey.conf", "\n".join([rendered.rstrip("\n"), *own, ""]))
    return _read_back(rendered)


def _read_back(rendered: str) -> ServerFiles:
    words = (line.split() for line in rendered.splitlines() if line and not line.startswith("#"))
    said = {line[0].lower(): line[1:] for line in words if line}
    appendonly = said.get("appendonly") == ["yes"]
    return ServerFiles(appendonly, appendonly and said.get("appendfsync") == ["always"])


def _replace(file: Path, content: str) -> None:
    arriving = file.with_name(f"{file.name}.new")
    descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(content)
    arriving.rename(file)

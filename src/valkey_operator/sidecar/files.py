"""Writes the server's files: what the operator rendered, and what only the pod knows.

They lie on a volume in memory, so a container that starts again finds them; a password is in the file that
needs it and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar.disk import Kept

SOCKET = "valkey.sock"
CONFIG = "valkey.conf"
USERS = "users.acl"


def write(settings: SidecarSettings, primary: str, modules: Sequence[str] = ()) -> None:
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
    rendered = (settings.config / CONFIG).read_text().rstrip("\n")
    # One that is loaded twice ends the server.
    own += [f"loadmodule {module}" for module in modules if f"loadmodule {module}" not in rendered]
    _replace(settings.run / CONFIG, "\n".join([rendered, *own, ""]))


def kept(said: Mapping[str, str]) -> Kept:
    """What a server with these directives keeps on its disk."""
    return Kept(
        # As the server reads it: points add up, an empty one takes back all before it, and none is the default.
        snapshots=said.get("save", "3600 1") not in ("", '""', "''"),
        appendonly=said.get("appendonly") == "yes",
        synced_always=said.get("appendfsync") == "always",
    )


def write_users(settings: SidecarSettings) -> None:
    _replace(settings.run / USERS, (settings.users / USERS).read_text())


def directives(settings: SidecarSettings) -> dict[str, str]:
    """What the operator rendered, the last of each name."""
    lines = (settings.config / CONFIG).read_text().splitlines()
    pairs = (line.strip().partition(" ") for line in lines if line.strip() and not line.startswith("#"))
    return {name.lower(): value.strip() for name, _, value in pairs}


def _replace(file: Path, content: str) -> None:
    arriving = file.with_name(f"{file.name}.new")
    descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(content)
    arriving.rename(file)

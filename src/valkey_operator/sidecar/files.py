"""Writes the server's files: what the operator rendered, and what only the pod knows.

They lie on a volume in memory, so a container that starts again finds them; a password is in the file that
needs it and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from valkey_operator.api.words import saves
from valkey_operator.model.gate import Record
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import fence
from valkey_operator.sidecar.disk import Kept
from valkey_operator.sidecar.parsed import forget, parsed
from valkey_operator.valkey import config_file

SOCKET = "valkey.sock"
CONFIG = "valkey.conf"
USERS = "users.acl"
IN_FORCE = "in-force.json"
OWN_SECRET = "sidecar-password"  # noqa: S105 - a file
USERS_LOADED = "users-loaded.sha256"
LEASE = "lease.json"
RECORD = "record.json"


def write(
    settings: SidecarSettings,
    primary: str,
    *,
    with_log: bool = False,
    modules: Sequence[str] = (),
    fenced: bool = False,
) -> None:
    """Everything the server reads at its start; `primary` is the node to follow, or this one."""
    rendered = (settings.config / CONFIG).read_text()
    said = config_file.parse(rendered)
    said["appendonly"] = "yes" if with_log else "no"
    own = [
        f"appendonly {said['appendonly']}",
        f"dir {settings.data}",
        f"unixsocket {settings.run / SOCKET}",
        "unixsocketperm 700",
        f"aclfile {settings.run / USERS}",
        f"replica-announce-ip {settings.server_of(settings.node)[0]}",
    ]
    own += _place(settings, primary, is_clustered=said.get("cluster-enabled") == "yes")
    own += fence.directives(said) if fenced else []
    write_users(settings)
    note_users(settings)
    # One that is loaded twice ends the server.
    own += [f"loadmodule {module}" for module in modules if f"loadmodule {module}" not in rendered]
    _replace(settings.run / CONFIG, "\n".join([rendered.rstrip("\n"), *own, ""]))
    note_in_force(settings, said)


def _place(settings: SidecarSettings, primary: str, *, is_clustered: bool) -> list[str]:
    """Where the others find this server, and whom it follows; the servers of a cluster know that by themselves."""
    if is_clustered:
        # The protocol of the cluster takes nothing but an address; the name is for clients.
        return [
            f"cluster-announce-ip {settings.pod_ip}",
            f"cluster-announce-hostname {settings.server_of(settings.node)[0]}",
            f"cluster-announce-human-nodename {settings.node}",
            # Until it has the data of the primary that it follows; see `candidacy`.
            "cluster-replica-no-failover yes",
        ]
    if primary == settings.node:
        return []
    host, port = settings.server_of(primary)
    return [f"replicaof {host} {port}"]


def kept(said: Mapping[str, str]) -> Kept:
    """What a server with these directives keeps on its disk."""
    return Kept(
        # As the server reads it: points add up, an empty one takes back all before it, and none is the default.
        snapshots=saves(said.get("save", "3600 1")),
        appendonly=said.get("appendonly") == "yes",
        synced_always=said.get("appendfsync") == "always",
    )


def write_users(settings: SidecarSettings) -> None:
    _replace(settings.run / USERS, (settings.users / USERS).read_text())


def note_users(settings: SidecarSettings) -> None:
    """After the server has read the users' file, or before it does so at its start."""
    loaded = (settings.run / USERS).read_text()
    _replace(settings.run / USERS_LOADED, _fingerprint(loaded))
    _replace(settings.run / OWN_SECRET, (settings.users / OWN_SECRET).read_text())


def has_other_users(settings: SidecarSettings) -> bool:
    """Others are mounted than the running server has read. A Secret that is gone has taken nothing away."""
    try:
        return parsed(settings.users, USERS, _fingerprint) != users_in_force(settings)
    except FileNotFoundError:
        return False


def passwords(settings: SidecarSettings) -> list[str]:
    """Of the sidecar's own user: the one that the server knows, and the one that it will know when others are mounted.

    A sidecar that ended between the two does not know which is in force.
    """
    places = (settings.run / OWN_SECRET, settings.users / OWN_SECRET)
    return list(dict.fromkeys(place.read_text().strip() for place in places if place.exists()))


def users_in_force(settings: SidecarSettings) -> str:
    """SHA-256 of the users' file that the running server has read; it outlives this sidecar, as the server does."""
    try:
        return parsed(settings.run, USERS_LOADED, str)
    except FileNotFoundError:
        return ""


def begin_run(settings: SidecarSettings) -> int:
    """Milliseconds since 1970, and more than any run before in this pod: a clock that was put back must not make
    this run look older than the last."""
    note = settings.run / "sidecar-run"
    before = note.read_text() if note.exists() else ""
    now = max(time.time_ns() // 1_000_000, int(before) + 1 if before.isdigit() else 0)
    _replace(note, str(now))
    return now


def directives(settings: SidecarSettings) -> Mapping[str, str]:
    """What the operator rendered, as it is mounted now."""
    return parsed(settings.config, CONFIG, config_file.parse)


def in_force(settings: SidecarSettings) -> Mapping[str, str]:
    """The directives of the operator that the running server has; none before its first start."""
    try:
        return parsed(settings.run, IN_FORCE, json.loads)
    except FileNotFoundError:
        return {}


def note_in_force(settings: SidecarSettings, directives: Mapping[str, str]) -> None:
    _replace(settings.run / IN_FORCE, json.dumps(directives, sort_keys=True))


def noted_record(settings: SidecarSettings) -> Record:
    """Who is primary, as it was noted here for want of room on the volume."""
    try:
        return Record(**parsed(settings.run, RECORD, json.loads))
    except FileNotFoundError:
        return Record()


def note_record(settings: SidecarSettings, record: Record) -> None:
    _replace(settings.run / RECORD, json.dumps(asdict(record)))


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(file: Path, content: str) -> None:
    arriving = file.with_name(f"{file.name}.new")
    descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(content)
    arriving.rename(file)
    forget()

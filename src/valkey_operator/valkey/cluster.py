"""Reads what a server says of its cluster."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from valkey_operator.model.cluster import (
    ClusterView,
    MigrationState,
    OpenSlot,
    SeenMember,
    SeenMigration,
    SlotRange,
)
from valkey_operator.valkey import info

# Several commands in one go; a refusal of one is raised.
Ask = Callable[[list[tuple[str, ...]]], Awaitable[list[Any]]]
ENDED = {
    "success": MigrationState.DONE,
    "failed": MigrationState.FAILED,
    "cancelled": MigrationState.CANCELLED,
}
# From this version on a server moves slots as a whole.
ATOMIC = 9
# Not in CONFIG GET *, but known to all versions; 0 is half of the node timeout.
PING_INTERVAL = "cluster-ping-interval"
LOG_LEVEL, QUIET = "loglevel", "warning"
NO_FAILOVER = "cluster-replica-no-failover"
# Since 9.1; before, a server that cannot write it down ends.
SAVING = "cluster-config-save-behavior"


async def look(ask: Ask, version: str, *, with_shards: bool = False) -> ClusterView:
    """All that the server knows; the shards as the clients see them only when asked for, because they are long."""
    commands: dict[str, tuple[str, ...]] = {
        # Before who owns what: a migration that ends in between must not look as if it had not been begun.
        **({"migrations": ("CLUSTER", "GETSLOTMIGRATIONS")} if moves_whole_slots(version) else {}),
        "nodes": ("CLUSTER", "NODES"),
        "info": ("CLUSTER", "INFO"),
        "shard": ("CLUSTER", "MYSHARDID"),
        "settings": ("CONFIG", "GET", PING_INTERVAL, LOG_LEVEL, NO_FAILOVER, SAVING),
        **({"shards": ("CLUSTER", "SHARDS")} if with_shards else {}),
    }
    said = dict(zip(commands, await ask(list(commands.values())), strict=True))
    nodes, general = parse_nodes(said["nodes"]), info.parse(said["info"])
    settings = dict(zip(said["settings"][::2], said["settings"][1::2], strict=True))
    return ClusterView(
        own_id=nodes.own_id,
        is_ok=general.get("cluster_state") == "ok",
        current_epoch=int(general.get("cluster_current_epoch", 0)),
        shard_id=said["shard"],
        members=tuple(nodes.members),
        migrating=tuple(nodes.migrating),
        importing=tuple(nodes.importing),
        migrations=parse_migrations(said.get("migrations", ())),
        shards_digest=shards_digest(said["shards"]) if with_shards else "",
        is_hurrying=settings[PING_INTERVAL] != "0",
        is_hushed=settings[LOG_LEVEL] == QUIET,
        is_barred=settings[NO_FAILOVER] == "yes",
        saving=settings.get(SAVING, ""),
    )


def moves_whole_slots(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdigit() and int(major) >= ATOMIC


@dataclass
class Nodes:
    """What CLUSTER NODES says."""

    own_id: str = ""
    members: list[SeenMember] = field(default_factory=list)
    migrating: list[OpenSlot] = field(default_factory=list)
    importing: list[OpenSlot] = field(default_factory=list)


def parse_nodes(text: str) -> Nodes:
    found = Nodes()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 8:
            continue
        owned = [word for word in words[8:] if not word.startswith("[")]
        found.members.append(_member(words, owned))
        if "myself" in words[2].split(","):
            found.own_id = words[0]
            for word in words[8:]:
                if word.startswith("["):
                    _note_open(word.strip("[]"), found)
    return found


def _member(words: Sequence[str], owned: Iterable[str]) -> SeenMember:
    """`id ip:port@bus,hostname flags primary ping pong epoch link slots…`"""
    address, *rest = words[1].split(",")
    flags = words[2].split(",")
    return SeenMember(
        id=words[0],
        address="" if address.startswith(":") or "noaddr" in flags else address,
        hostname=rest[0] if rest and "=" not in rest[0] else "",
        is_primary="master" in flags,
        primary_id="" if words[3] == "-" else words[3],
        config_epoch=int(words[6]),
        is_connected=words[7] == "connected" and "noaddr" not in flags,
        is_failed="fail" in flags,
        is_suspected="fail?" in flags,
        is_in_handshake="handshake" in flags,
        ranges=tuple(map(_range, owned)),
    )


def _note_open(word: str, found: Nodes) -> None:
    """`93->-id` goes there, `93-<-id` comes from there."""
    for arrow, marks in (("->-", found.migrating), ("-<-", found.importing)):
        slot, is_it, other = word.partition(arrow)
        if is_it:
            marks.append(OpenSlot(int(slot), other))


def _range(text: str) -> SlotRange:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def parse_migrations(said: Iterable[Sequence[Any]]) -> tuple[SeenMigration, ...]:
    return tuple(_migration(dict(zip(each[::2], each[1::2], strict=True))) for each in said)


def _migration(said: dict[str, Any]) -> SeenMigration:
    return SeenMigration(
        name=said["name"],
        source_id=said.get("source_node", ""),
        target_id=said.get("target_node", ""),
        ranges=tuple(map(_range, said["slot_ranges"].split())),
        state=ENDED.get(said["state"], MigrationState.UNDER_WAY),
        message=said.get("message", ""),
        is_export=said["operation"] == "EXPORT",
        remaining_bytes=int(said.get("remaining_repl_size", 0)),
        age=max(0.0, time.time() - int(said.get("last_update_time", 0))),
    )


def key_counts(said: Iterable[Sequence[Any]]) -> dict[int, int]:
    """From CLUSTER SLOT-STATS: keys by slot."""
    return {slot: dict(zip(each[::2], each[1::2], strict=True))["key-count"] for slot, each in said}


def shards_digest(said: Iterable[Sequence[Any]]) -> str:
    """Equal on all servers that tell their clients the same: who is in a shard, as what, with which slots."""
    shards = sorted(_shard(dict(zip(each[::2], each[1::2], strict=True))) for each in said)
    return hashlib.sha256(json.dumps(shards).encode()).hexdigest()[:16]


def _shard(said: dict[str, Any]) -> tuple[list[int], list[tuple[str, str]]]:
    nodes = (dict(zip(each[::2], each[1::2], strict=True)) for each in said["nodes"])
    return list(said["slots"]), sorted((node["id"], node["role"]) for node in nodes)

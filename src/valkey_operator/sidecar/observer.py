"""Puts what the sidecar knows into the contract's words. Pure, but for reading the clock once at the start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model import gate
from valkey_operator.valkey.info import keys

Info = Mapping[str, str]
ROLES = {"master": contract.ROLE_PRIMARY, "slave": contract.ROLE_REPLICA}
REPLICA = re.compile(r"slave\d+")


def server(
    info: Info | None, modules: Sequence[str] = (), cluster: contract.ClusterView | None = None,
    *, is_starting: bool = False,
) -> contract.Server:  # fmt: skip
    """From all sections of INFO; absent fields are zero, which is what an older server means by leaving them out.

    A server that runs and does not answer is there all the same.
    """
    if info is None:
        return contract.Server(answers=False, is_starting=is_starting)
    return contract.Server(
        answers=True,
        version=info.get("valkey_version", ""),
        role=ROLES.get(info.get("role", ""), contract.ROLE_UNSPECIFIED),
        is_loading=_yes(info, "loading"),
        loaded_percent=float(info.get("loading_loaded_perc", 0)),
        replication=_replication(info),
        memory=contract.Memory(
            used_bytes=_number(info, "used_memory"),
            max_bytes=_number(info, "maxmemory"),
            eviction_policy=info.get("maxmemory_policy", ""),
        ),
        persistence=persistence(info),
        keys=keys(info),
        connected_clients=_number(info, "connected_clients"),
        uptime_seconds=_number(info, "uptime_in_seconds"),
        modules=modules,
        libraries=_number(info, "number_of_libraries"),
        cluster=cluster,
        is_starting=is_starting,
    )


def disk(seen: gate.Disk, free_bytes: int, size_bytes: int, *, is_full: bool = False) -> contract.Disk:
    return contract.Disk(
        has_data=seen.has_data,
        was_stopped_cleanly=seen.was_stopped_cleanly,
        is_synced_always=seen.is_synced_always,
        has_append_only_file=seen.has_append_only_file,
        history=seen.history,
        offset=seen.offset,
        free_bytes=free_bytes,
        size_bytes=size_bytes,
        is_full=is_full,
    )


def record(seen: gate.Record) -> contract.Record:
    return contract.Record(epoch=seen.epoch, primary=seen.primary)


def lineage(info: Info) -> gate.Lineage:
    until = _number(info, "second_repl_offset")
    return gate.Lineage(
        info.get("master_replid", ""), info.get("master_replid2", "") if until > 0 else "", max(until, 0)
    )


def why_not_ready(info: Info | None) -> str:
    """A node leaves the Services for its own fault only; empty when it is ready. For a cluster see there."""
    if info is None:
        return "the server does not answer"
    if _yes(info, "loading"):
        return f"the server is loading its data, {info.get('loading_loaded_perc', '0')} %"
    if info.get("role") == "slave" and info.get("master_link_status") != "up":
        return _why_out_of_sync(info)
    return ""


def _why_out_of_sync(info: Info) -> str:
    primary = info.get("master_host", "").partition(".")[0]
    if _yes(info, "master_sync_in_progress"):
        return f"the replica copies the data of its primary {primary}"
    return f"the replica has no connection to its primary {primary}: see the logs of both, and the network between"


def _replication(info: Info) -> contract.Replication:
    is_replica = info.get("role") == "slave"
    offset = "slave_repl_offset" if is_replica else "master_repl_offset"
    replicas = [_replica(value) for name, value in info.items() if REPLICA.fullmatch(name)]
    origin = lineage(info)
    return contract.Replication(
        history=origin.history,
        offset=_number(info, offset),
        primary_address=f"{info['master_host']}:{info.get('master_port', '')}"
        if "master_host" in info
        else "",
        link_is_up=info.get("master_link_status") == "up",
        sync_in_progress=_yes(info, "master_sync_in_progress"),
        replicas=replicas,
        silent_seconds=max(0, _number(info, "master_last_io_seconds_ago")),
        full_syncs=_number(info, "sync_full"),
        cut_off=_number(info, "client_output_buffer_limit_disconnections"),
        former_history=origin.before,
        former_history_end=origin.until,
    )


def _replica(text: str) -> contract.ReplicaSeen:
    """`ip=10.0.0.2,port=6379,state=online,offset=14,lag=1,type=replica`"""
    said = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return contract.ReplicaSeen(
        address=f"{said.get('ip', '')}:{said.get('port', '')}",
        state=said.get("state", ""),
        offset=_number(said, "offset"),
        lag_seconds=_number(said, "lag"),
    )


def persistence(info: Info) -> contract.Persistence:
    return contract.Persistence(
        save_in_progress=_yes(info, "rdb_bgsave_in_progress"),
        last_save_failed=info.get("rdb_last_bgsave_status", "ok") != "ok",
        last_save_time=_number(info, "rdb_last_save_time"),
        append_only=_yes(info, "aof_enabled"),
        rewrite_in_progress=_yes(info, "aof_rewrite_in_progress"),
        last_write_failed=info.get("aof_last_write_status", "ok") != "ok",
    )


def _yes(info: Info, name: str) -> bool:
    return info.get(name) == "1"


def _number(info: Info, name: str) -> int:
    value = info.get(name, "0")
    return int(value) if value.lstrip("-").isdigit() else 0

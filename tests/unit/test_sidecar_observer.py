"""INFO in the contract's words."""

from __future__ import annotations

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar import observer
from valkey_operator.valkey import info

PRIMARY = info.parse(
    """# Server
valkey_version:9.1.2
uptime_in_seconds:12
# Clients
connected_clients:3
# Memory
used_memory:1000
maxmemory:2000
maxmemory_policy:noeviction
# Persistence
loading:0
rdb_bgsave_in_progress:0
rdb_last_bgsave_status:err
aof_enabled:1
# Replication
role:master
master_replid:abc
master_repl_offset:14
slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1,type=replica
# Keyspace
db0:keys=5,expires=0,avg_ttl=0
db3:keys=2,expires=1,avg_ttl=9
"""
)
REPLICA = {"role": "slave", "master_host": "a.ns.svc", "master_port": "6379", "master_link_status": "down"}


def test_a_primary() -> None:
    seen = observer.server(PRIMARY)
    assert (seen.version, seen.role, seen.keys) == ("9.1.2", contract.ROLE_PRIMARY, 7)
    assert (seen.replication.history, seen.replication.offset) == ("abc", 14)
    assert [(each.address, each.state, each.offset) for each in seen.replication.replicas] == [
        ("10.0.0.2:6379", "online", 14)
    ]
    assert seen.persistence.last_save_failed
    assert seen.persistence.append_only
    assert (seen.memory.used_bytes, seen.memory.max_bytes) == (1000, 2000)
    assert observer.why_not_ready(PRIMARY) == ""


def test_a_replica_out_of_sync_is_not_ready() -> None:
    seen = observer.server(REPLICA)
    assert seen.role == contract.ROLE_REPLICA
    assert seen.replication.primary_address == "a.ns.svc:6379"
    assert observer.why_not_ready(REPLICA).startswith("the replica has no connection to its primary a: ")
    copying = {**REPLICA, "master_sync_in_progress": "1"}
    assert observer.why_not_ready(copying) == "the replica copies the data of its primary a"
    assert observer.why_not_ready({**REPLICA, "master_link_status": "up"}) == ""


def test_a_server_that_loads_or_is_silent_is_not_ready() -> None:
    loading = {"role": "master", "loading": "1", "loading_loaded_perc": "12.50"}
    assert observer.why_not_ready(loading) == "the server is loading its data, 12.50 %"
    assert observer.server(loading).loaded_percent == 12.5
    assert observer.why_not_ready(None) == "the server does not answer"


def test_a_server_that_has_not_served_yet_is_told_from_one_that_hangs() -> None:
    assert not observer.server(None).is_starting
    assert observer.server(None, is_starting=True).is_starting
    assert observer.server({}, is_starting=True).is_starting


def test_nothing_is_needed() -> None:
    assert observer.server({}).role == contract.ROLE_UNSPECIFIED

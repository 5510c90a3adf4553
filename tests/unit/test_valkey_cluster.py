"""What servers say of their cluster, as text that real ones have sent."""

from __future__ import annotations

from typing import Any

import pytest

from valkey_operator.model.cluster import ClusterView, MigrationState, OpenSlot, SeenMember
from valkey_operator.sidecar.cluster_readiness import ClusterReadiness
from valkey_operator.valkey.cluster import (
    moves_whole_slots,
    parse_migrations,
    parse_nodes,
    shards_digest,
)

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
NODES = f"""{A} 10.0.0.1:6379@16379,n0.svc myself,master - 0 0 1 connected 0-5 7 [93->-{B}] [94-<-{C}]
{B} fd00::2:6379@16379,n1.svc,shard-id=x slave {A} 0 1 1 connected
{C} 10.0.0.3:6379@16379 master,fail? - 1 1 3 disconnected 100-200
{D} :0@0 master,fail,noaddr - 1 1 4 disconnected
{"e" * 40} 10.0.0.9:6379@16379 handshake - 0 0 0 disconnected
"""


def test_every_line_becomes_a_member() -> None:
    found = parse_nodes(NODES)
    assert found.own_id == A
    a, b, c, d, e = found.members
    assert a == SeenMember(A, "10.0.0.1:6379@16379", "n0.svc", config_epoch=1, ranges=((0, 5), (7, 7)))
    assert (b.address, b.hostname, b.is_primary, b.primary_id) == ("fd00::2:6379@16379", "n1.svc", False, A)
    assert (c.is_suspected, c.is_failed, c.is_connected, c.slots) == (
        True,
        False,
        False,
        frozenset(range(100, 201)),
    )
    assert (d.address, d.is_failed, d.is_connected) == ("", True, False)
    assert e.is_in_handshake
    assert found.migrating == [OpenSlot(93, B)]
    assert found.importing == [OpenSlot(94, C)]
    view = ClusterView(A, members=tuple(found.members))
    assert set(view.by_id) == {A, B, C, D}
    assert [view.owner_of(slot) for slot in (7, 150, 300)] == [A, C, ""]
    assert not view.sees_a_majority


def test_the_server_that_knows_no_address_of_its_own() -> None:
    assert parse_nodes(f"{A} :6379@16379 myself,master - 0 0 0 connected").members[0].address == ""


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("snapshotting", MigrationState.UNDER_WAY),
        ("some-new-state", MigrationState.UNDER_WAY),
        ("success", MigrationState.DONE),
        ("failed", MigrationState.FAILED),
        ("cancelled", MigrationState.CANCELLED),
    ],
)
def test_a_migration(said: str, state: MigrationState) -> None:
    reply: list[Any] = [
        "name", "n", "operation", "IMPORT", "slot_ranges", "0-9 11", "target_node", A, "source_node", B,
        "state", said, "message", "why", "remaining_repl_size", 7,
    ]  # fmt: skip
    (found,) = parse_migrations([reply])
    assert (found.state, found.ranges, found.is_export) == (state, ((0, 9), (11, 11)), False)
    assert (found.source_id, found.target_id, found.message, found.remaining_bytes) == (B, A, "why", 7)


def test_the_digest_is_of_who_owns_what_and_not_of_offsets() -> None:
    def said(offset: int, role: str, order: int) -> list[Any]:
        nodes = [["id", A, "role", "master", "replication-offset", offset], ["id", B, "role", role]]
        shards = [["slots", [0, 9], "nodes", nodes[::order]], ["slots", [10, 20], "nodes", []]]
        return shards[::order]

    assert shards_digest(said(1, "replica", 1)) == shards_digest(said(99, "replica", -1))
    assert shards_digest(said(1, "replica", 1)) != shards_digest(said(1, "master", 1))


@pytest.mark.parametrize(
    ("version", "whole"), [("8.1.1", False), ("9.1.2", True), ("10.0", True), ("", False)]
)
def test_which_servers_move_slots_as_a_whole(version: str, whole: bool) -> None:
    assert moves_whole_slots(version) is whole


def test_a_node_of_a_cluster_comes_when_all_slots_have_owners_and_leaves_for_its_own_fault_only() -> None:
    half = (SeenMember(A, ranges=((0, 8191),)), SeenMember(C, is_failed=True))
    whole = (*half, SeenMember(B, ranges=((8192, 16383),)))
    ready = ClusterReadiness()
    assert ready.why_not(None) == "the server does not say how its cluster is"
    assert ready.why_not(ClusterView(A, members=half[:1])) == "the server is in no cluster yet"
    assert (
        ready.why_not(ClusterView(A, is_ok=True, members=half))
        == "8192 slots of the cluster have no owner yet"
    )
    assert ready.why_not(ClusterView(A, is_ok=True, members=whole)) == ""
    assert ready.why_not(ClusterView(A, is_ok=True, members=half)) == ""
    assert ready.why_not(ClusterView(A, members=whole)) == "the server sees no majority of its cluster"

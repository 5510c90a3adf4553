"""Orders to servers in a cluster, on real ones: what they see, what they do, and what they refuse."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import cluster_servers
from tests.caches import eventually
from tests.cluster_servers import (
    VERSIONS,
    Member,
    agree,
    formed,
    key_slot,
    ranges,
    read,
    servers,
    stop,
    writing,
)
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Lineage
from valkey_operator.sidecar.cluster_orders import ClusterOrders, has_all_of

REFUSED, FAILED = contract.RESULT_REFUSED, contract.RESULT_FAILED


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c")  # short: a socket's path has a limit


async def refused(member: Member, guard: str, **what: Any) -> str:
    outcome = await member.order(**what)
    assert (outcome.result, outcome.guard) == (REFUSED, guard), outcome.message
    return outcome.message


@pytest.mark.parametrize("version", VERSIONS)
async def test_two_become_a_cluster_by_orders_and_each_says_what_it_sees(folder: Path, version: str) -> None:
    async with servers(folder, ["a", "b", "r"], version) as everyone:
        a, b, r = everyone.values()
        for each in everyone.values():
            await each.obeys(hurry=contract.Hurry(milliseconds=30000))
        assert (await a.view()).is_hurrying
        assign = contract.AssignSlots(slots=ranges((0, 8191)), config_epoch=1)
        for _ in range(2):  # again, it is done already
            await a.obeys(assign_slots=assign)
        await b.obeys(assign_slots=contract.AssignSlots(slots=ranges((8192, 16383)), config_epoch=2))
        nodes = [await b.acquaintance(), await r.acquaintance()]
        await a.obeys(meet=contract.Meet(nodes=nodes))
        await r.obeys(meet=contract.Meet(nodes=[await b.acquaintance()]))
        await r.obeys(replicate=contract.Replicate(primary=await b.id()))
        await eventually(lambda: agree(everyone.values()), 10)
        for each in everyone.values():
            await each.obeys(hurry=contract.Hurry())
        seen = (await r.observe_now()).server.cluster
        assert (seen.node_id, seen.state, seen.is_hurrying) == (await r.id(), "ok", False)
        assert seen.shard_id == (await b.observe_now()).server.cluster.shard_id != ""
        found = {node.id: node for node in seen.nodes}
        assert found[await r.id()].primary_id == await b.id()
        assert found[await r.id()].role == contract.ROLE_REPLICA
        assert [(each.first, each.last) for each in found[await a.id()].slots] == [(0, 8191)]
        assert found[await a.id()].address == a.address
        assert all(node.is_connected and not node.is_failed for node in seen.nodes)
        assert [found[await each.id()].config_epoch for each in (a, b)] == [1, 2]


async def test_nobody_is_met_under_a_wrong_name_or_at_a_wrong_address(folder: Path) -> None:
    async with servers(folder, ["a", "b", "c"]) as everyone:
        a, b, c = everyone.values()
        right = await b.acquaintance()
        for wrong in (
            contract.Acquaintance(node="b", node_id=await c.id(), address=b.address),
            contract.Acquaintance(node="b", node_id=await b.id(), address=c.address),
            contract.Acquaintance(node="x", node_id=await b.id(), address=b.address),
        ):
            await refused(a, "nobody_is_met_unchecked", meet=contract.Meet(nodes=[right, wrong]))
        await asyncio.sleep(0.3)
        assert (await a.view()).is_alone


async def test_slots_of_others_are_not_assigned(folder: Path) -> None:
    async with formed(folder) as everyone:
        a, b = everyone.values()
        words = await refused(
            a,
            "slots_of_others_stay_theirs",
            assign_slots=contract.AssignSlots(slots=ranges((8190, 8193))),
        )
        assert words == f"slots 8192-8193 belong to {await b.id()}"


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_would_lose_data_is_refused(folder: Path, version: str) -> None:
    async with formed(folder, shards=2, empty=1, version=version) as everyone:
        a, b, c = everyone.values()
        await read(everyone, "key", "SET", "key", "value")
        await refused(a, "an_owner_of_slots_is_not_reset", reset_node=contract.ResetNode())
        replicate = contract.Replicate(primary=await b.id())
        await refused(a, "an_owner_of_slots_stays_primary", replicate=replicate)
        forget = contract.Forget(node_ids=[await b.id()])
        await refused(a, "a_connected_node_is_not_forgotten", forget=forget)
        gone = contract.Forget(node_ids=[await b.id()], though_they_seem_connected=True)
        await refused(a, "an_owner_of_slots_is_not_forgotten", forget=gone)
        # A replica has a copy of keys: it is not reset either.
        await c.obeys(replicate=contract.Replicate(primary=await b.id()))
        await eventually(lambda: _is_linked(c), 10)
        await refused(c, "a_node_with_keys_is_not_reset", reset_node=contract.ResetNode())
        await b.kill()
        await eventually(lambda: _is_not_connected(a, forget.node_ids[0]), 10)
        await refused(a, "an_owner_of_slots_is_not_forgotten", forget=forget)
        assert await c.ask("DBSIZE") == 1


async def test_keys_of_other_databases_are_kept_as_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_servers, "CONFIG", f"{cluster_servers.CONFIG}cluster-databases 2\n")
    async with formed(folder, shards=2, empty=2, version="9.1") as everyone:
        _, b, replica, empty = everyone.values()
        (first, _), *_ = (await b.view()).own.ranges
        key = next(name for name in map(str, range(100_000)) if key_slot(name) == first)
        await write(b, key)
        await replica.obeys(replicate=contract.Replicate(primary=await b.id()))
        await eventually(lambda: _is_linked(replica), 10)
        assert await replica.ask("DBSIZE") == 0
        assert "db1:keys=1" in await replica.ask("INFO", "keyspace")
        await refused(replica, "a_node_with_keys_is_not_reset", reset_node=contract.ResetNode())
        # Arriving, key by key, at a server that owns nothing yet.
        importing = contract.ImportSlots(slots=ranges((first, first)), from_node_id=await b.id())
        await empty.obeys(import_slots=importing)
        await b.ask("CLUSTER", "SETSLOT", first, "MIGRATING", await empty.id())
        await write(empty, key)
        assert await empty.ask("DBSIZE") == 0
        replicate = contract.Replicate(primary=await b.id())
        await refused(empty, "a_primary_with_keys_is_not_emptied", replicate=replicate)
        assert "db1:keys=1" in await empty.ask("INFO", "keyspace")


async def write(member: Member, key: str) -> None:
    """Into the second database."""
    pipe = await member.running_server().connect()
    await pipe.call("SELECT", 1)
    await pipe.call("ASKING")
    assert await pipe.call("SET", key, "value") == b"OK"
    pipe.close()


async def _is_linked(member: Member) -> bool:
    return "master_link_status:up" in await member.ask("INFO", "replication")


async def _is_not_connected(member: Member, node_id: str) -> bool:
    return not (await member.view()).by_id[node_id].is_connected


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_node_is_reset_and_its_old_id_forgotten(folder: Path, version: str) -> None:
    async with formed(folder, shards=2, empty=1, version=version) as everyone:
        a, b, c = everyone.values()
        old = await c.id()
        await c.obeys(reset_node=contract.ResetNode())
        assert await c.id() != old
        assert (await c.view()).is_alone
        for each in (a, b):
            await eventually(partial(_is_not_connected_or_gone, each, old), 10)
            await each.obeys(forget=contract.Forget(node_ids=[old, "0" * 40]))
        for each in (a, b):
            assert old not in (await each.view()).by_id
        # It may come back at once, for it is another one now.
        await a.obeys(meet=contract.Meet(nodes=[await c.acquaintance()]))
        await eventually(lambda: agree(everyone.values()), 15)


async def _is_not_connected_or_gone(member: Member, node_id: str) -> bool:
    found = (await member.view()).by_id.get(node_id)
    return found is None or not found.is_connected


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_planned_failover_loses_nothing(folder: Path, version: str) -> None:
    async with formed(folder, shards=3, replicas=1, version=version) as everyone:
        a, a1 = everyone["a"], everyone["a1"]
        former = await a.id()
        async with writing(everyone) as writer:
            outcome = await a1.obeys(promote=contract.Promote(former_id=former))
            assert outcome.write_pause_milliseconds > 0
            assert (await a1.ask("ROLE"))[0] == "master"
            again = await a1.obeys(promote=contract.Promote(former_id=former))
            assert not again.write_pause_milliseconds
            await eventually(lambda: _is_linked(a), 10)
            before = writer.acknowledged
            await eventually(lambda: writer.acknowledged > before + 500)
        print(f"\n{version}: longest gap {writer.longest_gap * 1000:.0f} ms of {writer.acknowledged} writes")
        assert await writer.lost() == []
        assert writer.longest_gap < 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_who_takes_over_knows_that_it_has_every_write(
    folder: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with formed(folder, shards=3, replicas=1, version=version) as everyone:
        a1 = everyone["a1"]
        orders, peer, said = ClusterOrders(a1), a1.peer, []

        async def asked(node: str, host: str = "") -> contract.Observation | None:
            said.append(orders.taken_over)
            return await peer(node, host)

        monkeypatch.setattr(a1, "peer", asked)
        async with writing(everyone) as writer:
            await orders.take_over("a")
        assert said[0] is None
        assert said[1] == contract.TakenOver(former="a", is_under_way=True), "it is in office already"
        epoch = (await a1.view()).own.config_epoch
        assert orders.taken_over == contract.TakenOver(former="a", epoch=epoch)
        assert await writer.lost() == []


async def test_who_lacks_the_last_writes_does_not_say_that_it_has_them(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        a, a1 = everyone["a"], everyone["a1"]
        await a.ask("CONFIG", "SET", "requirepass", "x")  # its replica cannot come back
        await a.ask("CLIENT", "KILL", "TYPE", "replica")
        await eventually(lambda: _has_lost_its_primary(a1), 10)
        assert await a.ask("SET", "bar", "unseen") == "OK"
        await a1.ask("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(lambda: _is_linked(a), 10)
        orders = ClusterOrders(a1)
        await orders.take_over("a")  # it is in office already
        assert orders.taken_over is None


@pytest.mark.parametrize(
    ("has_all", "former"),
    [
        (True, {}),
        (True, {"former_history_end": 90}),
        (False, {"former_history_end": 101}),
        (False, {"former_history": "", "former_history_end": 0}),
        (False, {"history": "h1"}),
        (False, {"link_is_up": False}),
    ],
    ids=["all", "it had less", "it had more", "it got a whole copy", "it does not follow", "not yet"],
)
def test_a_former_primary_that_goes_on_where_it_was_had_nothing_more(
    has_all: bool, former: dict[str, Any]
) -> None:
    said = {"history": "h2", "former_history": "h1", "former_history_end": 100, "link_is_up": True, **former}
    assert has_all_of(contract.Replication(**said), Lineage("h2", "h1", 100)) == has_all


def test_histories_without_an_origin_prove_nothing() -> None:
    assert not has_all_of(contract.Replication(history="h", link_is_up=True), Lineage("h"))


async def test_a_failover_goes_to_a_replica_of_that_primary_only(folder: Path) -> None:
    async with formed(folder, shards=2, replicas=1) as everyone:
        a, b, a1 = everyone["a"], everyone["b"], everyone["a1"]
        other = contract.Promote(former_id=await b.id())
        await refused(a1, "a_replica_follows_who_hands_over", promote=other)
        await refused(a, "only_a_replica_takes_over", promote=contract.Promote(former_id=await a.id()))
        forced = contract.Promote(force=True, former_id=await a.id())
        await refused(a1, "a_dead_primary_does_not_talk", promote=forced)
        take = contract.TakeOffice(former_id=await a.id())
        await refused(a1, "a_takeover_needs_proof", take_office=take)
        take.proof = "the pod was deleted by its kubelet"
        await refused(a1, "a_dead_primary_does_not_talk", take_office=take)


@pytest.mark.parametrize("version", VERSIONS)
async def test_with_proof_of_death_the_others_vote_at_once(folder: Path, version: str) -> None:
    async with formed(folder, shards=3, replicas=1, version=version) as everyone:
        a, a1 = everyone["a"], everyone["a1"]
        former = await a.id()
        await a.kill()
        await eventually(lambda: _has_lost_its_primary(a1), 5)
        take = contract.TakeOffice(former_id=former, proof="the server's process has ended")
        await refused(a1, "a_vote_is_impossible", take_office=take)
        await refused(a1, "the_replica_is_connected", promote=contract.Promote(former_id=former))
        await a1.obeys(promote=contract.Promote(force=True, former_id=former))
        assert (await a1.view()).own.slots


async def _has_lost_its_primary(member: Member) -> bool:
    return "master_link_status:down" in await member.ask("INFO", "replication")


async def test_without_a_majority_a_takeover_ends_it(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        formers = {name: await everyone[name].id() for name in ("a", "b")}
        await read(everyone, "key", "SET", "key", "value")
        await asyncio.gather(*(everyone[name].kill() for name in formers))
        for name in formers:
            replica = everyone[f"{name}1"]
            await eventually(partial(_has_lost_its_primary, replica), 5)
        await eventually(lambda: _is_suspected(everyone["c"], set(formers.values())), 10)
        take = contract.TakeOffice(former_id=formers["a"], proof="both processes have ended")
        await everyone["a1"].obeys(take_office=take)
        # With two of three the vote is possible again, and the rest goes by it.
        await eventually(lambda: _is_elected(everyone["b1"], formers["b"]), 10)
        await eventually(lambda: _is_ok(everyone["c"]), 10)
        assert await read({name: m for name, m in everyone.items() if m.living}, "key") == "value"


async def _is_elected(member: Member, former: str) -> bool:
    await member.order(promote=contract.Promote(force=True, former_id=former))
    return bool((await member.ask("ROLE"))[0] == "master")


async def _is_suspected(member: Member, ids: set[str]) -> bool:
    known = (await member.view()).by_id
    return all(known[each].is_suspected or known[each].is_failed for each in ids)


async def _is_ok(member: Member) -> bool:
    return (await member.view()).is_ok


async def test_a_forced_failover_without_votes_says_so(folder: Path) -> None:
    async with formed(folder, shards=2, replicas=1) as everyone:
        former = await everyone["a"].id()
        await everyone["a"].kill()
        stop(everyone["b"])
        await eventually(lambda: _has_lost_its_primary(everyone["a1"]), 5)
        outcome = await everyone["a1"].order(promote=contract.Promote(force=True, former_id=former))
        stop(everyone["b"], signal.SIGCONT)
        assert (outcome.result, outcome.guard) == (FAILED, "the_replica_takes_over")


@pytest.mark.parametrize("version", VERSIONS)
async def test_functions_are_carried_to_another_shard(folder: Path, version: str) -> None:
    code = "#!lua name=lib\nserver.register_function('f', function(keys, args) return 'here' end)"
    async with formed(folder, version=version) as everyone:
        a, b = everyone.values()
        await a.ask("FUNCTION", "LOAD", code)
        dumped = await a.obeys(dump_functions=contract.DumpFunctions())
        for _ in range(2):
            await b.obeys(load_functions=contract.LoadFunctions(functions=dumped.functions))
        assert await b.ask("FCALL", "f", 0) == "here"


async def test_short_timers_end_by_themselves_and_a_new_sidecar_ends_those_it_finds(folder: Path) -> None:
    async with servers(folder, ["a"]) as everyone:
        (a,) = everyone.values()
        timers = ("CONFIG", "GET", "cluster-node-timeout", "cluster-ping-interval")
        usual = await a.ask(*timers)
        await a.obeys(hurry=contract.Hurry(milliseconds=500))
        assert await a.ask(*timers) != usual
        await eventually(lambda: _says(a, usual, *timers), 5)
        await a.obeys(hurry=contract.Hurry(milliseconds=60000))
        a.begin_sidecar()
        await eventually(lambda: _says(a, usual, *timers), 5)


async def test_a_node_with_keys_keeps_its_node_timeout(folder: Path) -> None:
    async with formed(folder, shards=1) as everyone:
        (a,) = everyone.values()
        await a.ask("SET", "key", "value")
        await a.obeys(hurry=contract.Hurry(milliseconds=5000))
        assert (await a.ask("CONFIG", "GET", "cluster-node-timeout"))[1] == "3000"
        assert (await a.ask("CONFIG", "GET", "cluster-ping-interval"))[1] == "100"


async def test_who_votes_on_others_that_have_keys_keeps_its_node_timeout(folder: Path) -> None:
    async with formed(folder, shards=1) as everyone:
        (a,) = everyone.values()
        await a.obeys(hurry=contract.Hurry(milliseconds=5000, keeps_node_timeout=True))
        assert (await a.ask("CONFIG", "GET", "cluster-node-timeout"))[1] == "3000"
        assert (await a.ask("CONFIG", "GET", "cluster-ping-interval"))[1] == "100"


async def _says(member: Member, expected: object, *words: str) -> bool:
    return bool(await member.ask(*words) == expected)

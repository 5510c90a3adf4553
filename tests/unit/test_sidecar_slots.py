"""Slots move between real servers under a writing client: as a whole and key by key; cut anywhere nothing is lost."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import cluster_servers
from tests.caches import eventually
from tests.cluster_servers import (
    Member,
    agree,
    fill,
    formed,
    key_slot,
    ranges,
    ranges_of,
    read,
    writing,
)
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import MigrationState, SeenMember
from valkey_operator.render.users import RULES, SIDECAR
from valkey_operator.sidecar import mover
from valkey_operator.valkey.connection import Connection, Refused

REFUSED = contract.RESULT_REFUSED
UNDER_WAY = contract.SlotMigration.STATE_UNDER_WAY
EMPTIED = contract.SlotMigration.STATE_EMPTIED
DONE = contract.SlotMigration.STATE_DONE
FAILED = contract.SlotMigration.STATE_FAILED
CANCELLED = contract.SlotMigration.STATE_CANCELLED
FEW = frozenset(range(60))


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c")  # short: a socket's path has a limit


async def last_state(member: Member) -> int:
    migrations = (await member.observe_now()).server.cluster.migrations
    return migrations[0].state if migrations else 0


async def says(member: Member, *states: int) -> bool:
    return await last_state(member) in states


async def owns(member: Member, slots: frozenset[int]) -> bool:
    return slots <= (await member.view()).own.slots


async def begin(source: Member, target: Member, slots: frozenset[int], by_key: bool) -> None:
    """What the operator does first, and again after any cut."""
    wished = ranges_of(slots)
    if by_key:
        importing = contract.ImportSlots(slots=wished, from_node_id=await source.id())
        await target.obeys(import_slots=importing)
    order = contract.MigrateSlots(slots=wished, to_node_id=await target.id(), key_by_key=by_key)
    await source.obeys(migrate_slots=order)


async def claim(source: Member, target: Member, slots: frozenset[int]) -> contract.Outcome:
    wished = contract.ClaimSlots(
        slots=ranges_of(slots), from_node_id=await source.id(), from_node=source.node
    )
    return await target.order(claim_slots=wished)


async def moved(source: Member, target: Member, slots: frozenset[int], by_key: bool) -> None:
    await begin(source, target, slots, by_key)
    if by_key:
        await eventually(lambda: says(source, EMPTIED), 30)
        outcome = await claim(source, target, slots)
        assert outcome.result == contract.RESULT_DONE, outcome.message
    await eventually(lambda: says(source, DONE), 30)
    await eventually(lambda: owns(target, slots), 10)


def way(version: str) -> Any:
    return {"8.0": True, "8.1": True, "9.1": False}[version]


@pytest.mark.parametrize(
    ("version", "by_key", "count"),
    [("8.0", True, 300), ("8.1", True, 300), ("9.1", True, 300), ("9.1", False, 4096)],
)
async def test_slots_move_under_a_writing_client_and_nothing_is_lost(
    folder: Path, version: str, by_key: bool, count: int
) -> None:
    async with formed(folder, shards=2, replicas=1, empty=1, version=version) as everyone:
        a, c = everyone["a"], everyone["c"]
        slots = frozenset(range(count))
        await fill(a, 50_000)
        keys = await a.ask("DBSIZE")
        async with writing(everyone, 3000) as writer:
            begun = time.monotonic()
            await moved(a, c, slots, by_key)
            took = time.monotonic() - begun
            before = writer.acknowledged
            await eventually(lambda: writer.acknowledged > before + 500)
        print(
            f"\n{version} {'key by key' if by_key else 'as a whole'}: {count} slots in {took:.2f} s, longest gap "
            f"{writer.longest_gap * 1000:.0f} ms of {writer.acknowledged} writes"
        )
        assert await writer.lost() == []
        assert await a.ask("DBSIZE") + await c.ask("DBSIZE") >= keys
        view = await a.view()
        assert (view.migrating, view.own.slots & slots) == ((), frozenset())
        assert (await c.view()).importing == ()


@pytest.mark.parametrize("version", ["8.0", "9.1"])
async def test_times_to_live_big_keys_and_keys_of_any_bytes_arrive(folder: Path, version: str) -> None:
    async with formed(folder, shards=2, version=version) as everyone:
        a, b = everyone.values()
        slots = (await a.view()).own.slots
        tag, slot = "x", await a.ask("CLUSTER", "KEYSLOT", "{x}")
        source, target = (a, b) if slot in slots else (b, a)
        await source.ask("SET", f"{{{tag}}}short", "v", "PX", 100_000)
        connection = await source.living.connect() if source.living is not None else None
        assert connection is not None
        strange = b"{x}\xff\x00\r\n\xfe"
        await connection.call("SET", strange, b"\x00\xff")
        big: list[tuple[Any, ...]] = [("RPUSH", f"{{{tag}}}big", *["y" * 1000] * 1000) for _ in range(60)]
        await connection.call_all(big, limit=60)
        connection.close()
        await moved(source, target, frozenset({slot}), way(version))
        assert 0 < await target.ask("PTTL", f"{{{tag}}}short") <= 100_000
        assert await target.ask("LLEN", f"{{{tag}}}big") == 60_000
        there = await target.living.connect() if target.living is not None else None
        assert there is not None
        assert await there.call("GET", strange) == b"\x00\xff"
        there.close()


async def test_a_key_that_does_not_get_through_in_time_is_carried_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "USUAL_PATIENCE", 0.002)
    async with formed(folder, shards=2, version="8.1") as everyone:
        a, b = everyone.values()
        slot = await a.ask("CLUSTER", "KEYSLOT", "{x}")
        source, target = (a, b) if await owns(a, frozenset({slot})) else (b, a)
        for name in ("one", "two", "three"):
            await source.ask("SET", f"{{x}}{name}", "z" * 3_000_000)
        await moved(source, target, frozenset({slot}), True)
        assert [len(await target.ask("GET", f"{{x}}{name}")) for name in ("one", "two", "three")] == [
            3_000_000
        ] * 3
        assert await source.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 0


@pytest.mark.parametrize("version", ["8.0", "8.1"])
@pytest.mark.parametrize("victim", ["source", "target", "sidecar", "operator"])
async def test_key_by_key_a_crash_in_the_middle_is_finished(folder: Path, version: str, victim: str) -> None:
    async with formed(folder, shards=3, replicas=1, version=version) as everyone:
        a, b, heirs = everyone["a"], everyone["b"], {"a": everyone["a1"], "b": everyone["b1"]}
        slots = frozenset(range(120))
        await fill(a, 40_000)
        await a.ask("WAIT", 1, 5000)
        keys = sum([await everyone[name].ask("DBSIZE") for name in "abc"])
        async with writing(everyone, 500, until_copied=True) as writer:
            await begin(a, b, slots, True)
            await eventually(lambda: _has_begun(b), 10)
            source, target = await _crashed(victim, a, b, heirs)
            await eventually(lambda: _may_go_on(source, target, slots), 15)
            await moved(source, target, slots, True)
            before = writer.acknowledged
            await eventually(lambda: writer.acknowledged > before + 50, 20)
        living = [each for each in everyone.values() if each.living is not None]
        primaries = [each for each in living if (await each.ask("ROLE"))[0] == "master"]
        # What had just arrived at a target that dies may not have reached its replica yet.
        spared = 2 * mover.MOST_KEYS if victim == "target" else 0
        assert len(await writer.lost()) <= (5 if victim == "target" else 0)
        assert sum([await each.ask("DBSIZE") for each in primaries]) >= keys - spared
        for each in primaries:
            view = await each.view()
            assert (view.migrating, view.importing) == ((), ())


async def _has_begun(target: Member) -> bool:
    return bool(await target.ask("CLUSTER", "COUNTKEYSINSLOT", 10))


async def _crashed(victim: str, a: Member, b: Member, heirs: dict[str, Member]) -> tuple[Member, Member]:
    """Who are source and target from now on."""
    if victim in ("sidecar", "operator"):
        if victim == "sidecar":
            await a.mover.cancel()
            a.begin_sidecar()
        return a, b
    dead = a if victim == "source" else b
    former, heir = await dead.id(), heirs[dead.node]
    await dead.kill()
    await eventually(lambda: _is_down(heir), 5)
    await heir.obeys(promote=contract.Promote(force=True, former_id=former))
    return (heir, b) if dead is a else (a, heir)


@pytest.mark.parametrize(("version", "later"), [("8.0", "8.1"), ("8.1", "9.1"), ("9.1", "9.1")])
async def test_marks_and_keys_of_open_slots_outlast_handovers_and_restarts(
    folder: Path, version: str, later: str
) -> None:
    """As when both ends are upgraded meanwhile: by the marks alone clients find the keys that have arrived."""
    async with formed(folder, shards=3, replicas=1, empty=1, version=version) as everyone:
        source, target = everyone["a"], everyone["d"]
        await fill(source, 20_000)
        open_slots = frozenset(range(60))
        await begin(source, target, open_slots, True)
        await eventually(lambda: _has_begun(target), 10)
        await source.obeys(cancel_migration=contract.CancelMigration())
        for each in everyone.values():
            await each.ask("CONFIG", "SET", "save", "3600 1")
        for name in ("d", "a"):
            former, heir = everyone[name], everyone[f"{name}1"]
            await restarted(heir, later)
            await eventually(lambda: agree(everyone.values()), 20)
            await eventually(partial(promoted, heir, await former.id()), 30)
            await eventually(lambda: agree(everyone.values()), 20)
            await restarted(former, later)
            await eventually(lambda: agree(everyone.values()), 20)
        source, target = everyone["a1"], everyone["d1"]
        assert {mark.slot for mark in (await source.view()).migrating} == open_slots
        assert {mark.slot for mark in (await target.view()).importing} == open_slots
        assert await source.ask("DBSIZE") + await target.ask("DBSIZE") == 20_000
        await moved(source, target, open_slots, True)
        assert await source.ask("DBSIZE") + await target.ask("DBSIZE") == 20_000


async def promoted(heir: Member, former_id: str) -> bool:
    """The others may not have heard it yet since its start."""
    outcome = await heir.order(promote=contract.Promote(former_id=former_id))
    return outcome.result == contract.RESULT_DONE


async def restarted(member: Member, version: str) -> None:
    await member.kill(signal.SIGTERM)
    member.version = version
    await member.start()


class Unreachable:
    """As while the file with the password is being replaced."""

    async def connect(self) -> Connection:
        raise FileNotFoundError("password")


async def test_whatever_ends_a_migration_is_told_as_its_end() -> None:
    """What is said to be under way for ever would never be begun again."""
    moving = mover.Mover()
    target = SeenMember("target", "127.0.0.1:6379@16379")
    await moving.begin(Unreachable(), "source", target, {1, 2})
    await eventually(lambda: not moving.is_under_way, 5)
    (seen,) = moving.seen
    assert seen.state == MigrationState.FAILED
    assert "FileNotFoundError" in seen.message
    await moving.begin(Unreachable(), "source", target, {1, 2})
    assert moving.is_under_way
    await moving.cancel()


async def _is_down(member: Member) -> bool:
    return "master_link_status:down" in await member.ask("INFO", "replication")


async def _may_go_on(source: Member, target: Member, slots: frozenset[int]) -> bool:
    """Both see each other as primaries, and the source as the owner of what is not moved yet."""
    ids = {await source.id(), await target.id()}
    for view in (await source.view(), await target.view()):
        known = [view.by_id.get(each) for each in ids]
        if not all(each is not None and each.is_primary and each.is_connected for each in known):
            return False
        if any(view.owner_of(slot) not in ids for slot in slots):
            return False
    return True


@pytest.mark.parametrize("victim", ["source", "target"])
async def test_as_a_whole_a_crash_in_the_middle_is_undone_and_begun_again(folder: Path, victim: str) -> None:
    async with formed(folder, shards=3, replicas=1) as everyone:
        a, b, heirs = everyone["a"], everyone["b"], {"a": everyone["a1"], "b": everyone["b1"]}
        slots = frozenset(range(4000))
        await fill(a, 150_000, 300)
        await a.ask("WAIT", 1, 5000)
        async with writing(everyone, 500, until_copied=True) as writer:
            await begin(a, b, slots, False)
            assert await last_state(a) == UNDER_WAY
            source, target = await _crashed(victim, a, b, heirs)
            await eventually(lambda: _may_go_on(source, target, slots), 15)
            await eventually(lambda: says(source, 0, FAILED, DONE), 15)
            await moved(source, target, slots, False)
        assert await writer.lost() == []
        living = [each for each in everyone.values() if each.living is not None]
        primaries = [each for each in living if (await each.ask("ROLE"))[0] == "master"]
        assert sum([await each.ask("DBSIZE") for each in primaries]) >= 150_000


async def test_as_a_whole_the_source_says_little_until_the_slots_have_left_it(folder: Path) -> None:
    async with formed(folder, shards=2) as everyone:
        a, b = everyone.values()
        await fill(a, 2000, 100)
        assert a.living is not None
        await begin(a, b, FEW, by_key=False)
        await eventually(lambda: owns(b, FEW), 30)
        await eventually(lambda: is_loud(a), 10)
        assert "Deleting keys in dirty slot" not in (a.folder / "log").read_text()


async def is_loud(member: Member) -> bool:
    assert member.living is not None
    return "notice" in await member.living.call("CONFIG", "GET", "loglevel")


async def test_as_a_whole_it_can_be_called_off(folder: Path) -> None:
    async with formed(folder, shards=2) as everyone:
        a, b = everyone.values()
        await fill(a, 150_000, 300)
        slots = frozenset(range(4000))
        for _ in range(2):  # asked again it is the same one
            await begin(a, b, slots, False)
        for _ in range(2):
            await a.obeys(cancel_migration=contract.CancelMigration())
        assert await last_state(a) == CANCELLED
        assert await owns(a, slots)
        assert await b.ask("DBSIZE") == 0


async def test_as_a_whole_it_is_not_called_off_once_the_target_may_have_taken_the_slots(folder: Path) -> None:
    """The source would accept writes again, and lose them when it hears whose the slots are."""
    async with formed(folder, shards=2) as everyone:
        a, b = everyone.values()
        slots = frozenset(range(8192))
        async with writing(everyone) as writer:
            await a.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -2)
            await begin(a, b, slots, False)
            await eventually(lambda: owns(b, slots), 10)
            await a.obeys(cancel_migration=contract.CancelMigration())
            await asyncio.sleep(0.2)  # long for a writer that may write
            await a.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -1)
            await eventually(lambda: says(a, DONE), 10)
        assert await writer.lost() == []


async def test_key_by_key_it_can_be_called_off_and_goes_on_when_asked_again(folder: Path) -> None:
    async with formed(folder, shards=2, version="8.1") as everyone:
        a, b = everyone.values()
        await fill(a, 40_000)
        slots = frozenset(range(200))
        await begin(a, b, slots, True)
        await eventually(lambda: _has_begun(b), 10)
        await a.obeys(cancel_migration=contract.CancelMigration())
        assert await last_state(a) == CANCELLED
        outcome = await claim(a, b, slots)
        assert (outcome.result, outcome.guard) == (REFUSED, "only_emptied_slots_are_claimed")
        assert await owns(a, slots)
        await moved(a, b, slots, True)
        assert await a.ask("DBSIZE") + await b.ask("DBSIZE") == 40_000


async def test_moves_that_make_no_sense_are_refused(folder: Path) -> None:
    async with formed(folder, shards=3, replicas=1, version="8.1") as everyone:
        a, b, a1 = everyone["a"], everyone["b"], everyone["a1"]
        theirs = ranges((16000, 16001))
        cases = [
            (a, contract.MigrateSlots(slots=theirs, to_node_id=await b.id()), "slots_go_from_their_owner"),
            (
                a,
                contract.MigrateSlots(slots=ranges((0, 1)), to_node_id=await a1.id()),
                "slots_go_between_primaries",
            ),
            (
                a,
                contract.MigrateSlots(slots=ranges((0, 1)), to_node_id=await b.id()),
                "slots_go_key_by_key_before_9",
            ),
            (
                a1,
                contract.MigrateSlots(slots=ranges((0, 1)), to_node_id=await b.id()),
                "slots_go_between_primaries",
            ),
        ]
        for member, order, guard in cases:
            outcome = await member.order(migrate_slots=order)
            assert (outcome.result, outcome.guard) == (REFUSED, guard), outcome.message
        unasked = await claim(a, b, FEW)
        assert (unasked.result, unasked.guard) == (REFUSED, "only_imported_slots_are_claimed")


async def test_slots_go_from_an_older_server_to_a_newer_one(folder: Path) -> None:
    async with formed(folder, shards=2, version={"a": "8.1", "b": "9.1"}) as everyone:
        a, b = everyone.values()
        await fill(a, 20_000)
        async with writing(everyone, 500) as writer:
            await moved(a, b, FEW, True)
        assert await writer.lost() == []


async def test_key_by_key_a_target_that_hangs_does_not_silence_the_source(folder: Path) -> None:
    """For the patience that one command has, whatever is on its way: here a second for each of a dozen slots."""
    async with formed(folder, shards=2, version="8.1") as everyone:
        a, b = everyone.values()
        await fill(a, 20_000)
        few = frozenset(range(12))
        target = await b.id()
        await b.obeys(import_slots=contract.ImportSlots(slots=ranges_of(few), from_node_id=await a.id()))
        client = await Connection.open(a.folder / "s")
        assert b.process is not None
        b.process.send_signal(signal.SIGSTOP)
        order = contract.MigrateSlots(slots=ranges_of(few), to_node_id=target, key_by_key=True)
        await a.obeys(migrate_slots=order)
        longest = 0.0
        while a.mover.is_under_way:
            begun = time.monotonic()
            await client.call("PING", limit=60)
            longest = max(longest, time.monotonic() - begun)
            await asyncio.sleep(0.01)
        b.process.send_signal(signal.SIGCONT)
        client.close()
        assert await last_state(a) == FAILED
        assert longest < 6


@pytest.mark.parametrize("by_key", [True, False])
async def test_keys_of_all_databases_arrive(
    folder: Path, by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_servers, "CONFIG", f"{cluster_servers.CONFIG}cluster-databases 3\n")
    async with formed(folder, shards=2) as everyone:
        a, b = everyone.values()
        assert a.living is not None
        assert b.living is not None
        key = next(each for each in map(str, range(100_000)) if key_slot(each) in FEW)
        source, target = await a.living.connect(), await b.living.connect()
        for number in range(3):
            await source.call("SELECT", number)
            assert await source.call("SET", key, f"in {number}") == b"OK"
        await moved(a, b, FEW, by_key)
        for number in range(3):
            await target.call("SELECT", number)
            assert await target.call("GET", key) == f"in {number}".encode()
        source.close()
        target.close()


async def test_the_sidecar_goes_on_with_its_other_work_while_slots_move(folder: Path) -> None:
    async with formed(folder, shards=2, version="8.1") as everyone:
        a, b = everyone.values()
        await fill(a, 60_000)
        await begin(a, b, frozenset(range(500)), True)
        begun = time.monotonic()
        await a.obeys(set_config=contract.SetConfig(directives={"maxmemory": "0"}))
        assert time.monotonic() - begun < 1
        assert await last_state(a) == UNDER_WAY
        busy = await b.order(
            import_slots=contract.ImportSlots(slots=ranges((500, 501)), from_node_id=await a.id())
        )
        assert busy.result == contract.RESULT_DONE
        other = contract.MigrateSlots(slots=ranges((500, 501)), to_node_id=await b.id(), key_by_key=True)
        outcome = await a.order(migrate_slots=other)
        assert (outcome.result, outcome.guard) == (REFUSED, "one_migration_at_a_time")
        assert await read(everyone, "any") is None


@pytest.mark.parametrize(("version", "by_key"), [("8.0", True), ("8.1", True), ("9.1", True), ("9.1", False)])
async def test_the_sidecars_own_user_may_do_all_of_it_and_read_no_key(
    folder: Path, version: str, by_key: bool
) -> None:
    async with formed(folder, shards=2, version=version) as everyone:
        a, b = everyone.values()
        await fill(a, 1000)
        for each in everyone.values():
            await each.ask("ACL", "SETUSER", SIDECAR, "on", ">secret", *RULES[SIDECAR].split())
            assert each.living is not None
            each.living._user, each.living._passwords = SIDECAR, lambda: ["secret"]
            each.living._disconnect()
        await moved(a, b, FEW, by_key)
        await a.obeys(cancel_migration=contract.CancelMigration())
        dumped = await a.obeys(dump_functions=contract.DumpFunctions())
        await b.obeys(load_functions=contract.LoadFunctions(functions=dumped.functions))
        await a.obeys(hurry=contract.Hurry(milliseconds=1000))
        for words in (("GET", "key"), ("DUMP", "key"), ("RESTORE", "key", "0", "x"), ("KEYS", "*")):
            with pytest.raises(Refused, match="NOPERM"):
                await a.ask(*words)


@pytest.mark.parametrize(("version", "by_key"), [("8.1", True), ("9.1", False)])
async def test_where_servers_need_a_password_slots_move_as_replication_does(
    folder: Path, version: str, by_key: bool
) -> None:
    async with formed(folder, shards=2, version=version) as everyone:
        a, b = everyone.values()
        await fill(a, 1000)
        extra = ["+cluster|syncslots"] if version == "9.1" else []
        for each in everyone.values():
            rights = (
                "+psync",
                "+replconf",
                "+ping",
                "+select",
                "+@write",
                "+multi",
                "+exec",
                "~*",
                "&*",
                *extra,
            )
            await each.ask("ACL", "SETUSER", "copier", "on", ">secret", *rights)
            await each.ask("ACL", "SETUSER", SIDECAR, "on", ">own", *RULES[SIDECAR].split())
            assert each.living is not None
            each.living._user, each.living._passwords = SIDECAR, lambda: ["own"]
            each.living._disconnect()
            await each.ask("CONFIG", "SET", "masteruser", "copier", "masterauth", "secret")
            await each.ask("ACL", "SETUSER", "default", "off")
        await moved(a, b, FEW, by_key)

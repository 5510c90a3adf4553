"""A cluster comes to be, heals and stays one: decided by pure functions, carried out on real servers."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.cluster_former import Former, names
from tests.cluster_servers import HOST, VERSIONS, Member, agree, key_slot, ranges, read, servers
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide import formation
from valkey_operator.decide.cluster_actions import AssignSlots, ClusterStep, Forget, Hurry, Meet, ResetNode
from valkey_operator.decide.slots import initial
from valkey_operator.model.cluster import (
    SLOTS,
    ClusterNode,
    ClusterView,
    SeenCluster,
    SeenMember,
)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c")  # short: a socket's path has a limit


async def is_whole(former: Former, shards: int, replicas: int) -> bool:
    seen = await former.look()
    sizes = [
        len(primary.view.own.slots) for i in range(shards) if (primary := seen.primary_of(i)) and primary.view
    ]
    followers = [
        node.view.own.primary_id
        for node in seen.nodes
        if node.view is not None and not node.view.own.is_primary
    ]
    return (
        await agree(former.everyone.values())
        and len(seen.owned) == SLOTS
        and max(sizes) - min(sizes) <= 1
        and len(followers) == shards * (replicas - 1)
        and not any(view.is_hurrying for _, view in seen.answered)
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_six_nodes_become_a_cluster_fast(folder: Path, version: str) -> None:
    async with servers(folder, names(3, 2), version) as everyone:
        await asyncio.sleep(3)  # as pods that are up for a while
        former, begun = Former(everyone), time.monotonic()
        await former.settle()
        print(f"\n{version}: 3 x 2 formed in {time.monotonic() - begun:.2f} s, {former.done} actions")
        assert await is_whole(former, 3, 2)
        assert former.is_formed
        assert former.refused == []
        assert [(await each.view()).own.ranges for each in everyone.values()][::2] == [
            ((0, 5461),),
            ((5462, 10922),),
            ((10923, 16383),),
        ]


@pytest.mark.parametrize("cut", [1, 5, 7, 8, 9, 10, 12, 13])
async def test_cut_after_any_action_it_goes_on(folder: Path, cut: int) -> None:
    async with servers(folder, names(3, 2), VERSIONS[cut % 3]) as everyone:
        former = Former(everyone)
        await former.carry_out(formation.plan(await former.look()), cut)
        await Former(everyone).settle()
        assert await is_whole(former, 3, 2)


async def test_forty_nodes(folder: Path) -> None:
    async with servers(folder, names(20, 2)) as everyone:
        former, begun = Former(everyone), time.monotonic()
        await former.settle(60)
        print(f"\n9.1: 20 x 2 formed in {time.monotonic() - begun:.2f} s, {former.done} actions")
        assert await is_whole(former, 20, 2)


@pytest.mark.parametrize("version", ["8.0", "9.1"])
async def test_new_shards_and_replicas_join_and_get_no_slots_by_themselves(
    folder: Path, version: str
) -> None:
    async with servers(folder, names(3, 2), version) as everyone:
        former = Former(everyone)
        await former.settle()
        await read(everyone, "key", "SET", "key", "value")
        for name in ("3-0", "3-1", "0-2"):
            everyone[name] = Member(name, folder / name, version, everyone)
            await everyone[name].start()
        begun = time.monotonic()
        await former.settle()
        print(f"\n{version}: two shards' worth joined in {time.monotonic() - begun:.2f} s")
        seen = await former.look()
        assert seen.primary_of(3) is not None
        views = {node.name: view for node, view in seen.answered}
        assert views["3-1"].own.primary_id == views["3-0"].own_id
        assert views["0-2"].own.primary_id == views["0-0"].own_id
        assert not views["3-0"].own.slots
        assert await read(everyone, "key") == "value"


@pytest.mark.parametrize("version", ["8.0", "9.1"])
async def test_a_replica_of_a_server_that_was_removed_begins_anew(folder: Path, version: str) -> None:
    """A shard was removed and is made again, smaller: who comes back on its volume was the replica."""
    async with servers(folder, names(3, 1), version) as everyone:
        former = Former(everyone)
        await former.settle()
        for name in ("3-0", "3-1"):
            everyone[name] = Member(name, folder / name, version, everyone)
            await everyone[name].start()
        await former.settle()
        gone, replica = everyone.pop("3-0"), everyone.pop("3-1")
        former_id = former.ids["3-0"]
        await asyncio.gather(gone.kill(), replica.kill())
        await former.settle(30)
        assert len((await everyone["0-0"].view()).by_id) == 3
        everyone["3-1"] = replica
        await replica.start()
        assert (await replica.view()).own.primary_id == former_id
        await former.settle(30)
        for each in everyone.values():
            assert former_id not in (await each.view()).by_id
        seen = await former.look()
        primary = seen.primary_of(3)
        assert primary is not None
        assert (primary.name, len(seen.by_id)) == ("3-1", 4)
        assert formation.why_not_agreed(seen) == ""


async def test_keys_that_have_come_are_kept_when_their_new_server_comes_back_empty(folder: Path) -> None:
    """Before it owns the slot its replica alone has them."""
    async with servers(folder, names(3, 1), "8.1") as everyone:
        former = Former(everyone)
        await former.settle()
        for name in ("3-0", "3-1"):
            everyone[name] = Member(name, folder / name, "8.1", everyone)
            await everyone[name].start()
        await former.settle()
        target, replica, slot = everyone["3-0"], everyone["3-1"], key_slot("key")
        for each in everyone.values():
            if slot in (await each.view()).own.slots:
                source = each
        await target.obeys(
            import_slots=contract.ImportSlots(slots=ranges((slot, slot)), from_node_id=await source.id())
        )
        await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", former.ids["3-0"])
        pipe = await target.running_server().connect()
        await pipe.call("ASKING")
        assert await pipe.call("SET", "key", "value") == b"OK"
        pipe.close()
        await eventually(lambda: holds(replica, 1), 10)
        former_id = former.ids["3-0"]
        await target.kill()
        for file in target.folder.iterdir():
            file.unlink()
        # As the next pod does. At the very address of the former one its replica would find it, and copy nothing.
        await target.start(moved=True)
        await former.settle(60)
        assert (await replica.view()).own.is_primary
        assert (await replica.ask("DBSIZE"), await target.ask("DBSIZE")) == (1, 1)
        assert (await target.view()).own.primary_id == await replica.id()
        for each in everyone.values():
            assert former_id not in (await each.view()).by_id


async def holds(member: Member, count: int) -> bool:
    return bool(await member.ask("DBSIZE") == count)


async def test_all_addresses_changed_and_it_is_the_same_cluster(folder: Path) -> None:
    async with servers(folder, names(3, 2)) as everyone:
        former = Former(everyone)
        await former.settle()
        ids = dict(former.ids)
        await asyncio.gather(*(each.kill() for each in everyone.values()))
        begun = time.monotonic()
        await asyncio.gather(*(each.start(moved=True) for each in everyone.values()))
        await former.settle(30)
        print(f"\nall addresses changed: whole again in {time.monotonic() - begun:.2f} s")
        assert former.ids == ids
        assert await is_whole(former, 3, 2)


async def test_a_replica_that_came_back_empty_joins_again_and_its_old_id_is_forgotten(folder: Path) -> None:
    async with servers(folder, names(3, 2)) as everyone:
        former = Former(everyone)
        await former.settle()
        replica, old = everyone["1-1"], former.ids["1-1"]
        await replica.kill()
        for file in replica.folder.iterdir():
            file.unlink()
        await replica.start()
        await former.settle(30)
        assert await is_whole(former, 3, 2)
        assert former.ids["1-1"] != old
        for each in everyone.values():
            assert old not in (await each.view()).by_id


async def test_a_shard_that_is_gone_with_all_its_data_is_said_and_not_refilled(folder: Path) -> None:
    async with servers(folder, names(3, 2)) as everyone:
        former = Former(everyone)
        await former.settle()
        owner = former.ids["1-0"]
        await asyncio.gather(everyone["1-0"].kill(), everyone["1-1"].kill())
        for name in ("1-0", "1-1"):
            shutil.rmtree(everyone[name].folder)
            everyone[name].folder.mkdir()
            await everyone[name].start()

        def is_said(step: ClusterStep) -> bool:
            return any(each.guard == "lost_slots_are_not_refilled" for each in step.refusals)

        step = await former.settle(30, is_said)
        assert "5462-10922" in " ".join(each.why for each in step.refusals)
        assert not any(owner in each.ids for each in step.actions if isinstance(each, Forget))
        await former.carry_out(step)
        await asyncio.sleep(1)
        assert not (await everyone["1-0"].view()).own.slots
        former.may_be_lost = frozenset({1})
        await former.settle(30)
        assert await is_whole(former, 3, 2)
        owners = [view.own for _, view in (await former.look()).answered if view.own.slots]
        newest = max(owners, key=lambda each: each.config_epoch)
        assert newest.ranges == ((5462, 10922),)
        assert len({each.config_epoch for each in owners}) == 3


async def test_an_owner_of_slots_that_has_no_node_is_known_by_its_name_and_not_lost(folder: Path) -> None:
    """Suspended with four shards and back with three, at other addresses: the fourth is on its volume."""
    async with servers(folder, names(4, 1)) as everyone:
        former = Former(everyone)
        await former.settle()
        await asyncio.gather(*(each.kill() for each in everyone.values()))
        three = {name: each for name, each in everyone.items() if name != "3-0"}
        await asyncio.gather(*(each.start(moved=True) for each in three.values()))
        again = Former(three, is_formed=True)

        async def is_missed() -> bool:
            step = formation.plan(await again.look())
            await again.carry_out(step)
            views = [view for _, view in (await again.look()).answered]
            return all(any(each.is_failed for each in view.by_id.values()) for view in views)

        await eventually(is_missed, 20)
        seen = await again.look()
        assert seen.absent == {f"{folder.name}-3-0"}
        step = formation.plan(seen, frozenset(range(4)))
        assert not [each for each in step.actions if isinstance(each, AssignSlots | Forget)]
        assert not step.refusals


async def test_a_node_of_another_cluster_is_not_met(folder: Path) -> None:
    """A pod got the volume of another deployment: its server comes with a cluster of its own."""
    others = folder / "o"
    others.mkdir()
    async with servers(others, names(3, 1)) as foreign, servers(folder, names(3, 1)) as everyone:
        await Former(foreign).settle()
        await read(foreign, "key", "SET", "key", "value")
        former = Former(everyone)
        await former.settle()
        await everyone["2-0"].kill()
        await foreign["2-0"].kill()
        shutil.copy(foreign["2-0"].folder / "nodes.conf", everyone["2-0"].folder / "nodes.conf")
        await everyone["2-0"].start()
        await eventually(lambda: knows(everyone["2-0"], 3), 10)

        def is_said(step: ClusterStep) -> bool:
            return any(each.guard == "only_our_nodes_are_members" for each in step.refusals)

        step = await former.settle(10, is_said)
        assert not any(isinstance(each, Meet) for each in step.actions)
        await former.carry_out(step)
        await asyncio.sleep(1)
        assert len((await everyone["0-0"].view()).by_id) == 3
        assert (await foreign["0-0"].view()).own.slots


async def knows(member: Member, count: int) -> bool:
    return len((await member.view()).by_id) == count


async def test_two_deployments_that_were_merged_forget_each_other(folder: Path) -> None:
    """Each for itself. Until the other has done so, too, it may greet us again, and is forgotten again."""
    others = folder / "o"
    others.mkdir()
    async with servers(others, ["0-0"]) as foreign, servers(folder, names(3, 1)) as everyone:
        former = Former(everyone)
        await former.settle()
        x = foreign["0-0"]
        await everyone["0-0"].ask("CLUSTER", "MEET", HOST, x.port, x.bus)
        await eventually(lambda: knows(everyone["2-0"], 4), 10)
        step = formation.plan(await former.look())
        assert [each.guard for each in step.refusals] == ["only_our_nodes_are_members"]
        await former.settle(20)
        assert await is_whole(former, 3, 1)
        await asyncio.sleep(2)
        await former.settle(20)
        assert await is_whole(former, 3, 1)


def node(name: str, view: ClusterView | None = None, **more: object) -> ClusterNode:
    shard, index = map(int, name.split("-"))
    return ClusterNode(name, shard, index, view, **more)  # type: ignore[arg-type]


def alone(own_id: str) -> ClusterView:
    return ClusterView(own_id, members=(SeenMember(own_id, f"10.0.0.{own_id}:6379@16379"),))


def test_nothing_is_given_away_while_one_is_silent_that_may_hold_data() -> None:
    three = [node(f"{i}-0", alone(str(i))) for i in range(3)]
    silent = node("0-1")
    assert not any(
        "Assign" in type(a).__name__ for a in formation.plan(SeenCluster((*three, silent))).actions
    )
    empty = node("0-1", may_hold_data=False)
    assert any("Assign" in type(a).__name__ for a in formation.plan(SeenCluster((*three, empty))).actions)


def test_a_cluster_that_was_formed_gets_no_slots_again() -> None:
    nodes = tuple(node(f"{i}-0", alone(str(i))) for i in range(3))
    step = formation.plan(SeenCluster(nodes, is_formed=True))
    assert not any("Assign" in type(a).__name__ for a in step.actions)
    assert [each.guard for each in step.refusals] == ["lost_slots_are_not_refilled"]


def test_keys_without_a_cluster_are_no_new_cluster() -> None:
    nodes = (node("0-0", alone("0"), keys=5), node("1-0", alone("1")), node("2-0", alone("2")))
    step = formation.plan(SeenCluster(nodes))
    assert not any("Assign" in type(a).__name__ for a in step.actions)
    assert [each.guard for each in step.refusals] == ["lost_slots_are_not_refilled"]
    assert "bring back the volumes that are missing" in step.refusals[0].why


def test_of_a_replica_with_keys_whose_primary_was_removed_it_is_said_what_a_person_can_do() -> None:
    left = ClusterView("3", members=(SeenMember("3", is_primary=False, primary_id="gone"),))
    owners = (SeenMember(f"{i}", ranges=part) for i, part in initial(range(3)).items())
    views = [ClusterView(each.id, is_ok=True, members=(each,)) for each in owners]
    nodes = (*(node(f"{i}-0", view) for i, view in enumerate(views)), node("3-1", left, keys=5))
    (refused,) = formation.plan(SeenCluster(nodes, is_formed=True)).refusals
    assert refused.guard == "a_primary_with_keys_is_not_emptied"
    assert "3-1 follows a server that is gone, and holds 5 keys of it" in refused.why
    assert "then delete its PersistentVolumeClaim, where it has one, and its pod" in refused.why


def test_nobody_is_forgotten_while_one_is_silent() -> None:
    ghost = SeenMember("9", is_connected=False, is_failed=True)
    views = [
        ClusterView(str(i), members=(*(SeenMember(str(k), f"10.0.0.{k}:1@2") for k in range(3)), ghost))
        for i in range(3)
    ]
    everyone = tuple(node(f"{i}-0", view) for i, view in enumerate(views))
    forgotten = [
        each for each in formation.plan(SeenCluster(everyone, True)).actions if isinstance(each, Forget)
    ]
    assert forgotten == [Forget(f"{i}-0", ("9",)) for i in range(3)]
    for silent in (node("2-0", known_id="2"), node("2-0")):
        step = formation.plan(SeenCluster((*everyone[:2], silent), True))
        assert not any(isinstance(each, Forget) for each in step.actions)


@pytest.mark.parametrize(
    ("name", "leaving", "is_forgotten"),
    [("v-3-0", frozenset(), True), ("v-3-0", frozenset({"v-3-0"}), False), ("v-2-0", frozenset(), False)],
)
def test_a_node_that_was_removed_is_forgotten_as_soon_as_it_is_gone(
    name: str, leaving: frozenset[str], is_forgotten: bool
) -> None:
    """The servers may say that they are connected to it: they try to be."""
    ghost = SeenMember("9", "10.0.0.9:1@2", hostname=f"{name}.ns.svc")
    members = tuple(SeenMember(str(i), f"10.0.0.{i}:1@2", hostname=f"v-{i}-0.ns.svc") for i in range(3))
    views = [ClusterView(str(i), members=(*members, ghost)) for i in range(3)]
    everyone = tuple(ClusterNode(f"v-{i}-0", i, 0, view) for i, view in enumerate(views))
    found = formation.plan(SeenCluster(everyone, True, leaving)).actions
    forgotten = [each for each in found if isinstance(each, Forget)]
    wanted = [Forget(f"v-{i}-0", ("9",), though_they_seem_connected=True) for i in range(3)]
    assert forgotten == (wanted if is_forgotten else [])


@pytest.mark.parametrize(("leaving", "begins_anew"), [(frozenset(), True), (frozenset({"v-3-0"}), False)])
def test_a_replica_whose_primary_still_runs_on_its_way_out_does_not_begin_anew(
    leaving: frozenset[str], begins_anew: bool
) -> None:
    """Whole slots may be on their way to that one: it is the only one who could take them over."""
    owners = [SeenMember(str(i), f"10.0.0.{i}:1@2", hostname=f"v-{i}-0.ns.svc") for i in range(3)]
    owners = [replace(each, ranges=((int(each.id), int(each.id)),)) for each in owners]
    primary = SeenMember("7", "10.0.0.7:1@2", hostname="v-3-0.ns.svc")
    replica = SeenMember("8", "10.0.0.8:1@2", hostname="v-3-1.ns.svc", is_primary=False, primary_id="7")
    views = [ClusterView(each.id, members=(*owners, primary, replica)) for each in (*owners, replica)]
    places = [(0, 0), (1, 0), (2, 0), (3, 1)]
    everyone = [
        ClusterNode(f"v-{shard}-{index}", shard, index, view)
        for (shard, index), view in zip(places, views, strict=True)
    ]
    found = formation.plan(SeenCluster(tuple(everyone), True, leaving)).actions
    assert (ResetNode("v-3-1") in found) is begins_anew


def test_who_brings_unknown_company_joins_nobody_while_one_of_ours_was_never_heard() -> None:
    """The company may be another cluster; or it may be the silent one."""
    ours = [node(f"{i}-0", alone(str(i))) for i in range(2)]
    other = SeenMember("7", "10.0.0.7:6379@16379")
    tainted = node("2-0", ClusterView("2", members=(SeenMember("2", "10.0.0.2:6379@16379"), other)))
    step = formation.plan(SeenCluster((*ours, tainted, node("2-1")), True))
    meets = [each for each in step.actions if isinstance(each, Meet)]
    assert all("2-0" not in (each.node, *each.others) for each in meets)
    assert meets


@pytest.mark.parametrize(("is_formed", "keys"), [(True, 0), (False, 7), (False, 0)])
def test_owners_of_slots_judge_others_by_the_usual_timeout_once_there_may_be_keys(
    is_formed: bool, keys: int
) -> None:
    """Two empty ones of three are a majority, and the third may have keys and be slow for a moment."""
    owners = [SeenMember(str(i), f"10.0.0.{i}:6379@16379", ranges=((i, i),)) for i in range(3)]
    nodes = [node(f"{each.id}-0", ClusterView(each.id, members=tuple(owners))) for each in owners]
    nodes[2] = replace(nodes[2], keys=keys)
    step = formation.plan(SeenCluster((*nodes, node("3-0", alone("3"))), is_formed))
    timeouts = {each.node: each.node_timeout_milliseconds for each in step.actions if isinstance(each, Hurry)}
    usual = None if is_formed or keys else 500
    assert timeouts == {"0-0": usual, "1-0": usual, "2-0": usual, "3-0": 500}
    assert all(each.ping_milliseconds == 100 for each in step.actions if isinstance(each, Hurry))


def test_two_that_have_both_moved_are_told_where_the_other_one_is() -> None:
    """They say that they are connected to each other, for they try to be."""
    members = [SeenMember(str(i), f"10.0.0.{i}:1@2") for i in range(3)]
    former = [replace(each, address=f"10.9.9.{each.id}:1@2") for each in members]

    def seen(*known: Iterable[SeenMember]) -> SeenCluster:
        views = [ClusterView(str(i), is_ok=True, members=tuple(each)) for i, each in enumerate(known)]
        return SeenCluster(tuple(ClusterNode(f"v-{i}-0", i, 0, view) for i, view in enumerate(views)), True)

    both = seen(members, (*members[:2], former[2]), (members[0], former[1], members[2]))
    assert [each for each in formation.plan(both).actions if isinstance(each, Meet)] == [
        Meet("v-1-0", ("v-2-0",))
    ]
    assert formation.why_not_agreed(both) == "v-1-0 is not connected to v-2-0"
    # One that has moved alone knocks at the others, and they hear from where.
    alone = seen(members, (*members[:2], former[2]), members)
    assert not any(isinstance(each, Meet) for each in formation.plan(alone).actions)
    assert formation.why_not_agreed(alone) == "v-1-0 is not connected to v-2-0"
    assert formation.why_not_agreed(seen(members, members, members)) == ""

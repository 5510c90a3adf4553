"""Months of rotation in any order, cut anywhere: all who talk trust each other all the time, and nothing is wasted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pki import DAY
from tests.pki_world import Group, Process, World
from valkey_operator.pki.trust import usable

seeds = st.integers(0, 2**32)


@settings(max_examples=12, deadline=None)
@given(seeds)
def test_all_who_talk_trust_each_other_at_every_moment_of_two_years(seed: int) -> None:
    world = World.of(seed, 2, 2)
    world.settle()
    world.run(730)
    assert world.issued["root"] >= 6


@settings(max_examples=8, deadline=None)
@given(seeds)
def test_nothing_is_issued_more_often_than_needed(seed: int) -> None:
    days = 500
    world = World.of(seed, 2, 1)
    world.settle()
    world.run(days)
    roots = world.issued.pop("root")
    assert roots <= days / 120 + 1
    for what, times in world.issued.items():
        life = 60 if what.startswith("authority") else 40 * 0.66
        # One more for each root, and one where an issuer's end made the life of one shorter.
        assert times <= days / life + 2 * roots + 1, what


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_old_roots_leave_memory_bundles_and_the_root_secret(seed: int) -> None:
    world = World.of(seed, 2)
    world.settle()
    world.run(world.dice.randrange(120, 500))
    while world.now - world.roots[-1].issued_at < 15 * DAY:
        world.tick()
    world.settle()
    assert len(world.roots) == 1
    for process in world.processes:
        assert process.loaded is not None
        assert process.loaded.trust == process.trust == world.known


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_nodes_may_come_go_and_restart_at_any_moment(seed: int) -> None:
    world = World.of(seed, 2, 2)
    world.settle()
    for number in range(400):
        world.tick()
        group = world.dice.choice(world.groups[1:])
        match world.dice.randrange(12):
            case 0:
                group.processes.append(Process(f"{group.name}-new{number}"))
            case 1 if len(group.processes) > 1:
                group.processes.pop(0)
            case 2:
                world.dice.choice(group.processes).stop()
            case 3:
                group.authority = None
        world.check()


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_what_is_tampered_with_is_repaired_and_harms_nobody_else(seed: int) -> None:
    world = World.of(seed, 2, 2)
    world.settle()
    for _ in range(400):
        world.tick()
        group = world.dice.choice(world.groups)
        process = world.dice.choice(group.processes)
        match world.dice.randrange(10):
            case 0 if process.leaf:
                process.leaf = replace(process.leaf, fault="tls.key does not belong to tls.crt")
            case 1:
                process.trust = frozenset({"evil"})
            case 2 if group.authority:
                group.authority = replace(group.authority, fault="tls.crt cannot be read")
        world.check()
    world.settle()
    assert not any(process.is_poisoned for process in world.processes)
    assert not any(process.leaf is None or process.leaf.fault for process in world.processes)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_a_lost_root_key_is_survived_without_a_moment_of_distrust(seed: int) -> None:
    world = World.of(seed, 2, 1)
    world.settle()
    world.run(world.dice.randrange(1, 140))
    world.roots = tuple(replace(root, fault="its key is lost") for root in world.roots)
    lost = {root.thumbprint for root in world.roots}
    world.run(30)
    assert not lost & {process.leaf.root for process in world.processes if process.leaf}


@pytest.mark.parametrize("away", [30, 50, 100, 200])
def test_an_operator_that_was_away_for_long_repairs_what_has_expired(away: int) -> None:
    world = World.of(1, 3, 2)
    world.settle()
    world.now += away * DAY
    # It may find leaves that nobody accepts any more; there is no order in which that would be avoided.
    rounds = _repair(world)
    assert rounds <= 6
    world.check()
    world.run(100)


def _repair(world: World) -> int:
    for count in range(10):
        if not sum(_reconcile_unchecked(world, group) for group in (None, *world.groups)):
            return count
        for process in world.processes:
            process.reload(world.known)
            process.tell()
    raise AssertionError("it never comes to rest")


def _reconcile_unchecked(world: World, group: Group | None) -> int:
    actions = world.plan(group).actions
    for action in actions:
        world.carry_out(action, group)
    return len(actions)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_before_the_time_to_look_again_there_is_nothing_to_do(seed: int) -> None:
    world = World.of(seed, 2)
    world.settle()
    world.run(world.dice.randrange(1, 200))
    world.settle()
    times = [plan.look_again for plan in (world.plan(group) for group in (None, *world.groups))]
    first = min(time for time in times if time)
    assert first > world.now
    world.now += (first - world.now) * world.dice.random() * 0.999
    assert not any(world.plan(group).actions for group in (None, *world.groups))


def test_there_is_always_a_root_that_can_sign() -> None:
    world = World.of(3, 1)
    world.settle()
    for _ in range(400):
        world.tick()
        assert usable(world.roots, world.now)

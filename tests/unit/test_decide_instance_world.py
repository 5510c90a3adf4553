"""Months in the life of one primary and its replicas, by the dice: whatever is cut, killed or wished for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.instance_operator import Operator
from tests.instance_world import Node, Pod, World
from valkey_operator.decide import succession


class Life:
    """One world, its operator, and what befalls them."""

    def __init__(self, seed: int, *, replicas: int = 3, **kind: bool) -> None:
        self.world = World(seed, **kind)
        self.operator = Operator(self.world, replicas)
        self.dice = self.world.dice
        self.has_meddlers = False

    def step(self, *, is_whole: bool = False) -> None:
        world, operator = self.world, self.operator
        world.tick()
        for node in list(world.nodes.values()):
            if operator.is_up and world.chance(0.2):
                operator.hear(node)
        if operator.is_up and not is_whole and world.chance(0.7):
            operator.look(self.dice.choice([1, 1, 2, 3, None]))
        for _ in range(6 if operator.is_up and is_whole else 0):
            if not operator.look().actions:
                break

    def disturb_operator(self) -> None:
        roll = self.dice.random()
        if roll < 0.05:
            self.world.tell("the operator is restarted")
            self.operator.begin()
        elif roll < 0.07:
            self.operator.is_up = False
        elif roll < 0.2 and not self.operator.is_up:
            self.operator.is_up = True
            self.operator.begin()

    def change_minds(self) -> None:
        operator, roll = self.operator, self.dice.random()
        if roll < 0.03:
            operator.wish = replace(operator.wish, replicas=self.dice.choice([0, 1, 2, 3, 3, 4]))
            self.world.tell(f"replicas: {operator.wish.replicas}")
        elif roll < 0.05:
            operator.wish = replace(operator.wish, switchover=self.dice.choice(["", "v-0", "v-1", "v-2"]))
            self.world.tell(f"switch over to {operator.wish.switchover}")
        elif roll < 0.07:
            self.world.version += 1
            self.world.tell("another template")
            if self.dice.random() < 0.3:
                self.world.bad_versions.add(self.world.version)
        elif roll < 0.08 and self.world.nodes:
            self.world.stop(self.dice.choice(list(self.world.nodes.values())))
        if operator.wish.switchover == operator.status.record.primary:
            operator.wish = replace(operator.wish, switchover=None)

    def disturb_nodes(self) -> None:
        for node in list(self.world.nodes.values()):
            roll = self.dice.random()
            if node.pod is None:
                node.is_unplaced = roll < 0.9 if node.is_unplaced else roll < 0.02
                node.unplaced_since = node.unplaced_since if node.is_unplaced else self.world.now
            else:
                self.disturb_pod(node, node.pod, roll)

    def disturb_pod(self, node: Node, pod: Pod, roll: float) -> None:
        world = self.world
        if roll < 0.01:
            world.crash(node)
        elif roll < 0.016:
            pod.is_cut_off = True
            world.tell(f"{node.name} is cut off")
        elif roll < 0.02:
            pod.is_unheard = True
        elif roll < 0.023 and self.has_meddlers:
            self.meddle(node)
        elif roll < 0.05:
            pod.is_unheard = False
            if pod.is_cut_off:
                world.tell(f"{node.name} is back")
                pod.is_cut_off = False
        elif roll < 0.052 and pod.is_cut_off:
            world.tell(f"the machine of {node.name} is gone for good")
            node.pod = None

    def meddle(self, node: Node) -> None:
        """A person makes a replica a primary by hand, or lets a server follow another."""
        if node.server is None:
            return
        other = self.dice.choice(["", *(name for name in self.world.nodes if name != node.name)])
        self.world.tell(f"by hand: {node.name} follows {other or 'nobody'}")
        if other:
            self.world.follow(node, other)
        elif node.server.follows:
            self.world.promote(node, by_hand=True)

    def disturb_network(self) -> None:
        """Any part of it: between two nodes, between a node and the operator, around a node."""
        world = self.world
        for node in world.nodes.values():
            pod, is_primary = node.pod, node.name == self.operator.status.record.primary
            if pod is None:
                continue
            if self.dice.random() < (0.04 if is_primary else 0.01):
                pod.is_unheard = not pod.is_unheard
                world.tell(f"{node.name} is {'un' if pod.is_unheard else ''}heard")
            if self.dice.random() < (0.08 if is_primary and pod.is_unheard else 0.02):
                pod.is_cut_off = not pod.is_cut_off
                world.tell(f"{node.name} is {'cut off' if pod.is_cut_off else 'back'}")
        if self.dice.random() < 0.05 and len(world.nodes) > 1:
            pair = frozenset(self.dice.sample(sorted(world.nodes), 2))
            world.cuts ^= {pair}
            world.tell(f"between {sorted(pair)}: {'cut' if pair in world.cuts else 'healed'}")

    def disturb_sidecars(self, *, crashes: bool) -> None:
        """Each may be away for long, one of a server that ends meanwhile, too."""
        for node in self.world.nodes.values():
            if node.pod is None:
                continue
            roll = self.dice.random()
            if node.pod.has_no_sidecar:
                node.pod.has_no_sidecar = roll > 0.03
            elif roll < 0.02 and node.pod.stops_at is None:
                self.world.take_sidecar(node, node.pod)
            if crashes and self.dice.random() < 0.005:
                self.world.crash(node)

    def crash_all(self) -> None:
        for node in list(self.world.nodes.values()):
            self.world.crash(node)

    def settle(self) -> None:
        """When faults end the world becomes what was wished for."""
        world, operator = self.world, self.operator
        operator.is_up = True
        world.bad_versions.clear()
        world.cuts.clear()
        operator.wish = replace(operator.wish, switchover=None)
        for node in world.nodes.values():
            node.is_unplaced = False
            if node.pod is not None:
                node.pod.is_cut_off = node.pod.is_unheard = node.pod.has_no_sidecar = False
        world.tell(f"faults are over; replicas {operator.wish.replicas}")
        for _ in range(400):
            self.step(is_whole=True)
            if self.is_well():
                return
        pytest.fail(world.failed(f"it never comes to rest: {operator.look().report.message}"))

    def wish_for_some(self) -> None:
        """A lone server without a volume is never restarted, and one that is suspended has no primary to look at."""
        least = 1 if self.world.keeps_data else 2
        replicas = max(self.operator.wish.replicas, least)
        self.operator.wish = replace(self.operator.wish, replicas=replicas)

    def is_well(self) -> bool:
        world, operator = self.world, self.operator
        names = {f"v-{index}" for index in range(operator.wish.replicas)}
        if set(world.nodes) != names:
            return False
        if not names:
            return True
        primary = operator.status.record.primary
        return (
            world.service == primary
            and world.may_write(world.nodes[primary])
            and set(operator.status.promotable) == names - {primary}
            and all(self.is_node_well(name, primary) for name in names)
        )

    def is_node_well(self, name: str, primary: str) -> bool:
        node = self.world.nodes[name]
        if node.pod is None or node.server is None or node.pod.version != self.world.version:
            return False
        follows = "" if name == primary else primary
        return node.server.follows == follows and (name == primary or node.server.link_is_up)

    def primary_log(self) -> list[int]:
        node = self.world.nodes.get(self.operator.status.record.primary)
        return node.server.log if node is not None and node.server is not None else []


@pytest.mark.parametrize("seed", range(120))
def test_planned_work_loses_nothing(seed: int) -> None:
    life = Life(seed, replicas=1 + seed % 4)
    life.settle()
    for _ in range(250):
        life.step()
        life.disturb_operator()
        life.change_minds()
    life.wish_for_some()
    life.settle()
    lost = set(life.world.acknowledged) - set(life.primary_log())
    assert not lost, life.world.failed(f"{len(lost)} writes were lost")


@pytest.mark.parametrize("seed", range(220))
def test_whatever_happens_there_is_one_primary_and_it_comes_back(seed: int) -> None:
    life = Life(seed, replicas=2 + seed % 3, has_log=seed % 3 == 0, keeps_data=seed % 7 != 0)
    life.has_meddlers = seed % 4 == 0
    life.operator.trusts_people = not life.has_meddlers
    life.settle()
    for count in range(300):
        life.step()
        life.disturb_operator()
        life.disturb_nodes()
        if seed % 2:
            life.change_minds()
        if count == 200 and seed % 5 == 0:
            life.crash_all()
    life.wish_for_some()
    life.settle()


@pytest.mark.parametrize("seed", range(100))
def test_a_primary_nobody_hears_stops_writing_before_another_begins(seed: int) -> None:
    life = Life(seed, replicas=2 + seed % 3)
    life.settle()
    for _ in range(400):
        life.step(is_whole=seed % 2 == 0)
        life.disturb_network()
        if seed % 3 == 0:
            life.disturb_operator()
    life.settle()


@pytest.mark.parametrize("seed", range(100))
def test_a_primary_whose_sidecar_is_away_is_not_replaced_while_it_writes(seed: int) -> None:
    life = Life(seed, replicas=2 + seed % 3)
    life.settle()
    for _ in range(300):
        life.step(is_whole=seed % 2 == 0)
        life.disturb_sidecars(crashes=seed % 4 > 1)
        if seed % 3 == 0:
            life.disturb_operator()
    life.settle()
    lost = set(life.world.acknowledged) - set(life.primary_log())
    assert life.world.crashes or not lost, life.world.failed(f"{len(lost)} writes were lost")


@pytest.mark.parametrize("seed", [2, 9, 14])
def test_this_world_shows_two_who_write_where_the_fence_is_not_waited_for(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control that must fail."""
    monkeypatch.setattr(succession, "FENCED_AFTER_GRANT", 0.0)
    monkeypatch.setattr(succession, "FENCED_AFTER_NOTE", 0.0)
    with pytest.raises(AssertionError, match="all accept writes"):
        test_a_primary_nobody_hears_stops_writing_before_another_begins(seed)

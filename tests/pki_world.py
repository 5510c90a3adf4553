"""A world for months of rotation: Secrets, processes that reload late and report later, an operator cut anywhere.

Certificates are mere facts here; what real ones do is in test_contract_mtls.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.pki import DAY, NOW
from valkey_operator.pki.authority import BACKDATED
from valkey_operator.pki.rotation import (
    Action,
    AddTrust,
    DropTrust,
    ForgetRoot,
    IssueIntermediate,
    IssueLeaf,
    IssueRoot,
    Plan,
    Wish,
    plan_circle,
    plan_root,
)
from valkey_operator.pki.trust import Circle, Held, Party, Report

ROOT_LIFE = 150 * DAY
WISH = Wish(leaf_life=40 * DAY, authority_life=90 * DAY, renew_before=30 * DAY)
TICKS = (timedelta(minutes=25), DAY, DAY)
# What reacts at all does so within this time.
LATEST = DAY


@dataclass
class Loaded:
    leaf: Held
    trust: frozenset[str]


@dataclass
class Process:
    """One that has a Secret; what it has loaded may be older, and what it reported older still."""

    name: str
    leaf: Held | None = None
    trust: frozenset[str] = frozenset()
    loaded: Loaded | None = None
    report: Report | None = None
    # It loaded what somebody put there, and cannot be asked for more until it has loaded something better.
    is_poisoned: bool = False

    def seen(self) -> Party:
        return Party(self.name, self.leaf, self.trust, self.loaded is not None, self.report)

    def reload(self, known: frozenset[str]) -> None:
        """As Credentials does: what is not whole is not taken."""
        if self.leaf and self.trust and not self.leaf.fault:
            self.loaded = Loaded(self.leaf, self.trust)
            self.is_poisoned = not self.trust & known

    def tell(self) -> None:
        if self.loaded:
            self.report = Report(self.loaded.leaf.thumbprint, self.loaded.trust)

    def stop(self) -> None:
        self.loaded = self.report = None


@dataclass
class Group:
    """Those whose Secrets one reconcile writes: the operator, or the nodes of a deployment."""

    name: str
    processes: list[Process]
    has_authority: bool = True
    authority: Held | None = None


@dataclass
class World:
    dice: random.Random
    now: datetime = NOW
    roots: tuple[Held, ...] = ()
    groups: list[Group] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    issued: Counter[str] = field(default_factory=Counter)
    last: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, *sizes: int) -> World:
        world = cls(random.Random(seed))  # noqa: S311 - a game
        world.groups = [Group("operator", [Process("operator")], has_authority=False)]
        for index, size in enumerate(sizes):
            nodes = [Process(f"d{index}-{node}") for node in range(size)]
            world.groups.append(Group(f"d{index}", nodes))
        return world

    @property
    def processes(self) -> list[Process]:
        return [process for group in self.groups for process in group.processes]

    @property
    def known(self) -> frozenset[str]:
        return frozenset(root.thumbprint for root in self.roots)

    def issue(self, kind: str, root: str, life: timedelta, issuer: Held | None = None) -> Held:
        self.issued[kind] += 1
        name = f"{kind} {next(self.numbers)}"
        end = min(self.now + life, issuer.not_after) if issuer else self.now + life
        return Held(name, root or name, self.now - BACKDATED, end)

    def circle(self, group: Group) -> Circle:
        operator = group.name == "operator"
        others = [
            other for other in self.groups if other is not group and (operator or other is self.groups[0])
        ]
        return Circle(
            self.roots,
            tuple(process.seen() for process in group.processes),
            tuple(process.seen() for other in others for process in other.processes),
            group.authority,
            group.has_authority,
        )

    def plan(self, group: Group | None) -> Plan:
        if group is None:
            return plan_root(self.roots, self.in_use(), self.now)
        return plan_circle(self.circle(group), WISH, self.now)

    def in_use(self) -> frozenset[str]:
        bundles = [process.trust for process in self.processes]
        bundles += [process.loaded.trust for process in self.processes if process.loaded]
        return frozenset().union(*bundles)

    def reconcile(self, group: Group | None, cut: int | None = None) -> int:
        """Carry out the first so many actions; after each of them the world must be well."""
        actions = self.plan(group).actions[:cut]
        for action in actions:
            self.carry_out(action, group)
            self.check()
        return len(actions)

    def carry_out(self, action: Action, group: Group | None) -> None:
        match action:
            case IssueRoot():
                self.roots += (self.issue("root", "", ROOT_LIFE),)
            case ForgetRoot(root):
                self.roots = tuple(held for held in self.roots if held.thumbprint != root)
            case IssueIntermediate(root) if group:
                issuer = next(held for held in self.roots if held.thumbprint == root)
                group.authority = self.issue(f"authority of {group.name}", root, WISH.authority_life, issuer)
            case _ if group:
                process = next(each for each in group.processes if each.name == getattr(action, "party", ""))
                self.write(action, group, process)

    def write(self, action: Action, group: Group, process: Process) -> None:
        match action:
            case AddTrust(_, roots):
                process.trust |= set(roots)
            case DropTrust(_, roots):
                process.trust -= set(roots)
            case IssueLeaf(_, issuer):
                above = [*self.roots, *([group.authority] if group.authority else [])]
                signer = next(held for held in above if held.thumbprint == issuer)
                process.leaf = self.issue(f"leaf of {process.name}", signer.root, WISH.leaf_life, signer)

    def check(self) -> None:
        """All who could talk trust each other's leaf, right now."""
        operator = self.groups[0].processes
        for group in self.groups[1:]:
            for one, other in itertools.permutations([*operator, *group.processes], 2):
                self.check_pair(one, other)

    def check_pair(self, one: Process, other: Process) -> None:
        if not one.loaded or not other.loaded or one.is_poisoned or other.is_poisoned:
            return
        leaf = other.loaded.leaf
        assert leaf.root in one.loaded.trust, f"{one.name} does not trust {leaf.thumbprint} of {other.name}"
        assert leaf.not_after > self.now, f"{leaf.thumbprint} of {other.name} has expired"

    def may_act(self, what: str) -> bool:
        """By chance, but in time."""
        is_late = self.now - self.last.get(what, NOW) >= LATEST
        if is_late or self.dice.random() < 0.4:
            self.last[what] = self.now
            return True
        return False

    def tick(self) -> None:
        self.now += self.dice.choice(TICKS)
        steps = [self.step_of(group) for group in (None, *self.groups)]
        steps += [self.step_of(process) for process in self.processes]
        self.dice.shuffle(steps)
        for step in steps:
            next(step, None)
            self.check()

    def step_of(self, what: Group | Process | None) -> Iterator[None]:
        if isinstance(what, Process):
            if self.may_act(f"reload {what.name}"):
                what.reload(self.known)
            if self.may_act(f"report {what.name}"):
                what.tell()
        elif self.may_act(f"reconcile {what.name if what else 'roots'}"):
            self.reconcile(what, self.dice.choice([1, 2, None]))
            if self.now - self.last.get("whole", NOW) >= LATEST:
                self.last["whole"] = self.now
                self.settle_writes()
        yield

    def settle_writes(self) -> None:
        while any(self.reconcile(group) for group in (None, *self.groups)):
            pass

    def settle(self) -> int:
        """Everybody does what he has to; how many rounds until nobody had anything to do."""
        for count in range(20):
            for process in self.processes:
                process.reload(self.known)
                process.tell()
            self.check()
            if not sum(self.reconcile(group) for group in (None, *self.groups)):
                return count
        raise AssertionError("it never comes to rest")

    def run(self, days: int) -> None:
        end = self.now + days * DAY
        while self.now < end:
            self.tick()

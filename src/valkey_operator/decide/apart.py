"""Nodes that do not get through to each other, although both answer us: what is tried again there, and what is said.

Pure. For how long it is so, whoever looks remembers: `SeenCluster.apart_for`.
"""

from __future__ import annotations

from collections.abc import Iterable

from valkey_operator.model.cluster import ClusterNode, ClusterView, Pair, SeenCluster

# So long two nodes are given, with short timers and many looks, to get to know each other.
PATIENCE = 30.0
# After that: what is in their way may go without any event.
LOOK_SELDOM = 10.0
# Between two looks: after a longer time it is counted anew.
UNSEEN = 2 * LOOK_SELDOM
# More than so many are not named one by one.
MOST = 3


def pairs(seen: SeenCluster) -> frozenset[Pair]:
    """The first of two does not know the second one, or has no word from it where it is."""
    return frozenset(
        (node.name, other.name)
        for node, view in seen.answered
        for other, _ in seen.answered
        if node is not other and not _hears(view, other)
    )


def lasting(seen: SeenCluster) -> frozenset[Pair]:
    """Those for which all that could be done was done in vain."""
    if not any(age >= PATIENCE for age in seen.apart_for.values()):
        return frozenset()
    return frozenset(pair for pair in pairs(seen) if seen.apart_for.get(pair, 0.0) >= PATIENCE)


def why(seen: SeenCluster, found: frozenset[Pair]) -> str:
    """The nodes, the port, and what to look at."""
    port = next((port for node, _ in seen.answered if (port := _bus_port(node))), "of the cluster bus")
    return (
        f"{'; '.join(_named(found))}: though both answer the operator, no cluster bus is open between them at port "
        f"{port} in at least one direction: look at NetworkPolicies that select these pods, and at firewalls between "
        "their machines"
    )


def _hears(view: ClusterView, other: ClusterNode) -> bool:
    """A server says "connected" while it still tries to be, and suspects whom it does not hear."""
    member = view.by_id.get(other.id)
    return member is not None and member.may_vote and member.address == other.address


def _bus_port(node: ClusterNode) -> str:
    return node.address.partition("@")[2]


def _named(found: Iterable[Pair]) -> list[str]:
    """Who has most of them first: one that is cut off from all is named once."""
    left = {tuple(sorted(pair)) for pair in found}
    named: list[str] = []
    while left and len(named) < MOST:
        names = sorted({name for pair in left for name in pair})
        most = max(names, key=lambda name: sum(name in pair for pair in left))
        others = sorted(name for pair in left if most in pair for name in pair if name != most)
        shown = others[:MOST] + ([f"{len(others) - MOST} more"] if len(others) > MOST else [])
        named.append(f"{most} and {', '.join(shown)}")
        left = {pair for pair in left if most not in pair}
    return named + ([f"{len(left)} more pairs"] if left else [])

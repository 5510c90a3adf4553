"""Decides when which certificate is replaced: a plan of named actions, or the time to look again.

Each action is one write, and after each of them all who talk with each other still trust each other. Nothing is
replaced that would not gain life by it. No clock and no memory here: the next look starts from what is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from valkey_operator.pki.trust import (
    Circle,
    Held,
    Party,
    choose_signing_root,
    lagging,
    last_call,
    overlap_ends,
    usable,
    wanted_trust,
)

ROOT_PERCENT = 80
# Leaves of one deployment are renewed over this part of their life, not all in one moment.
SPREAD_PERCENT = 5
DEPRECATED_FOR = timedelta(days=7)


@dataclass(frozen=True)
class IssueRoot:
    reason: str


@dataclass(frozen=True)
class ForgetRoot:
    root: str
    reason: str


@dataclass(frozen=True)
class AddTrust:
    """All in one write: a bundle that was tampered with and is repaired by halves would break more."""

    party: str
    roots: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class IssueIntermediate:
    """Signed by this root."""

    root: str
    reason: str


@dataclass(frozen=True)
class IssueLeaf:
    """Signed by this authority, or by the root where there is none in between."""

    party: str
    issuer: str
    reason: str


@dataclass(frozen=True)
class DropTrust:
    party: str
    roots: tuple[str, ...]
    reason: str


Action = IssueRoot | ForgetRoot | AddTrust | IssueIntermediate | IssueLeaf | DropTrust


@dataclass(frozen=True)
class Plan:
    """What to do now, for whom the rest waits, and when time alone will bring more to do."""

    actions: tuple[Action, ...] = ()
    waiting_for: tuple[str, ...] = ()
    look_again: datetime | None = None


@dataclass(frozen=True)
class Wish:
    """How long certificates live and when they are renewed."""

    leaf_life: timedelta = timedelta(days=90)
    rotate_percent: int = 66
    authority_life: timedelta = timedelta(days=365)
    renew_before: timedelta = timedelta(days=30)
    auto_rotate: bool = True


def plan_root(roots: tuple[Held, ...], in_use: frozenset[str], now: datetime) -> Plan:
    """`in_use` are the roots that anybody trusts, in a Secret or in memory, or has anything signed by."""
    can_sign = usable(roots, now)
    if not can_sign:
        problem = next((root.fault for root in reversed(roots) if root.fault), None)
        reason = problem or ("the root has expired" if roots else "there is no root yet")
        return Plan((IssueRoot(reason),))
    newest = can_sign[-1]
    due = newest.after_percent(ROOT_PERCENT)
    actions: list[Action] = [IssueRoot(f"{ROOT_PERCENT} % of the root's life are over")] if now >= due else []
    unused = (root for root in roots if root != newest and root.thumbprint not in in_use)
    actions += (ForgetRoot(root.thumbprint, "nobody trusts it any more") for root in unused)
    return Plan(tuple(actions), look_again=None if now >= due else due)


def plan_circle(circle: Circle, wish: Wish, now: datetime) -> Plan:
    """For the Secrets of one deployment and purpose, or those of the operator."""
    root, trust = choose_signing_root(circle, now), wanted_trust(circle, now)
    # Leaves wait for an authority that is about to be replaced, or they would be issued twice.
    issued = tuple(_authority_steps(circle, root, wish, now)) or tuple(_leaf_steps(circle, root, wish, now))
    steps = (*_additions(circle, trust), *issued, *_removals(circle, trust))
    times = sorted(time for time in _times(circle, wish) if time > now)
    return Plan(steps, lagging(circle, now), times[0] if times else None)


@dataclass(frozen=True)
class Replaced:
    """A leaf that is no longer the one in its Secret."""

    thumbprint: str
    replaced_at: datetime
    not_after: datetime


def choose_forgotten(replaced: Iterable[Replaced], shown: frozenset[str], now: datetime) -> frozenset[str]:
    """Those that need not be listed any longer; one that somebody still shows stays."""
    return frozenset(
        leaf.thumbprint
        for leaf in replaced
        if leaf.thumbprint not in shown and min(leaf.replaced_at, leaf.not_after) + DEPRECATED_FOR <= now
    )


def leaf_due(party: str, leaf: Held, wish: Wish) -> datetime:
    """A wish for a shorter life counts for the leaf that is there too."""
    return leaf.after_percent(wish.rotate_percent + SPREAD_PERCENT * _spread(party), wish.leaf_life)


def authority_due(authority: Held, wish: Wish) -> datetime:
    life = authority.not_after - authority.issued_at
    # Renewing earlier than after two thirds of a short life would mean renewing all the time.
    return authority.not_after - min(wish.renew_before, life / 3)


def _additions(circle: Circle, wanted: frozenset[str]) -> Iterator[Action]:
    for party in circle.own:
        if missing := wanted - party.trust:
            roots = tuple(sorted(missing, key=circle.age))
            yield AddTrust(party.name, roots, "what is signed by it will be shown here")


def _removals(circle: Circle, wanted: frozenset[str]) -> Iterator[Action]:
    for party in circle.own:
        extra = party.trust - wanted
        for roots, reason in (
            (extra & circle.known, "nobody shows anything below it"),
            (extra - circle.known, "it is not one of ours"),
        ):
            if roots:
                yield DropTrust(party.name, tuple(sorted(roots)), reason)


def _authority_steps(circle: Circle, root: Held | None, wish: Wish, now: datetime) -> Iterator[Action]:
    if circle.has_authority and root and (reason := _why_new_authority(circle, root, wish, now)):
        yield IssueIntermediate(root.thumbprint, reason)


def _why_new_authority(circle: Circle, root: Held, wish: Wish, now: datetime) -> str | None:
    held = circle.authority
    if held is None:
        return "there is none yet"
    if held.fault or held.not_after <= now:
        return held.fault or "it has expired"
    if circle.age(held.root) < circle.age(root.thumbprint):
        return "all trust a newer root"
    is_due = wish.auto_rotate and now >= authority_due(held, wish)
    if is_due and _would_change(held, now + wish.authority_life, root):
        return f"it ends on {held.not_after:%Y-%m-%d}"
    return None


def _leaf_steps(circle: Circle, root: Held | None, wish: Wish, now: datetime) -> Iterator[Action]:
    issuer = _usable_authority(circle, now) if circle.has_authority else root
    for party in circle.own:
        if issuer and (reason := _why_new_leaf(circle, party, issuer, wish, now)):
            yield IssueLeaf(party.name, issuer.thumbprint, reason)


def _usable_authority(circle: Circle, now: datetime) -> Held | None:
    return next(iter(usable([circle.authority] if circle.authority else [], now)), None)


def _why_new_leaf(circle: Circle, party: Party, issuer: Held, wish: Wish, now: datetime) -> str | None:
    leaf = party.leaf
    if leaf is None:
        return "there is none yet"
    if leaf.fault or leaf.not_after <= now:
        return leaf.fault or "it has expired"
    if circle.age(leaf.root) < circle.age(issuer.root):
        return "all trust a newer root"
    is_due = now >= leaf_due(party.name, leaf, wish)
    if is_due and _would_change(leaf, now + wish.leaf_life, issuer):
        return f"it ends on {leaf.not_after:%Y-%m-%d %H:%M} UTC"
    return None


def _would_change(held: Held, wished_end: datetime, issuer: Held) -> bool:
    """Near the end of an issuer nothing lives longer than it; issuing again and again would gain nothing."""
    return min(wished_end, issuer.not_after) != held.not_after


def _times(circle: Circle, wish: Wish) -> Iterator[datetime]:
    """Every moment at which time alone may change the answer."""
    for root in circle.roots:
        yield from (last_call(root), root.not_after)
    if len(circle.roots) > 1 and (ends := overlap_ends(circle)):
        yield ends
    if circle.authority:
        yield from (authority_due(circle.authority, wish), circle.authority.not_after)
    for party in circle.own:
        if party.leaf:
            yield from (leaf_due(party.name, party.leaf, wish), party.leaf.not_after)


def _spread(name: str) -> float:
    """From 0 to 1, the same for one name each time."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32

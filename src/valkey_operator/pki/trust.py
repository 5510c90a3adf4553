"""Who must trust what: which root may sign now, and which roots belong in everybody's trust bundle.

A root signs only once all who talk with each other trust it, and leaves the bundles only once none of them can show
anything below it. Everything is read from what is there, so a process that was cut anywhere goes on correctly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from valkey_operator.pki.authority import BACKDATED

# Everybody may have switched within seconds, but clients that we cannot ask should have a chance too.
OVERLAP = timedelta(hours=1)
# The part of a root's life after which we no longer wait for those who do not say that they trust the next one.
LAST_CALL_PERCENT = 90


@dataclass(frozen=True)
class Held:
    """A certificate as it lies in its Secret: root, authority of a deployment, or leaf."""

    thumbprint: str
    # The thumbprint of the root it leads to; its own for a root.
    root: str
    not_before: datetime
    not_after: datetime
    # Why it cannot be used, from `inspection`; for a root or authority also that its key is lost.
    fault: str | None = None

    @property
    def issued_at(self) -> datetime:
        return self.not_before + BACKDATED

    def after_percent(self, percent: float, longest: timedelta = timedelta.max) -> datetime:
        return self.issued_at + min(self.not_after - self.issued_at, longest) * (percent / 100)


@dataclass(frozen=True)
class Report:
    """What a running process says it has loaded, by thumbprint."""

    leaf: str
    trust: frozenset[str]


@dataclass(frozen=True)
class Party:
    """A process with certificates: what lies in its Secret, whether it runs, and what it reported since it started."""

    name: str
    leaf: Held | None = None
    trust: frozenset[str] = frozenset()
    is_running: bool = False
    report: Report | None = None

    def may_show(self, root: str) -> bool:
        """Whether it shows, or would show after a restart, a certificate below this root."""
        if self.leaf and self.leaf.root == root:
            return True
        # It may still show one that has been replaced, and nobody wrote down where that came from.
        reported = self.report.leaf if self.report else None
        return self.is_running and (self.leaf is None or reported != self.leaf.thumbprint)


@dataclass(frozen=True)
class Circle:
    """Those who talk with each other, as seen by whoever writes the Secrets of `own`.

    Of a deployment: its nodes, and the operator among `others`. Of the operator: itself, and all nodes. Clients that
    cannot report are one more among `others`, who trusts what has been published for long enough.
    """

    # Oldest first, with those whose key is lost: what is not among them is taken out of bundles at once.
    roots: tuple[Held, ...]
    own: tuple[Party, ...]
    others: tuple[Party, ...] = ()
    # The authority of the deployment. The operator has none and is signed by the root itself.
    authority: Held | None = None
    has_authority: bool = True

    @property
    def parties(self) -> tuple[Party, ...]:
        return (*self.own, *self.others)

    @property
    def known(self) -> frozenset[str]:
        return frozenset(root.thumbprint for root in self.roots)

    def trusted_by(self, party: Party) -> frozenset[str]:
        """The roots it trusts now and after it has reloaded; none for one that does not run, or is broken."""
        lying = party.trust & self.known
        if not party.is_running:
            return frozenset()
        if party.report is None:
            # It may have started just before the newest came into its Secret.
            return frozenset(sorted(lying, key=self.age)[:-1]) or lying
        loaded = party.report.trust & self.known
        # A Secret without any root of ours was tampered with. It is repaired, and until then only memory counts.
        return loaded & lying if lying else loaded

    def age(self, root: str) -> int:
        """Higher is newer, and what is unknown is older than all."""
        return next((place for place, held in enumerate(self.roots) if held.thumbprint == root), -1)


def usable(roots: Iterable[Held], now: datetime) -> list[Held]:
    return [root for root in roots if root.fault is None and root.not_after > now]


def choose_signing_root(circle: Circle, now: datetime) -> Held | None:
    """The newest that all who run trust; None to wait until they do."""
    can_sign = usable(circle.roots, now)
    if not can_sign:
        return None
    newest = can_sign[-1]
    shared = _newest_shared(circle, now)
    if shared is None or circle.age(shared.root) >= circle.age(newest.root) or now >= last_call(shared):
        return newest
    return shared if shared in can_sign else None


def last_call(root: Held) -> datetime:
    return root.after_percent(LAST_CALL_PERCENT)


def lagging(circle: Circle, now: datetime) -> tuple[str, ...]:
    """The names of those for whom the newest root waits."""
    newest = usable(circle.roots, now)[-1:]
    return tuple(
        party.name
        for party in circle.parties
        for root in newest
        if party.is_running and root.thumbprint not in circle.trusted_by(party)
    )


def wanted_trust(circle: Circle, now: datetime) -> frozenset[str]:
    """The roots that belong in every bundle of this circle."""
    signing = choose_signing_root(circle, now)
    return frozenset(root.thumbprint for root in circle.roots if _is_kept(root, circle, signing, now))


def overlap_ends(circle: Circle) -> datetime | None:
    """When older roots may go, as far as time is concerned; None while the switch has not begun."""
    begun = [circle.authority] if circle.has_authority else [party.leaf for party in circle.own]
    times = [held.issued_at for held in begun if held]
    return max(times) + OVERLAP if times else None


def _newest_shared(circle: Circle, now: datetime) -> Held | None:
    """Those who trust no root of ours are broken already, and hold up nobody."""
    views = [trusted for party in circle.parties if (trusted := circle.trusted_by(party))]
    shared = [
        root
        for root in circle.roots
        if root.not_after > now and all(root.thumbprint in trusted for trusted in views)
    ]
    return shared[-1] if shared else None


def _is_kept(root: Held, circle: Circle, signing: Held | None, now: datetime) -> bool:
    if root.not_after <= now:
        return False
    if signing is None or root == signing:
        return True
    if root.fault is None and circle.age(root.root) > circle.age(signing.root):
        return True  # the next one, on its way to everybody
    if any(party.may_show(root.thumbprint) for party in circle.parties):
        return True
    ends = overlap_ends(circle)
    return bool(circle.parties) and (ends is None or now < ends)

"""What lies in the Secrets of roots, authorities and leaves, and what is to be written into them. Pure.

The Secret of the root holds the newest root under `tls.crt` and `tls.key`, and those before it, for as long as anybody
needs them, under their thumbprints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from valkey_operator.pki.authority import Pair, issue_root
from valkey_operator.pki.inspection import SeenCertificate, Wanted, fault, see_all
from valkey_operator.pki.pem import NotPem, read_chain, write_chain
from valkey_operator.pki.rotation import Action, AddTrust, DropTrust, ForgetRoot, IssueLeaf, IssueRoot
from valkey_operator.pki.trust import Held

CERTIFICATE, KEY, TRUST = "tls.crt", "tls.key", "ca.crt"
ROOT_NAME = "valkey-root-ca"
Content = Mapping[str, bytes]


@dataclass(frozen=True)
class Root:
    """A root, with its certificate in PEM, and the key identifier that its children name."""

    held: Held
    certificate: bytes = field(repr=False)
    key_id: str

    @property
    def thumbprint(self) -> str:
        return self.held.thumbprint


@dataclass(frozen=True)
class Contained:
    """What lies in the Secret of a leaf or an authority, without the key."""

    held: Held | None = None
    trust: frozenset[str] = frozenset()


def contained(content: Content, wanted: Wanted, roots: Sequence[Root]) -> Contained:
    trust = frozenset(each.thumbprint for each in _chain(content, TRUST))
    chain = _chain(content, CERTIFICATE)
    if not chain:
        return Contained(None, trust)
    signer = next((root.thumbprint for root in roots if root.key_id == chain[-1].issuer_key_id), "")
    return Contained(_held(chain[0], signer, fault(content, wanted)), trust)


def bundle(roots: Iterable[Root]) -> bytes:
    return b"".join(root.certificate for root in roots)


def roots_in(content: Content, now: datetime) -> tuple[Root, ...]:
    """Oldest first, the one in use last; also those whose key is lost or does not fit."""
    older = [_root(content, part, now) for part in content if part.endswith(".crt") and part != CERTIFICATE]
    found = sorted(filter(None, older), key=lambda root: root.held.not_before)
    newest = _root(content, CERTIFICATE, now)
    return (*(root for root in found if not newest or root.thumbprint != newest.thumbprint), *_one(newest))


def lost_roots(trust: Content, thumbprints: Collection[str]) -> tuple[Root, ...]:
    """Those that are no longer in their own Secret, found in what somebody trusts; oldest first."""
    links = ({CERTIFICATE: link} for link in _certificates(trust.get(TRUST, b"")))
    found = [root for link in links if (root := _root(link, CERTIFICATE, None))]
    missing = [root for root in found if root.thumbprint in thumbprints]
    return tuple(sorted(missing, key=lambda root: root.held.not_before))


def roots_rewritten(
    content: Content, lost: Iterable[Root], actions: Iterable[Action], now: datetime, life: timedelta
) -> dict[str, bytes]:
    """The Secret of the root after these actions; a root that was lost is put back, without its key."""
    after = dict(content) | {f"{_short(root.thumbprint)}.crt": root.certificate for root in lost}
    for action in actions:
        match action:
            case ForgetRoot(thumbprint):
                for end in ("crt", "key"):
                    after.pop(f"{_short(thumbprint)}.{end}", None)
            case IssueRoot():
                after |= _set_aside(after)
                pair = issue_root(ROOT_NAME, now, life)
                after |= {CERTIFICATE: pair.certificate, KEY: pair.key}
    return after


def signer(content: Content, thumbprint: str) -> Pair:
    """The root with its key."""
    for part in content:
        if part.endswith(".crt") and (chain := _chain(content, part)) and chain[0].thumbprint == thumbprint:
            return Pair(content[part], content[_key_part(part)])
    raise LookupError(f"the root {_short(thumbprint)} is not in its Secret any more")


def leaf_rewritten(
    content: Content, actions: Iterable[Action], roots: Sequence[Root], leaf: Pair | None
) -> dict[str, bytes]:
    """The Secret of a leaf after these actions, which are all for it: written at once, it is never half done.

    `leaf` is the new one, where one is to be issued.
    """
    trust = {each.thumbprint for each in _chain(content, TRUST)}
    after = dict(content)
    for action in actions:
        match action:
            case AddTrust(_, added):
                trust |= set(added)
            case DropTrust(_, dropped):
                trust -= set(dropped)
            case IssueLeaf() if leaf is not None:
                after |= {CERTIFICATE: leaf.certificate, KEY: leaf.key}
    return after | {TRUST: bundle(root for root in roots if root.thumbprint in trust)}


def _set_aside(content: Content) -> dict[str, bytes]:
    """The root in use, under its thumbprint; one that cannot be read is of no use to anybody."""
    chain = _chain(content, CERTIFICATE)
    if not chain:
        return {}
    name = _short(chain[0].thumbprint)
    aside = {f"{name}.crt": content[CERTIFICATE]}
    return aside | ({f"{name}.key": content[KEY]} if content.get(KEY) else {})


def _root(content: Content, part: str, now: datetime | None) -> Root | None:
    chain = _chain(content, part)
    if not chain:
        return None
    wanted = Wanted(
        now or chain[0].not_before, trust=content[part], is_authority=True, certificate_part=part,
        key_part=_key_part(part),
    )  # fmt: skip
    seen = chain[0]
    # What follows the root in its part leads elsewhere, and is not what we trust.
    return Root(
        _held(seen, seen.thumbprint, fault(content, wanted)), _certificates(content[part])[0], seen.key_id
    )


def _held(seen: SeenCertificate, root: str, problem: str | None) -> Held:
    return Held(seen.thumbprint, root, seen.not_before, seen.not_after, problem)


def _chain(content: Content, part: str) -> tuple[SeenCertificate, ...]:
    """None when it cannot be read, which `fault` tells."""
    try:
        return see_all(content.get(part, b""))
    except NotPem:
        return ()


def _certificates(pem: bytes) -> list[bytes]:
    try:
        return [write_chain([link]) for link in read_chain(pem)]
    except NotPem:
        return []


def _one(root: Root | None) -> Iterator[Root]:
    if root:
        yield root


def _key_part(part: str) -> str:
    return part.removesuffix(".crt") + ".key"


def _short(thumbprint: str) -> str:
    return thumbprint[:16]

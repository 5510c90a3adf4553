"""Who is who between operator and sidecars: SPIFFE identities, compared exactly, never by prefix or pattern.

An identity also has a subject, which the certificate of its authority limits: whoever holds the key of one
deployment's authority cannot speak for another deployment, nor for the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

KINDS = frozenset({"ValkeyCluster", "Valkey", "ValkeyPool", "Sentinel"})
TRUST_DOMAIN = "valkey.io"

# The longest that the rules for names below can add up to, and a bound before any expression runs.
LONGEST = 512
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(_LABEL)
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST_DOMAIN = 253
_LIMITED = frozenset({"organizationName", "organizationalUnitName"})


class NotAnIdentity(ValueError):
    """The text says nobody. Its sentence says why."""


@dataclass(frozen=True)
class Scope:
    """All nodes of one deployment: what one authority may speak for."""

    namespace: str
    kind: str
    deployment: str
    trust_domain: str = TRUST_DOMAIN

    def __post_init__(self) -> None:
        _check_domain(self.trust_domain)
        _check_name("namespace", self.namespace)
        _check_name("deployment", self.deployment)
        if self.kind not in KINDS:
            raise NotAnIdentity(
                f"{_quoted(self.kind)} is no kind of deployment: {', '.join(sorted(KINDS))} are"
            )

    @property
    def subject(self) -> tuple[tuple[str, str], ...]:
        """Attributes and values that begin the subject of every certificate of this scope."""
        return _subject(self.trust_domain, self.namespace, self.kind, self.deployment)

    def node(self, name: str) -> NodeIdentity:
        return NodeIdentity(self.namespace, self.kind, self.deployment, name, self.trust_domain)


@dataclass(frozen=True)
class NodeIdentity:
    """The sidecar of one node."""

    namespace: str
    kind: str
    deployment: str
    node: str
    trust_domain: str = TRUST_DOMAIN

    def __post_init__(self) -> None:
        _check_name("node", self.node)
        self.scope  # noqa: B018 - it checks the rest

    def __str__(self) -> str:
        scope = f"ns/{self.namespace}/{self.kind}/{self.deployment}"
        return f"spiffe://{self.trust_domain}/{scope}/node/{self.node}"

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace, self.kind, self.deployment, self.trust_domain)

    @property
    def subject(self) -> tuple[tuple[str, str], ...]:
        return self.scope.subject

    def is_sibling_of(self, other: Identity) -> bool:
        """Another node of the same deployment."""
        return isinstance(other, NodeIdentity) and self.scope == other.scope and self.node != other.node


@dataclass(frozen=True)
class OperatorIdentity:
    """Every replica of the operator in one namespace."""

    namespace: str
    trust_domain: str = TRUST_DOMAIN

    def __post_init__(self) -> None:
        _check_domain(self.trust_domain)
        _check_name("namespace", self.namespace)

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}/ns/{self.namespace}/operator"

    @property
    def subject(self) -> tuple[tuple[str, str], ...]:
        return _subject(self.trust_domain, self.namespace, "operator")


Identity = NodeIdentity | OperatorIdentity


def parse(text: str) -> Identity:
    """The one identity that is written exactly like this; anything else is refused."""
    if len(text) > LONGEST:
        raise NotAnIdentity("it is longer than any identity")
    head, _, rest = text.partition("://")
    if head != "spiffe":
        raise NotAnIdentity(f"{_quoted(text)} does not begin with spiffe://")
    match rest.split("/"):
        case [domain, "ns", namespace, "operator"]:
            return OperatorIdentity(namespace, domain)
        case [domain, "ns", namespace, kind, deployment, "node", node]:
            return NodeIdentity(namespace, kind, deployment, node, domain)
    raise NotAnIdentity(f"{_quoted(text)} names neither a node nor an operator")


def from_names(names: Iterable[str]) -> Identity:
    """From the URI names of a certificate, of which there must be exactly one."""
    found = tuple(names)
    if len(found) != 1:
        count = "no URI name" if not found else f"{len(found)} URI names"
        raise NotAnIdentity(f"the certificate has {count}, where exactly one says who it is")
    return parse(found[0])


def from_certificate(names: Iterable[str], subject: Iterable[tuple[str, str]]) -> Identity:
    """Also asks whether the subject, which the issuer is held to, is that of the identity."""
    identity = from_names(names)
    limited = tuple(pair for pair in subject if pair[0] in _LIMITED)
    if limited != identity.subject:
        raise NotAnIdentity(f"the subject of the certificate is not that of {identity}")
    return identity


def _subject(domain: str, *units: str) -> tuple[tuple[str, str], ...]:
    return (("organizationName", domain), *(("organizationalUnitName", unit) for unit in units))


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise NotAnIdentity(f"{_quoted(name)} is no name of a {what}")


def _check_domain(domain: str) -> None:
    if len(domain) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(domain):
        raise NotAnIdentity(f"{_quoted(domain)} is no trust domain")


def _quoted(text: str) -> str:
    """Short and without control characters: a peer chose this text, and it will be in a log."""
    return ascii(text[:120])

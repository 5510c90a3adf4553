"""Certificates of the operator's own kind for tests, and some that no operator would ever issue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from valkey_operator.contract.identity import Identity, OperatorIdentity, Scope
from valkey_operator.pki.authority import (
    BACKDATED,
    Pair,
    Purpose,
    issue_intermediate,
    issue_mtls_leaf,
    issue_root,
    issue_tls_leaf,
)
from valkey_operator.pki.pem import read_chain, read_key, write_chain
from valkey_operator.pki.trust import Held

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SCOPE = Scope("prod", "ValkeyCluster", "cache")
NODE = SCOPE.node("cache-0-0")
OPERATOR = OperatorIdentity("valkey-system")
BOTH_ENDS = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_OIDS = {
    "organizationName": NameOID.ORGANIZATION_NAME,
    "organizationalUnitName": NameOID.ORGANIZATIONAL_UNIT_NAME,
}
AnyKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Issuing:
    """A root with an authority below it for each deployment."""

    now: datetime = NOW
    life: timedelta = 3650 * DAY

    @cached_property
    def root(self) -> Pair:
        return issue_root("valkey-root-ca", self.now, self.life)

    def authority(self, scope: Scope = SCOPE, purpose: Purpose = "mtls", life: timedelta = 365 * DAY) -> Pair:
        return issue_intermediate(self.root, scope, purpose, self.now, life)

    def node(self, name: str = NODE.node, scope: Scope = SCOPE, life: timedelta = 90 * DAY) -> Pair:
        return issue_mtls_leaf(self.authority(scope), scope.node(name), self.now, life)

    def operator(self, life: timedelta = 90 * DAY) -> Pair:
        return issue_mtls_leaf(self.root, OPERATOR, self.now, life)

    def server(self, *dns_names: str, addresses: tuple[str, ...] = ()) -> Pair:
        authority = self.authority(purpose="tls")
        return issue_tls_leaf(authority, "cache", dns_names, addresses, self.now, 90 * DAY)


def secret(pair: Pair, *roots: Pair) -> dict[str, bytes]:
    return {
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        "ca.crt": b"".join(root.certificate for root in roots),
    }


def forged(
    issuer: Pair,
    identity: Identity,
    *uris: str,
    now: datetime = NOW,
    ends: tuple[x509.ObjectIdentifier, ...] = BOTH_ENDS,
    key: AnyKey | None = None,
    is_authority: bool = False,
) -> Pair:
    """What somebody who holds an authority's key can sign: the subject of one identity, any other names."""
    held = key or ec.generate_private_key(ec.SECP256R1())
    chain = read_chain(issuer.certificate)
    subject = x509.Name([x509.NameAttribute(_OIDS[kind], value) for kind, value in identity.subject])
    certificate = (
        x509.CertificateBuilder(chain[0].subject, subject, held.public_key(), x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + 90 * DAY)
        .add_extension(x509.BasicConstraints(is_authority, None), True)
        .add_extension(x509.ExtendedKeyUsage(ends), False)
        .add_extension(x509.SubjectAlternativeName(map(x509.UniformResourceIdentifier, uris)), False)
        .sign(read_key(issuer.key), hashes.SHA256())
    )
    above = [link for link in chain if link.issuer != link.subject]
    pem = held.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(write_chain([certificate, *above]), pem)


def held(name: str, root: str = "", issued: datetime = NOW, life: timedelta = 90 * DAY) -> Held:
    """A certificate as rotation sees it."""
    return Held(name, root or name, issued - BACKDATED, issued + life)

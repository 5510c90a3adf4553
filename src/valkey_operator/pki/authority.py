"""Issues certificates: a root, one authority per deployment and purpose, and the leaves that processes show.

It signs what it is told, and no longer than the issuer lives. Whether to sign is decided in `rotation`. No key
enters a repr, a log or an error.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from valkey_operator.contract.identity import Identity, Scope
from valkey_operator.pki.pem import Key, NotPem, read_chain, read_key, write_chain

Purpose = Literal["mtls", "tls"]

# For clocks that differ. More would make a new certificate look old.
BACKDATED = timedelta(minutes=1)
# A host that cannot exist: an authority that may name only this one can name no identity.
NO_IDENTITY = "no-identity.invalid"
_LONGEST_NAME = 64
_ATTRIBUTES = {
    "organizationName": NameOID.ORGANIZATION_NAME,
    "organizationalUnitName": NameOID.ORGANIZATIONAL_UNIT_NAME,
}


class CannotIssue(Exception):
    """The issuer cannot sign this. Its sentence says why."""


@dataclass(frozen=True)
class Pair:
    """A certificate with those that lead to its root, the root itself left out, and its key; all in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class _Wish:
    subject: x509.Name
    now: datetime
    life: timedelta
    # None for a leaf, else how many authorities may follow.
    depth: int | None = None
    names: tuple[x509.GeneralName, ...] = ()
    limits: tuple[x509.GeneralName, ...] = ()


@dataclass(frozen=True)
class _Issuer:
    chain: tuple[x509.Certificate, ...]
    key: Key = field(repr=False)

    @property
    def certificate(self) -> x509.Certificate:
        return self.chain[0]

    @property
    def to_send(self) -> tuple[x509.Certificate, ...]:
        """The peer has the root, or does not trust it."""
        return tuple(link for link in self.chain if link.issuer != link.subject)


def issue_root(name: str, now: datetime, life: timedelta) -> Pair:
    return _issue(_Wish(_named(name), now, life, depth=1), issuer=None)


def issue_intermediate(
    root: Pair,
    scope: Scope,
    purpose: Purpose,
    now: datetime,
    life: timedelta,
    dns_subtrees: Sequence[str] = (),
) -> Pair:
    """The authority of one deployment for one purpose; its key opens nothing beyond that.

    One for `mtls` signs only under the subject of its scope, one for `tls` names no identity at all and, where
    subtrees are given, only DNS names below them.
    """
    if purpose == "mtls":
        limits: tuple[x509.GeneralName, ...] = (x509.DirectoryName(_name(scope.subject)),)
    else:
        limits = (x509.UniformResourceIdentifier(NO_IDENTITY), *map(x509.DNSName, dns_subtrees))
    label = f"{scope.deployment} {purpose}"
    subject = _name((*scope.subject, ("organizationalUnitName", "authority")), label)
    return _issue(_Wish(subject, now, life, depth=0, limits=limits), _issuer(root))


def issue_mtls_leaf(
    issuer: Pair,
    identity: Identity,
    now: datetime,
    life: timedelta,
    dns_names: Sequence[str] = (),
    addresses: Sequence[str] = (),
) -> Pair:
    """For operator or sidecar. Who it is says the one URI name; the rest is for foreign clients."""
    names = (x509.UniformResourceIdentifier(str(identity)), *_hosts(dns_names, addresses))
    label = getattr(identity, "node", "operator")
    return _issue(_Wish(_name(identity.subject, label), now, life, names=names), _issuer(issuer))


def issue_tls_leaf(
    issuer: Pair,
    name: str,
    dns_names: Sequence[str],
    addresses: Sequence[str],
    now: datetime,
    life: timedelta,
) -> Pair:
    """For servers, which show it to their clients, and to each other as clients."""
    names = _hosts(dns_names, addresses)
    if not names:
        raise CannotIssue("a certificate for clients needs a DNS name or an address")
    return _issue(_Wish(_named(name), now, life, names=names), _issuer(issuer))


def _issue(wish: _Wish, issuer: _Issuer | None) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    signer = issuer.key if issuer else key
    certificate = _builder(wish, key.public_key(), issuer, signer).sign(signer, _digest(signer))
    chain = (certificate, *(issuer.to_send if issuer else ()))
    return Pair(write_chain(chain), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _builder(
    wish: _Wish, key: ec.EllipticCurvePublicKey, issuer: _Issuer | None, signer: Key
) -> x509.CertificateBuilder:
    begin, end = _dates(wish, issuer)
    builder = (
        x509.CertificateBuilder(subject_name=wish.subject, public_key=key)
        .issuer_name(issuer.certificate.subject if issuer else wish.subject)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    for extension, is_critical in _extensions(wish, key, signer):
        builder = builder.add_extension(extension, is_critical)
    return builder


def _extensions(
    wish: _Wish, key: ec.EllipticCurvePublicKey, signer: Key
) -> list[tuple[x509.ExtensionType, bool]]:
    is_authority = wish.depth is not None
    found: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(is_authority, wish.depth), True),
        (_usage(is_authority), True),
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    if not is_authority:
        both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        found += [
            (x509.ExtendedKeyUsage(both_ends), False),
            (x509.SubjectAlternativeName(wish.names), False),
        ]
    if wish.limits:
        # OpenSSL, which both our ends use, enforces it either way. Critical, it would make clients refuse all our
        # certificates whose library knows only some kinds of limits.
        found.append((x509.NameConstraints(list(wish.limits), None), False))
    return found


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _dates(wish: _Wish, issuer: _Issuer | None) -> tuple[datetime, datetime]:
    now = wish.now.replace(microsecond=0)
    end = now + wish.life
    if issuer:
        last = issuer.certificate.not_valid_after_utc
        if last <= now:
            raise CannotIssue(
                f"the issuer {_label(issuer.certificate)} ended on {last:%Y-%m-%d %H:%M:%S} UTC"
            )
        end = min(end, last)
    return now - BACKDATED, end


def _issuer(pair: Pair) -> _Issuer:
    try:
        issuer = _Issuer(read_chain(pair.certificate), read_key(pair.key))
    except NotPem as problem:
        raise CannotIssue(f"the issuer cannot be read: {problem}") from None
    certificate = issuer.certificate
    if certificate.public_key() != issuer.key.public_key():
        raise CannotIssue(f"the issuer's key does not belong to its certificate {_label(certificate)}")
    return issuer


def _digest(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _hosts(dns_names: Sequence[str], addresses: Sequence[str]) -> tuple[x509.GeneralName, ...]:
    found: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    return (*found, *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses))


def _name(limited: Sequence[tuple[str, str]], label: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(_ATTRIBUTES[kind], value) for kind, value in limited]
    return x509.Name([*attributes, *(_named(label) if label else ())])


def _named(label: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, label[:_LONGEST_NAME])])


def _label(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()

"""What a certificate says, and what is wrong with a Secret that holds one, as sentences for people.

Each check is a small function that returns a sentence or nothing; `CHECKS` is their order, and a later one relies
on the earlier ones. No sentence shows a key or any other content of a Secret but names and dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from valkey_operator.contract.identity import Identity, NotAnIdentity, from_certificate
from valkey_operator.pki.pem import Key, NotPem, read_chain, read_key

SMALLEST_EC = 256
SMALLEST_RSA = 2048
T = TypeVar("T", bound=x509.ExtensionType)
_ATTRIBUTES = {
    NameOID.ORGANIZATION_NAME: "organizationName",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "organizationalUnitName",
}


@dataclass(frozen=True)
class SeenCertificate:
    """What a certificate says. Thumbprint is the SHA-256 of it, as status and sidecars write it."""

    thumbprint: str
    serial: str
    subject: str
    not_before: datetime
    not_after: datetime
    uris: tuple[str, ...]
    dns_names: frozenset[str]
    addresses: frozenset[str]
    key_id: str
    issuer_key_id: str
    is_authority: bool


def see(pem: bytes) -> SeenCertificate:
    """The first certificate. Raises NotPem."""
    return _see(read_chain(pem)[0])


def see_all(pem: bytes) -> tuple[SeenCertificate, ...]:
    """Every certificate of a chain or of a trust bundle. Raises NotPem."""
    return tuple(_see(certificate) for certificate in read_chain(pem))


@dataclass(frozen=True)
class Wanted:
    """What a Secret should hold, and where in it."""

    now: datetime
    # Authorities to be trusted, in PEM; None means those in the Secret itself.
    trust: bytes | None = None
    identity: Identity | None = None
    dns_names: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    is_authority: bool = False
    certificate_part: str = "tls.crt"
    key_part: str = "tls.key"
    trust_part: str = "ca.crt"

    @property
    def parts(self) -> tuple[str, ...]:
        pair = (self.certificate_part, self.key_part)
        return pair if self.is_authority else (*pair, self.trust_part)


@dataclass(frozen=True)
class _Found:
    secret: Mapping[str, bytes] = field(repr=False)
    wanted: Wanted

    @cached_property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return read_chain(self.secret[self.wanted.certificate_part])

    @cached_property
    def leaf(self) -> x509.Certificate:
        return self.chain[0]

    @cached_property
    def key(self) -> Key:
        return read_key(self.secret[self.wanted.key_part])

    @cached_property
    def trust(self) -> tuple[x509.Certificate, ...]:
        return read_chain(self.wanted.trust or self.secret[self.wanted.trust_part])


def fault(secret: Mapping[str, bytes], wanted: Wanted) -> str | None:
    """The first thing that is wrong, or None when all is well."""
    found = _Found(secret, wanted)
    return next((sentence for check in CHECKS if (sentence := check(found))), None)


def part_is_missing(found: _Found) -> str | None:
    missing = [part for part in found.wanted.parts if not found.secret.get(part)]
    listed = " and ".join(filter(None, [", ".join(missing[:-1]), *missing[-1:]]))
    return f"the Secret lacks {listed}" if missing else None


def part_is_unreadable(found: _Found) -> str | None:
    wanted = found.wanted
    readers: dict[str, Callable[[bytes], object]] = dict.fromkeys(wanted.parts, read_chain)
    readers[wanted.key_part] = read_key
    for part, reader in readers.items():
        try:
            reader(found.secret[part])
        except NotPem as problem:
            return f"{part} cannot be read: {problem}"
    return None


def key_is_of_another_certificate(found: _Found) -> str | None:
    if found.leaf.public_key() == found.key.public_key():
        return None
    return f"{found.wanted.key_part} does not belong to {found.wanted.certificate_part}"


def key_is_weak(found: _Found) -> str | None:
    for certificate in found.chain:
        key = certificate.public_key()
        if isinstance(key, rsa.RSAPublicKey) and key.key_size < SMALLEST_RSA:
            return f"{_named(certificate)} has an RSA key of {key.key_size} bits, {SMALLEST_RSA} are needed"
        if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size < SMALLEST_EC:
            return f"{_named(certificate)} has a key on {key.curve.name}, {SMALLEST_EC} bits are needed"
    return None


def is_expired(found: _Found) -> str | None:
    for certificate in found.chain:
        if certificate.not_valid_after_utc <= found.wanted.now:
            return f"{_named(certificate)} expired on {_date(certificate.not_valid_after_utc)}"
    return None


def is_not_valid_yet(found: _Found) -> str | None:
    for certificate in found.chain:
        if certificate.not_valid_before_utc > found.wanted.now:
            return f"{_named(certificate)} is valid only from {_date(certificate.not_valid_before_utc)}"
    return None


def is_of_the_wrong_sort(found: _Found) -> str | None:
    if _is_authority(found.leaf) == found.wanted.is_authority:
        return None
    if found.wanted.is_authority:
        return f"{_named(found.leaf)} may not sign others, and an authority is needed"
    return f"{_named(found.leaf)} is an authority, and no process may show one"


def serves_one_end_only(found: _Found) -> str | None:
    """Servers are clients of each other, so a certificate that says it is for servers only breaks replication."""
    allowed = _extension(found.leaf, x509.ExtendedKeyUsage)
    if found.wanted.is_authority or allowed is None or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in allowed:
        return None
    ends = {ExtendedKeyUsageOID.SERVER_AUTH: "servers", ExtendedKeyUsageOID.CLIENT_AUTH: "clients"}
    missing = [end for oid, end in ends.items() if oid not in allowed]
    return f"{_named(found.leaf)} is not made for {' and '.join(missing)}" if missing else None


def is_signed_by_a_stranger(found: _Found) -> str | None:
    if _is_trusted(found):
        return None
    return f"{_named(found.leaf)} is not signed by a trusted authority"


def names_somebody_else(found: _Found) -> str | None:
    wanted = found.wanted.identity
    if wanted is None:
        return None
    try:
        says = from_certificate(_see(found.leaf).uris, _subject(found.leaf))
    except NotAnIdentity as problem:
        return f"{found.wanted.certificate_part} is not for {wanted}: {problem}"
    return None if says == wanted else f"{found.wanted.certificate_part} is for {says}, not for {wanted}"


def lacks_a_name(found: _Found) -> str | None:
    seen = _see(found.leaf)
    missing = (found.wanted.dns_names - seen.dns_names) | (found.wanted.addresses - seen.addresses)
    return f"{found.wanted.certificate_part} does not name {', '.join(sorted(missing))}" if missing else None


CHECKS: tuple[Callable[[_Found], str | None], ...] = (
    part_is_missing,
    part_is_unreadable,
    key_is_of_another_certificate,
    key_is_weak,
    is_expired,
    is_not_valid_yet,
    is_of_the_wrong_sort,
    serves_one_end_only,
    is_signed_by_a_stranger,
    names_somebody_else,
    lacks_a_name,
)


def _is_trusted(found: _Found) -> bool:
    if found.leaf in found.trust:
        return True
    # Who issues certificates by hand leaves out much that the public web demands; that an issuer may sign, he may not.
    issuers = verification.ExtensionPolicy.permit_all().require_present(
        x509.BasicConstraints, verification.Criticality.AGNOSTIC, _refuse_unless_authority
    )
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store(list(found.trust)))
        .time(found.wanted.now)
        .extension_policies(ca_policy=issuers, ee_policy=verification.ExtensionPolicy.permit_all())
        .build_client_verifier()
    )
    try:
        verifier.verify(found.leaf, list(found.chain[1:]))
    except verification.VerificationError:
        return False
    return True


def _refuse_unless_authority(
    _policy: verification.Policy, _certificate: x509.Certificate, constraints: x509.BasicConstraints
) -> None:
    if not constraints.ca:
        raise ValueError("it may not sign others")


def _see(certificate: x509.Certificate) -> SeenCertificate:
    names = _extension(certificate, x509.SubjectAlternativeName) or x509.SubjectAlternativeName([])
    own = _extension(certificate, x509.SubjectKeyIdentifier)
    issuer = _extension(certificate, x509.AuthorityKeyIdentifier)
    return SeenCertificate(
        thumbprint=certificate.fingerprint(hashes.SHA256()).hex(),
        serial=f"{certificate.serial_number:x}",
        subject=_named(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        dns_names=frozenset(names.get_values_for_type(x509.DNSName)),
        addresses=frozenset(map(str, names.get_values_for_type(x509.IPAddress))),
        key_id=own.digest.hex() if own else "",
        issuer_key_id=(issuer.key_identifier or b"").hex() if issuer else "",
        is_authority=_is_authority(certificate),
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def _extension(certificate: x509.Certificate, kind: type[T]) -> T | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _subject(certificate: x509.Certificate) -> list[tuple[str, str]]:
    return [
        (_ATTRIBUTES.get(part.oid, part.oid.dotted_string), str(part.value)) for part in certificate.subject
    ]


def _named(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or "a certificate without a subject"


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"

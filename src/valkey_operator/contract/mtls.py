"""TLS between operator and sidecars: both ends show a certificate, trust our authorities only, and check who is there.

`Credentials` follows a mounted Secret or what it is given, for every connection that comes after; one that is open
is never touched. It never trusts the system's authorities, never compares host names, and never shows a key.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from asyncio import sslproto
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from valkey_operator.contract.identity import Identity, NotAnIdentity, from_certificate

CERTIFICATE, KEY, TRUST = "tls.crt", "tls.key", "ca.crt"
# Kubernetes swaps this link; through it, three files are always of one version.
_ATOMIC = "..data"
_BUFFER = 8 * 1024
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def save_memory() -> None:
    """For a process with many connections, or little memory: asyncio sets aside a quarter of a megabyte for each."""
    sslproto.SSLProtocol.max_size = _BUFFER


class Unusable(Exception):
    """There is no certificate that could be shown. Its sentence says why."""


@dataclass(frozen=True)
class Refusal:
    """Why a peer is not talked to."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Material:
    """A certificate with its chain, its key, and the authorities to trust; all in PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    trust: bytes = field(repr=False)


@dataclass(frozen=True)
class _InForce:
    material: Material
    client: ssl.SSLContext
    server: ssl.SSLContext


class Credentials:
    """What this process shows and whom it trusts: always the last that was whole.

    `problem` says why something newer was not taken, or is empty. `on_refusal` hears of every client that did not
    get through the handshake.
    """

    def __init__(self, read: Callable[[], Material], stamp: Callable[[], object] = lambda: None) -> None:
        self._read, self._stamp = read, stamp
        self.on_refusal: Callable[[Refusal], None] = lambda _refusal: None
        self._seen = stamp()
        self._now = _in_force(read())
        self.problem = ""
        self._listening = _listening(self._now.material, lambda: self._now.server, self._refused)

    @classmethod
    def from_folder(cls, folder: Path) -> Credentials:
        """Of a mounted Secret. Call `reload` from a timer to follow it."""
        return cls(lambda: _read_folder(folder), lambda: _stamp_of(folder))

    @classmethod
    def from_bytes(cls, material: Material) -> Credentials:
        return cls(lambda: material)

    def reload(self) -> bool:
        """Take what is in the folder now, if it changed and is whole. Whether something new is in force."""
        stamp = self._stamp()
        if stamp == self._seen and not self.problem:
            return False
        # Taken before the files are read: a change while we read is seen again next time.
        self._seen = stamp
        try:
            return self.replace(self._read())
        except Unusable as problem:
            self.problem = str(problem)
            return False

    def replace(self, material: Material) -> bool:
        """From now on these. Raises Unusable, and keeps the last good ones, if they cannot be used."""
        changed = material != self._now.material
        if changed:
            self._now = _in_force(material)
        self.problem = ""
        return changed

    @property
    def thumbprint(self) -> str:
        """Of the certificate that is shown."""
        return thumbprints(self._now.material.certificate)[0]

    @property
    def trusted(self) -> frozenset[str]:
        """The thumbprints of all authorities that are trusted."""
        return frozenset(thumbprints(self._now.material.trust))

    def server_context(self) -> ssl.SSLContext:
        """To listen with; every handshake uses the newest credentials, this context stays the same."""
        return self._listening

    def client_context(self) -> ssl.SSLContext:
        """For the next connection; ask again for each, because authorities cannot be taken out of a context."""
        return self._now.client

    def _refused(self, error: ssl.SSLError) -> None:
        self.on_refusal(refusal_of(error))


def peer_identity(connection: ssl.SSLObject | ssl.SSLSocket | None) -> Identity | Refusal:
    """Who is at the other end, after the handshake. Certificate and chain are verified by then."""
    shown = connection.getpeercert() if connection else None
    if not shown:
        return Refusal("the peer shows no certificate")
    try:
        return from_certificate(_uri_names(shown), _subject(shown))
    except NotAnIdentity as problem:
        return Refusal(f"the peer is not known: {problem}")


def expected_peer(
    connection: ssl.SSLObject | ssl.SSLSocket | None, allowed: Collection[Identity]
) -> Identity | Refusal:
    """Who is at the other end, if it is one of these."""
    found = peer_identity(connection)
    if isinstance(found, Refusal) or found in allowed:
        return found
    return Refusal(f"the peer is {found}, expected is {' or '.join(sorted(map(str, allowed))) or 'nobody'}")


def peer_thumbprint(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """Of the certificate at the other end, to tell a new one from the one it replaced; empty without any."""
    shown = connection.getpeercert(binary_form=True)
    return hashlib.sha256(shown).hexdigest() if shown else ""


def refusal_of(error: ssl.SSLError) -> Refusal:
    """A handshake that failed, as a sentence: what we saw in the peer's certificate, or the peer in ours."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refusal(f"the peer's certificate is not accepted: {error.verify_message}")
    reason = (error.reason or "").upper()
    for alert, sentence in _ALERTS.items():
        if alert in reason:
            return Refusal(sentence)
    return Refusal(f"TLS failed: {reason.lower().replace('_', ' ') or 'no reason given'}")


_ALERTS = {
    "CERTIFICATE_REQUIRED": "the peer wants a certificate, and none was shown",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer shows no certificate",
    "ALERT_UNKNOWN_CA": "the peer does not trust the authority of our certificate",
    "ALERT_CERTIFICATE_EXPIRED": "the peer finds our certificate expired",
    "ALERT_BAD_CERTIFICATE": "the peer does not accept our certificate; it may not be valid yet",
    "ALERT_CERTIFICATE_UNKNOWN": "the peer does not accept our certificate",
    "ALERT_UNSUPPORTED_CERTIFICATE": "our certificate is not made for this",
    "ALERT_PROTOCOL_VERSION": "the peer does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "the peer does not speak TLS 1.3",
}


def thumbprints(pem: bytes) -> tuple[str, ...]:
    """SHA-256 of each certificate in it."""
    blocks = (block.decode("ascii") for block in _BLOCK.findall(pem))
    return tuple(hashlib.sha256(ssl.PEM_cert_to_DER_cert(block)).hexdigest() for block in blocks)


def _in_force(material: Material) -> _InForce:
    client = _context(ssl.PROTOCOL_TLS_CLIENT, material)
    return _InForce(material, client, _context(ssl.PROTOCOL_TLS_SERVER, material))


def _listening(
    material: Material, newest: Callable[[], ssl.SSLContext], on_failure: Callable[[ssl.SSLError], None]
) -> ssl.SSLContext:
    def take_newest(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = newest()

    class Watched(_SaysWhy):
        failed = staticmethod(on_failure)

    context = _context(ssl.PROTOCOL_TLS_SERVER, material)
    # It is asked for each client, also those that name no server.
    context.sni_callback = take_newest
    context.sslobject_class = Watched
    return context


class _SaysWhy(ssl.SSLObject):
    """asyncio logs nothing of a failed handshake, and drops the alert that would tell the peer.

    So the failure is passed on here, and raised only after asyncio has sent what there is to send; until then
    it looks as if more of the handshake were to come.
    """

    failed: Callable[[ssl.SSLError], None]
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._failure = error
            self.failed(error)
            raise ssl.SSLWantReadError from None


def _context(protocol: int, material: Material) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    # What is in the bundle is trusted, also where somebody's root is itself signed by another.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # A resumed session would not be verified again, and outlive the authority that was trusted.
        context.num_tickets = 0
    _load_trust(context, material.trust)
    _load_pair(context, material)
    return context


def _load_trust(context: ssl.SSLContext, trust: bytes) -> None:
    try:
        context.load_verify_locations(cadata=trust.decode("ascii"))
        thumbprints(trust)
    except (ValueError, ssl.SSLError):
        raise Unusable(f"{TRUST} holds no certificates in PEM") from None


def _load_pair(context: ssl.SSLContext, material: Material) -> None:
    # Python loads keys from files only; this one is in memory and has no name anywhere.
    memory = os.memfd_create("credentials", os.MFD_CLOEXEC)
    try:
        with os.fdopen(memory, "wb", closefd=False) as file:
            file.write(material.key.rstrip() + b"\n" + material.certificate)
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(f"/proc/self/fd/{memory}", password="")
    except ssl.SSLError as error:
        raise Unusable(_pair_problem(error)) from None
    finally:
        os.close(memory)


def _pair_problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{KEY} does not belong to {CERTIFICATE}"
    reason = (error.reason or "unreadable").lower().replace("_", " ")
    return f"{CERTIFICATE} and {KEY} are no certificate with its key in PEM: {reason}"


def _read_folder(folder: Path) -> Material:
    try:
        version = (folder / _ATOMIC).resolve(strict=True) if (folder / _ATOMIC).exists() else folder
        return Material(*((version / name).read_bytes() for name in (CERTIFICATE, KEY, TRUST)))
    except OSError as error:
        missing = Path(error.filename or folder).name
        raise Unusable(f"{missing} in {folder} cannot be read: {error.strerror}") from None


def _stamp_of(folder: Path) -> object:
    return tuple(_file_stamp(f"{folder}/{name}") for name in (CERTIFICATE, KEY, TRUST))


def _file_stamp(file: str) -> tuple[int, ...]:
    """Looked at every second, in every sidecar."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a path of its own would cost more than the look
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _uri_names(shown: Mapping[str, object]) -> list[str]:
    names = shown.get("subjectAltName", ())
    return [value for kind, value in names if kind == "URI"] if isinstance(names, tuple) else []


def _subject(shown: Mapping[str, object]) -> list[tuple[str, str]]:
    groups = shown.get("subject", ())
    return [pair for group in groups for pair in group] if isinstance(groups, tuple) else []

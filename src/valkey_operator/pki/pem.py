"""PEM in and out. What cannot be read is said without showing any of it."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


class NotPem(ValueError):
    """It is no certificate or no key. Its sentence says which."""


def read_chain(pem: bytes) -> tuple[x509.Certificate, ...]:
    """One certificate at least, the one that is meant first."""
    try:
        found = tuple(x509.load_pem_x509_certificates(pem))
        for certificate in found:
            # Most of a certificate is read when it is asked for, and what is broken there would come up later.
            certificate.extensions, certificate.public_key(), certificate.subject, certificate.issuer
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise NotPem("it is not a certificate in PEM") from None
    return found


def read_key(pem: bytes) -> Key:
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise NotPem("the key has a password, and nobody here knows it") from None
    except (ValueError, UnsupportedAlgorithm):
        raise NotPem("it is not a private key in PEM") from None
    if not isinstance(key, Key):
        raise NotPem("the key is of a kind that cannot sign certificates")
    return key


def write_chain(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)

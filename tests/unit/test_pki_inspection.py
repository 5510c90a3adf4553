"""What is wrong with a Secret, as one sentence; and nothing of what it holds in that sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.certificates import Authority
from tests.pki import DAY, NODE, NOW, OPERATOR, SCOPE, Issuing, forged, secret
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import thumbprints
from valkey_operator.pki.authority import Pair, issue_mtls_leaf
from valkey_operator.pki.inspection import Wanted, fault, see, see_all
from valkey_operator.pki.pem import NotPem

ISSUING = Issuing()
AUTHORITY = ISSUING.authority()
LEAF = issue_mtls_leaf(AUTHORITY, NODE, NOW, 90 * DAY)
GOOD = secret(LEAF, ISSUING.root)
WEAK = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to be found
WANTED = Wanted(NOW, ISSUING.root.certificate, NODE)


def test_a_good_secret_has_no_fault() -> None:
    assert fault(GOOD, WANTED) is None


def test_a_certificate_tells_what_it_says() -> None:
    seen = see(LEAF.certificate)
    assert seen.uris == (str(NODE),)
    assert (seen.not_after, seen.is_authority) == (NOW + 90 * DAY, False)
    assert seen.issuer_key_id == see(AUTHORITY.certificate).key_id
    assert seen.subject == "CN=cache-0-0,OU=cache,OU=ValkeyCluster,OU=prod,O=valkey.io"


def test_operator_and_sidecar_compute_the_same_thumbprints() -> None:
    bundle = LEAF.certificate + ISSUING.root.certificate
    assert tuple(seen.thumbprint for seen in see_all(bundle)) == thumbprints(bundle)


def strangers_leaf() -> dict[str, bytes]:
    return {**GOOD, **secret(Issuing().node(), ISSUING.root)}


def made(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> dict[str, bytes]:
    return secret(forged(AUTHORITY, NODE, str(NODE), key=key), ISSUING.root)


def one_ended() -> dict[str, bytes]:
    return secret(forged(AUTHORITY, NODE, str(NODE), ends=(ExtendedKeyUsageOID.SERVER_AUTH,)), ISSUING.root)


FAULTS: list[tuple[Callable[[], dict[str, bytes]], str]] = [
    (dict, "the Secret lacks tls.crt, tls.key and ca.crt"),
    (lambda: {**GOOD, "tls.key": b""}, "the Secret lacks tls.key"),
    (lambda: {**GOOD, "tls.crt": b"garbage"}, "tls.crt cannot be read: it is not a certificate"),
    (lambda: {**GOOD, "tls.key": b"garbage"}, "tls.key cannot be read: it is not a private key"),
    (lambda: {**GOOD, "ca.crt": b"garbage"}, "ca.crt cannot be read: it is not a certificate"),
    (lambda: {**GOOD, "tls.key": ISSUING.root.key}, "tls.key does not belong to tls.crt"),
    (lambda: made(WEAK), "has an RSA key of 1024 bits, 2048 are needed"),
    (lambda: made(ec.generate_private_key(ec.SECP192R1())), "has a key on secp192r1, 256 bits are needed"),
    (lambda: secret(Issuing(NOW - 99 * DAY).node(), ISSUING.root), "expired on 2026-04-22 12:00:00 UTC"),
    (lambda: secret(Issuing(NOW + DAY).node(), ISSUING.root), "is valid only from 2026-05-02 11:59:00 UTC"),
    (lambda: secret(AUTHORITY, ISSUING.root), "is an authority, and no process may show one"),
    (one_ended, "is not made for clients"),
    (strangers_leaf, "is not signed by a trusted authority"),
    (lambda: secret(Pair(leaf_alone(), LEAF.key), ISSUING.root), "is not signed by a trusted authority"),
    (lambda: secret(ISSUING.node("cache-0-1"), ISSUING.root), "node/cache-0-1, not for spiffe"),
    (lambda: secret(ISSUING.operator(), ISSUING.root), "is for spiffe://valkey.io/ns/valkey-system/operator"),
    (lambda: secret(forged(AUTHORITY, NODE, str(NODE), str(NODE)), ISSUING.root), "has 2 URI names"),
    (lambda: secret(forged(AUTHORITY, NODE, str(OPERATOR)), ISSUING.root), "subject of the certificate"),
]


def leaf_alone() -> bytes:
    return LEAF.certificate[: LEAF.certificate.index(b"-----END CERTIFICATE-----") + 26]


@pytest.mark.parametrize(("broken", "sentence"), FAULTS, ids=[sentence for _, sentence in FAULTS])
def test_each_fault_has_its_sentence(broken: Callable[[], dict[str, bytes]], sentence: str) -> None:
    assert sentence in (fault(broken(), WANTED) or "nothing is wrong")


def test_a_name_that_is_not_in_the_certificate_is_missed() -> None:
    server = secret(ISSUING.server("cache.prod.svc"), ISSUING.root)
    wanted = Wanted(NOW, dns_names=frozenset({"cache.prod.svc", "other"}), addresses=frozenset({"10.0.0.1"}))
    assert fault(server, wanted) == "tls.crt does not name 10.0.0.1, other"


def test_the_parts_of_a_secret_may_have_other_names() -> None:
    wanted = replace(WANTED, certificate_part="cert", key_part="key", trust_part="ca")
    assert fault({"cert": LEAF.certificate, "key": LEAF.key}, wanted) == "the Secret lacks ca"


def test_without_given_trust_the_secret_is_its_own_judge() -> None:
    assert fault(GOOD, Wanted(NOW)) is None
    assert fault(secret(LEAF, Issuing().root), Wanted(NOW)) is not None


def test_an_authority_is_judged_as_one() -> None:
    parts = {"tls.crt": AUTHORITY.certificate, "tls.key": AUTHORITY.key}
    wanted = Wanted(NOW, ISSUING.root.certificate, is_authority=True)
    assert fault(parts, wanted) is None
    assert fault(parts, replace(wanted, trust=Issuing().root.certificate)) is not None
    assert "may not sign others" in (fault(GOOD, wanted) or "")


def test_a_leaf_that_signs_is_no_authority() -> None:
    child = forged(LEAF, NODE, str(NODE))
    assert fault(secret(child, ISSUING.root), WANTED) is not None


def test_an_authority_cannot_sign_further_authorities() -> None:
    second = forged(AUTHORITY, NODE, is_authority=True)
    assert fault(secret(forged(second, NODE, str(NODE)), ISSUING.root), WANTED) is not None


def test_an_authority_for_clients_cannot_name_an_identity() -> None:
    forgery = forged(ISSUING.authority(purpose="tls"), NODE, str(NODE))
    assert fault(secret(forgery, ISSUING.root), WANTED) is not None


def test_certificates_made_by_hand_are_accepted_where_openssl_accepts_them() -> None:
    authority = Authority("by hand")
    pair = authority.issue("cache.prod.svc")
    parts = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    now = see(pair.certificate).not_before + DAY / 24
    assert fault(parts, Wanted(now, dns_names=frozenset({"cache.prod.svc"}))) is None
    alone = {**parts, "ca.crt": pair.certificate}
    assert fault(alone, Wanted(now)) is None


def test_two_roots_are_trusted_while_they_overlap() -> None:
    newer = Issuing()
    both = replace(WANTED, trust=ISSUING.root.certificate + newer.root.certificate)
    assert fault(secret(LEAF, ISSUING.root), both) is None
    assert fault(secret(newer.node(), newer.root), both) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["tls.crt", "tls.key", "ca.crt"]), st.integers(0, 10_000), st.binary(max_size=3))
def test_tampering_is_either_seen_or_changes_nothing(part: str, place: int, put: bytes) -> None:
    content = GOOD[part]
    place %= len(content)
    tampered = {**GOOD, part: content[:place] + put + content[place + 1 :]}
    sentence = fault(tampered, WANTED)
    if sentence is None:
        assert part == "ca.crt" or see(tampered["tls.crt"]).thumbprint == see(LEAF.certificate).thumbprint
    else:
        assert not any(line.decode() in sentence for line in GOOD["tls.key"].splitlines()[1:-1])


def test_garbage_is_no_certificate() -> None:
    with pytest.raises(NotPem):
        see(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


def test_the_scope_of_a_forger_does_not_matter_to_the_sentence() -> None:
    other = Scope("dev", SCOPE.kind, "other")
    assert "node/thief" in (
        fault(secret(ISSUING.node("thief", other), ISSUING.root), WANTED) or "nothing is wrong"
    )

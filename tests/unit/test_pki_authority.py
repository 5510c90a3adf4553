"""Issued certificates: what they allow, how long they live, and that keys stay out of sight."""

from __future__ import annotations

import traceback
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.pki import DAY, NODE, NOW, OPERATOR, SCOPE, Issuing, forged, secret
from valkey_operator.pki.authority import (
    BACKDATED,
    CannotIssue,
    Pair,
    issue_intermediate,
    issue_mtls_leaf,
    issue_root,
    issue_tls_leaf,
)
from valkey_operator.pki.inspection import Wanted, fault, see, see_all
from valkey_operator.pki.pem import read_chain, read_key


def constraints(pair: Pair) -> x509.BasicConstraints:
    return read_chain(pair.certificate)[0].extensions.get_extension_for_class(x509.BasicConstraints).value


def test_a_root_may_have_one_authority_below_it_and_that_one_none() -> None:
    issuing = Issuing()
    assert constraints(issuing.root) == x509.BasicConstraints(ca=True, path_length=1)
    assert constraints(issuing.authority()) == x509.BasicConstraints(ca=True, path_length=0)
    assert constraints(issuing.node()) == x509.BasicConstraints(ca=False, path_length=None)


def test_keys_are_on_the_curve_p256() -> None:
    for pair in (Issuing().root, Issuing().authority(), Issuing().node()):
        key = read_key(pair.key)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.curve.name == "secp256r1"


def test_a_node_is_named_by_one_uri_and_its_file_holds_the_chain_without_the_root() -> None:
    issuing = Issuing()
    chain = see_all(issuing.node().certificate)
    assert chain[0].uris == (str(NODE),)
    assert [link.is_authority for link in chain] == [False, True]
    assert chain[0].issuer_key_id == chain[1].key_id
    assert chain[1].issuer_key_id == see(issuing.root.certificate).key_id


def test_the_operator_is_signed_by_the_root_and_sends_itself_alone() -> None:
    issuing = Issuing()
    (leaf,) = see_all(issuing.operator().certificate)
    assert leaf.uris == (str(OPERATOR),)
    assert leaf.issuer_key_id == see(issuing.root.certificate).key_id


def test_dns_names_and_addresses_stand_beside_the_identity() -> None:
    leaf = issue_mtls_leaf(Issuing().authority(), NODE, NOW, DAY, ["cache.prod.svc"], ["10.0.0.1", "fd00::1"])
    seen = see(leaf.certificate)
    assert seen.uris == (str(NODE),)
    assert seen.dns_names == {"cache.prod.svc"}
    assert seen.addresses == {"10.0.0.1", "fd00::1"}


def test_a_server_is_named_by_host_names_and_serves_as_client_too() -> None:
    issuing = Issuing()
    pair = issuing.server("cache.prod.svc", "*.cache.prod.svc", addresses=("10.0.0.1",))
    wanted = Wanted(NOW, dns_names=frozenset({"cache.prod.svc"}), addresses=frozenset({"10.0.0.1"}))
    assert fault(secret(pair, issuing.root), wanted) is None
    assert see(pair.certificate).uris == ()


def test_a_server_without_any_name_is_not_issued() -> None:
    with pytest.raises(CannotIssue, match="needs a DNS name or an address"):
        issue_tls_leaf(Issuing().authority(purpose="tls"), "cache", [], [], NOW, DAY)


def test_a_certificate_begins_a_minute_early_for_clocks_that_differ() -> None:
    for pair in (Issuing().root, Issuing().authority(), Issuing().node()):
        assert see(pair.certificate).not_before == NOW - BACKDATED


def test_nothing_outlives_its_issuer() -> None:
    issuing = Issuing(life=30 * DAY)
    authority = issuing.authority(life=365 * DAY)
    leaf = issue_mtls_leaf(authority, NODE, NOW, 90 * DAY)
    assert see(authority.certificate).not_after == NOW + 30 * DAY
    assert see(leaf.certificate).not_after == NOW + 30 * DAY


def test_a_short_life_is_kept_to_the_second() -> None:
    leaf = issue_mtls_leaf(Issuing().authority(), NODE, NOW + timedelta(microseconds=7), timedelta(minutes=1))
    assert see(leaf.certificate).not_after == NOW + timedelta(minutes=1)


def test_an_expired_issuer_signs_nothing_more() -> None:
    issuing = Issuing(life=DAY)
    with pytest.raises(CannotIssue, match=r"ended on 2026-05-02 12:00:00 UTC"):
        issue_intermediate(issuing.root, SCOPE, "mtls", NOW + DAY, DAY)


def test_an_issuer_whose_key_is_of_another_signs_nothing() -> None:
    mixed = Pair(Issuing().root.certificate, Issuing().root.key)
    with pytest.raises(CannotIssue, match="does not belong"):
        issue_intermediate(mixed, SCOPE, "mtls", NOW, DAY)


def test_serial_numbers_and_keys_are_never_the_same_twice() -> None:
    authority = Issuing().authority()
    pairs = [issue_mtls_leaf(authority, NODE, NOW, DAY) for _ in range(20)]
    assert len({see(pair.certificate).serial for pair in pairs}) == 20
    assert len({pair.key for pair in pairs}) == 20


def test_a_label_that_is_too_long_is_cut_and_the_identity_is_not() -> None:
    assert "CN=" + "a" * 64 in see(issue_root("a" * 100, NOW, DAY).certificate).subject
    longest = SCOPE.node("n" * 63)
    assert see(issue_mtls_leaf(Issuing().authority(), longest, NOW, DAY).certificate).uris == (str(longest),)


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()])
def test_a_root_that_somebody_else_made_signs_too(
    key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey,
) -> None:
    held = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "corporate")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + 100 * DAY)
    builder = builder.add_extension(x509.BasicConstraints(True, None), True)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    root = Pair(builder.sign(key, digest).public_bytes(Encoding.PEM), held)
    authority = issue_intermediate(root, SCOPE, "mtls", NOW, DAY)
    links = read_chain(authority.certificate + root.certificate)
    links[0].verify_directly_issued_by(links[1])


def test_a_root_below_somebody_elses_root_is_sent_along() -> None:
    corporate = Issuing()
    ours = forged(corporate.root, OPERATOR, is_authority=True)
    leaf = issue_mtls_leaf(issue_intermediate(ours, SCOPE, "mtls", NOW, DAY), NODE, NOW, DAY)
    assert len(see_all(leaf.certificate)) == 3


def test_no_key_is_in_a_repr_or_an_error() -> None:
    root = Issuing().root
    secret_lines = root.key.splitlines()[1:-1]
    broken = Pair(b"garbage", root.key), Pair(root.certificate, root.key[:-40] + b"garbage")
    texts = [repr(root)]
    for pair in broken:
        with pytest.raises(CannotIssue) as caught:
            issue_intermediate(pair, SCOPE, "mtls", NOW, DAY)
        texts.append("".join(traceback.format_exception(caught.value)))
    for text in texts:
        assert not any(line.decode() in text for line in secret_lines)


def test_a_key_with_a_password_is_named_as_such() -> None:
    root = Issuing().root
    locked = read_key(root.key).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"unknown")
    )
    with pytest.raises(CannotIssue, match="has a password"):
        issue_intermediate(Pair(root.certificate, locked), SCOPE, "mtls", NOW, DAY)

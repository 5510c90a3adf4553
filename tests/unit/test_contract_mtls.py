"""TLS between operator and sidecars on real sockets: who is let in, who is refused, and why."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.mtls import (
    AUTHORITY,
    ISSUING,
    NOT_ACCEPTED,
    NOW,
    OPERATORS,
    ask,
    client,
    exchange,
    listening,
    material,
    node,
)
from tests.pki import DAY, NODE, OPERATOR, SCOPE, Issuing, forged
from valkey_operator.contract.identity import Identity, Scope
from valkey_operator.contract.mtls import (
    Credentials,
    Material,
    Refusal,
    peer_identity,
    peer_thumbprint,
    thumbprints,
)
from valkey_operator.pki.authority import issue_mtls_leaf


async def test_operator_and_node_that_know_each_other_talk() -> None:
    async with listening(node()) as server:
        assert await ask(server, client(OPERATORS)) == "hello"
    assert server.met == [OPERATOR]


async def test_nodes_of_one_deployment_talk() -> None:
    sibling = SCOPE.node("cache-0-1")
    async with listening(node(), sibling) as server:
        assert await ask(server, node("cache-0-1").client_context()) == "hello"


async def test_a_client_without_a_certificate_is_refused() -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(cadata=ISSUING.root.certificate.decode())
    async with listening(node()) as server:
        assert await ask(server, bare) == "the peer wants a certificate, and none was shown"
    assert (server.met, server.refused) == ([], ["the peer shows no certificate"])


async def test_a_client_that_speaks_only_an_older_tls_is_refused() -> None:
    old = client(OPERATORS)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    async with listening(node()) as server:
        assert await ask(server, old) == "the peer does not speak TLS 1.3"


async def test_a_client_of_another_root_is_refused() -> None:
    stranger = material(Issuing(NOW).operator(), ISSUING.root)
    async with listening(node()) as server:
        assert (
            await ask(server, client(stranger)) == "the peer does not trust the authority of our certificate"
        )
    assert not server.met


async def test_a_server_of_another_root_is_refused_by_the_client() -> None:
    other = Issuing(NOW)
    async with listening(Credentials.from_bytes(material(other.node(), ISSUING.root))) as server:
        answer = await ask(server, client(OPERATORS))
    assert answer == f"{NOT_ACCEPTED}: unable to get local issuer certificate"


async def test_an_expired_certificate_is_refused() -> None:
    past = NOW - 10 * DAY
    root = Issuing(past)
    expired = material(root.operator(life=DAY), root.root)
    async with listening(node(issuing=root)) as server:
        assert await ask(server, client(expired)) == "the peer finds our certificate expired"
    assert server.refused == [f"{NOT_ACCEPTED}: certificate has expired"]


async def test_a_certificate_of_tomorrow_is_refused() -> None:
    early = issue_mtls_leaf(ISSUING.root, OPERATOR, NOW + DAY, DAY)
    async with listening(node()) as server:
        assert "may not be valid yet" in await ask(server, client(material(early)))
    assert server.refused == [f"{NOT_ACCEPTED}: certificate is not yet valid"]


@pytest.mark.parametrize(
    "other",
    [
        SCOPE.node("cache-0-1"),
        Scope(SCOPE.namespace, SCOPE.kind, "other").node(NODE.node),
        Scope(SCOPE.namespace, "Valkey", SCOPE.deployment).node(NODE.node),
        Scope("dev", SCOPE.kind, SCOPE.deployment).node(NODE.node),
    ],
    ids=["node", "deployment", "kind", "namespace"],
)
async def test_the_right_root_is_not_enough(other: Identity) -> None:
    leaf = issue_mtls_leaf(ISSUING.root, other, NOW, DAY)
    async with listening(Credentials.from_bytes(material(leaf))) as server:
        assert await ask(server, client(OPERATORS)) == f"the peer is {other}, expected is {NODE}"
    async with listening(node()) as server:
        assert await ask(server, client(material(leaf))) == f"the peer is {other}, expected is {OPERATOR}"


@pytest.mark.parametrize(
    ("uris", "sentence"),
    [
        ((str(OPERATOR), str(NODE)), "has 2 URI names"),
        ((str(OPERATOR), str(OPERATOR)), "has 2 URI names"),
        ((), "has no URI name"),
        ((f"{OPERATOR}/",), "names neither a node nor an operator"),
        ((f"{OPERATOR}\x00.evil",), "names neither a node nor an operator"),
        ((str(NODE),), "the subject of the certificate is not that of"),
    ],
)
async def test_a_certificate_that_does_not_say_who_it_is_is_refused(
    uris: tuple[str, ...], sentence: str
) -> None:
    leaf = forged(ISSUING.root, OPERATOR, *uris, now=NOW)
    async with listening(node()) as server:
        assert sentence in await ask(server, client(material(leaf)))
    assert isinstance(server.met[0], Refusal)


@pytest.mark.parametrize("claimed", [OPERATOR, Scope("dev", SCOPE.kind, "other").node("other-0-0")])
async def test_the_key_of_a_deployments_authority_does_not_speak_for_others(claimed: Identity) -> None:
    async with listening(node(), claimed) as server:
        honest_subject = forged(AUTHORITY, NODE, str(claimed), now=NOW)
        assert "subject" in await ask(server, client(material(honest_subject)))
        forged_subject = forged(AUTHORITY, claimed, str(claimed), now=NOW)
        assert "does not accept our certificate" in await ask(server, client(material(forged_subject)))
    assert server.refused == [f"{NOT_ACCEPTED}: permitted subtree violation"]
    assert len(server.met) == 1


async def test_an_authority_for_clients_speaks_for_no_node() -> None:
    forgery = forged(ISSUING.authority(purpose="tls"), NODE, str(NODE), now=NOW)
    async with listening(Credentials.from_bytes(material(forgery))) as server:
        assert "permitted subtree" in await ask(server, client(OPERATORS))


async def test_the_authorities_of_the_system_are_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    foreign = Authority("of the system")
    bundle = tmp_path / "system.crt"
    bundle.write_bytes(foreign.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    pair = foreign.issue("cache")
    shown = Material(pair.certificate, pair.key, ISSUING.root.certificate)
    async with listening(node()) as server:
        assert "does not trust" in await ask(server, client(shown))


async def test_no_session_is_resumed_because_it_would_not_be_verified_again() -> None:
    async with listening(node()) as server:
        context = client(OPERATORS)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        assert await exchange(reader, writer) == "hello"
        session = writer.get_extra_info("ssl_object").session
        assert session is None or not session.has_ticket
        writer.transport.abort()


def test_a_refused_client_is_told_first_and_then_cut_off() -> None:
    stranger = client(material(Issuing(NOW).operator(), ISSUING.root))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = stranger.wrap_bio(to_client, to_server)
    ours = node().server_context().wrap_bio(to_server, to_client, server_side=True)
    for end in (theirs, ours, theirs):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    to_client.read()
    with pytest.raises(ssl.SSLWantReadError):
        ours.do_handshake()
    assert to_client.pending
    with pytest.raises(ssl.SSLCertVerificationError):
        ours.do_handshake()


async def test_nothing_is_known_of_a_connection_without_tls() -> None:
    assert peer_identity(None) == Refusal("the peer shows no certificate")


async def test_the_peers_certificate_is_told_apart_from_the_one_it_replaced() -> None:
    async with listening(node()) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=client(OPERATORS))
        assert peer_thumbprint(writer.get_extra_info("ssl_object")) == server.credentials.thumbprint
        writer.transport.abort()


def test_no_key_is_in_a_repr() -> None:
    assert "PRIVATE" not in repr(material(ISSUING.node()))
    assert "PRIVATE" not in repr(vars(node()))


def test_a_certificate_may_end_within_seconds() -> None:
    leaf = issue_mtls_leaf(ISSUING.root, OPERATOR, NOW, timedelta(minutes=1))
    assert Credentials.from_bytes(material(leaf)).thumbprint == thumbprints(leaf.certificate)[0]


def test_the_sidecar_imports_nothing_that_is_not_in_python_itself() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import valkey_operator.contract.identity, valkey_operator.contract.mtls\n"
        "added = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(added - sys.stdlib_module_names))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["valkey_operator"]

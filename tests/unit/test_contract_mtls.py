"""TLS between operator and sidecars on real sockets: who is let in, who is refused and why, and rotation under load."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tests.certificates import Authority
from tests.pki import DAY, NODE, OPERATOR, SCOPE, Issuing, forged, secret
from valkey_operator.contract.identity import Identity, Scope
from valkey_operator.contract.mtls import (
    Credentials,
    Material,
    Refusal,
    Unusable,
    expected_peer,
    peer_identity,
    peer_thumbprint,
    refusal_of,
    thumbprints,
)
from valkey_operator.pki.authority import Pair, issue_mtls_leaf
from valkey_operator.pki.pem import read_key

NOW = datetime.now(UTC)
ISSUING = Issuing(NOW)
AUTHORITY = ISSUING.authority()


def material(pair: Pair, *roots: Pair) -> Material:
    return Material(*secret(pair, *(roots or (ISSUING.root,))).values())


def node(name: str = NODE.node, issuing: Issuing = ISSUING) -> Credentials:
    return Credentials.from_bytes(material(issuing.node(name), issuing.root))


NOT_ACCEPTED = "the peer's certificate is not accepted"
OPERATORS = material(ISSUING.operator())


@dataclass
class Server:
    """Says hello to whom it expects, the refusal to others, and keeps both."""

    credentials: Credentials
    allowed: tuple[Identity, ...] = (OPERATOR,)
    port: int = 0
    met: list[Identity | Refusal] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = expected_peer(writer.get_extra_info("ssl_object"), self.allowed)
        self.met.append(peer)
        try:
            while line := await reader.readline():
                writer.write(line if not isinstance(peer, Refusal) else f"{peer}\n".encode())
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(credentials: Credentials, *allowed: Identity) -> AsyncIterator[Server]:
    server = Server(credentials, allowed or (OPERATOR,))
    credentials.on_refusal = lambda refusal: server.refused.append(str(refusal))
    context = credentials.server_context()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as opened:
        server.port = opened.sockets[0].getsockname()[1]
        yield server


async def ask(server: Server, context: ssl.SSLContext, expected: Identity = NODE) -> str:
    """What the server answers to hello, or why there is no answer, at either end."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    except ssl.SSLError as error:
        return str(refusal_of(error))
    try:
        peer = expected_peer(writer.get_extra_info("ssl_object"), [expected])
        return str(peer) if isinstance(peer, Refusal) else await exchange(reader, writer)
    except ssl.SSLError as error:
        return str(refusal_of(error))
    finally:
        writer.transport.abort()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(b"hello\n")
    return (await reader.readline()).decode().strip()


def client(shown: Material) -> ssl.SSLContext:
    return Credentials.from_bytes(shown).client_context()


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


async def test_rotation_under_load_breaks_no_connection_old_or_new() -> None:
    newer = Issuing(NOW)
    both = ISSUING.root, newer.root
    first = material(ISSUING.node(), *both), material(ISSUING.operator(), *both)
    second = material(newer.node(), *both), material(newer.operator(), *both)
    nodes, operator = Credentials.from_bytes(first[0]), Credentials.from_bytes(first[1])
    limit = asyncio.Semaphore(16)
    answers: list[str] = []

    async def one() -> None:
        async with limit:
            answers.append(await ask(server, operator.client_context()))

    async with listening(nodes) as server:
        old = await asyncio.open_connection("127.0.0.1", server.port, ssl=operator.client_context())
        tasks = [asyncio.create_task(one()) for _ in range(200)]
        for step in range(8):
            await asyncio.wait(tasks[: 20 * (step + 1)])
            (nodes if step % 2 else operator).replace(
                (second if step % 4 < 2 else first)[0 if step % 2 else 1]
            )
        await asyncio.gather(*tasks)
        assert await exchange(*old) == "hello"
        old[1].transport.abort()
    assert answers == ["hello"] * 200


async def test_a_dropped_root_is_refused_from_the_next_connection_on() -> None:
    newer = Issuing(NOW)
    credentials = Credentials.from_bytes(material(newer.node(), ISSUING.root, newer.root))
    old = client(material(ISSUING.operator(), ISSUING.root, newer.root))
    new = client(material(newer.operator(), newer.root))
    async with listening(credentials) as server:
        assert await ask(server, old) == "hello"
        credentials.replace(material(newer.node(), newer.root))
        assert await ask(server, old) == "the peer does not trust the authority of our certificate"
        assert await ask(server, new) == "hello"
    assert credentials.trusted == set(thumbprints(newer.root.certificate))


async def test_clients_that_name_a_server_and_those_that_do_not_get_the_newest() -> None:
    credentials = node()
    async with listening(credentials) as server:
        credentials.replace(material(ISSUING.node()))
        for name in ("cache.prod.svc", ""):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=client(OPERATORS), server_hostname=name
            )
            assert peer_thumbprint(writer.get_extra_info("ssl_object")) == credentials.thumbprint
            writer.transport.abort()


def write(folder: Path, shown: Material) -> None:
    for name, content in zip(("tls.crt", "tls.key", "ca.crt"), vars(shown).values(), strict=True):
        (folder / name).write_bytes(content)


def mount(folder: Path, version: str, shown: Material) -> None:
    """As the kubelet writes a Secret: files are links through one link, which is swapped."""
    (folder / version).mkdir(parents=True)
    write(folder / version, shown)
    (folder / "next").symlink_to(version)
    (folder / "next").rename(folder / "..data")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_a_mounted_secret_is_followed_when_its_link_is_swapped(tmp_path: Path) -> None:
    old, new = material(ISSUING.node()), material(ISSUING.node())
    mount(tmp_path, "..1", old)
    credentials = Credentials.from_folder(tmp_path)
    assert not credentials.reload()
    mount(tmp_path, "..2", new)
    assert credentials.reload()
    assert credentials.thumbprint == thumbprints(new.certificate)[0]
    assert not credentials.reload()


def test_the_same_content_written_again_changes_nothing(tmp_path: Path) -> None:
    shown = material(ISSUING.node())
    mount(tmp_path, "..1", shown)
    credentials = Credentials.from_folder(tmp_path)
    before = credentials.client_context()
    mount(tmp_path, "..2", shown)
    assert not credentials.reload()
    assert credentials.client_context() is before


@pytest.mark.parametrize("order", [("tls.crt", "tls.key"), ("tls.key", "tls.crt")])
def test_a_pair_that_is_half_written_leaves_the_last_good_one(tmp_path: Path, order: tuple[str, str]) -> None:
    old, new = material(ISSUING.node()), material(ISSUING.node())
    content = {"tls.crt": new.certificate, "tls.key": new.key}
    write(tmp_path, old)
    credentials = Credentials.from_folder(tmp_path)
    (tmp_path / order[0]).write_bytes(content[order[0]])
    assert not credentials.reload()
    assert credentials.problem == "tls.key does not belong to tls.crt"
    assert credentials.thumbprint == thumbprints(old.certificate)[0]
    (tmp_path / order[1]).write_bytes(content[order[1]])
    assert credentials.reload()
    assert (credentials.problem, credentials.thumbprint) == ("", thumbprints(new.certificate)[0])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("tls.crt", b"", "are no certificate with its key"),
        ("tls.key", b"garbage", "are no certificate with its key"),
        ("ca.crt", b"", "ca.crt holds no certificates"),
        ("ca.crt", b"-----BEGIN CERTIFICATE-----\nMIIB", "ca.crt holds no certificates"),
        ("ca.crt", "ä".encode(), "ca.crt holds no certificates"),
        ("tls.key", None, "tls.key in .* cannot be read: No such file"),
    ],
)
def test_what_cannot_be_used_is_said_and_the_last_good_stays(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    write(tmp_path, good := material(ISSUING.node()))
    credentials = Credentials.from_folder(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    assert not credentials.reload()
    assert credentials.thumbprint == thumbprints(good.certificate)[0]
    with pytest.raises(Unusable, match=sentence):
        Credentials.from_folder(tmp_path)
    write(tmp_path, good)
    assert not credentials.reload()
    assert not credentials.problem


def test_a_key_with_a_password_asks_nobody() -> None:
    pair = ISSUING.node()
    locked = read_key(pair.key).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"unknown")
    )
    with pytest.raises(Unusable, match=r"tls.crt and tls.key are no certificate"):
        Credentials.from_bytes(material(Pair(pair.certificate, locked)))


def test_looking_for_changes_costs_microseconds(tmp_path: Path) -> None:
    mount(tmp_path, "..1", material(ISSUING.node()))
    credentials = Credentials.from_folder(tmp_path)
    before = os.times().user + os.times().system
    for _ in range(1000):
        credentials.reload()
    assert os.times().user + os.times().system - before < 1.0


def test_a_pair_in_memory_touches_no_disk_and_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    before = len(list(Path("/proc/self/fd").iterdir()))
    Credentials.from_bytes(material(ISSUING.node()))
    assert not list(tmp_path.iterdir())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


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

"""New certificates in running processes: from a mounted Secret or from memory, under load, and never by halves."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tests.mtls import ISSUING, NOW, OPERATORS, ask, client, exchange, listening, material, node
from tests.pki import Issuing
from valkey_operator.contract.mtls import Credentials, Material, Unusable, peer_thumbprint, thumbprints
from valkey_operator.pki.authority import Pair
from valkey_operator.pki.pem import read_key


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

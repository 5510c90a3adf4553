"""The Secret with the system users was deleted and made anew, with other passwords: they come into force, live."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.caches import eventually
from tests.replicas import PASSWORDS, Node, running
from valkey_operator.render.users import SIDECAR, users_acl
from valkey_operator.sidecar import files
from valkey_operator.valkey.connection import Connection, Refused


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("u")


def mount_other_users(node: Node) -> None:
    (node.settings.users / "users.acl").write_text(users_acl(dict.fromkeys(PASSWORDS, "another")))
    (node.settings.users / "sidecar-password").write_text("another")


async def are_in_force(node: Node) -> None:
    await eventually(lambda: not files.has_other_users(node.settings), 10)
    await eventually(lambda: node.pod.why_not_ready() is None, 10)
    with pytest.raises(Refused, match="WRONGPASS"):
        await Connection.open(node.settings.run / files.SOCKET, SIDECAR, PASSWORDS[SIDECAR])


async def test_a_client_does_not_notice(folder: Path) -> None:
    async with running(folder, count=1) as (node,):
        client = await node.connect()
        mount_other_users(node)
        await are_in_force(node)
        assert await client.call("PING") == "PONG"
        client.close()


async def test_a_sidecar_that_starts_again_finds_its_way_in(folder: Path) -> None:
    async with running(folder, count=1) as (node,):
        await node.stop_sidecar()
        mount_other_users(node)
        await node.start_sidecar(again=True)
        await are_in_force(node)
        # It ended after the server had read them, and before that was noted.
        await node.stop_sidecar()
        (node.settings.run / "sidecar-password").write_text(PASSWORDS[SIDECAR])
        await node.start_sidecar(again=True)
        await are_in_force(node)


async def test_a_secret_that_is_gone_takes_nothing_away(folder: Path) -> None:
    async with running(folder, count=1) as (node,):
        (node.settings.users / "users.acl").unlink()
        assert not files.has_other_users(node.settings)

"""What `config` becomes in valkey.conf: servers of three versions start with it, and have in force what is meant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.caches import eventually
from tests.server_programs import server_command
from tests.unit.test_decide_support import deployment
from tests.unit.test_sidecar_live_config import VERSIONS, running
from valkey_operator.api import directives
from valkey_operator.api.directives import known
from valkey_operator.api.words import one_word, words
from valkey_operator.decide.keeping import keeps_data
from valkey_operator.decide.support import refusal
from valkey_operator.render.server_config import valkey_conf
from valkey_operator.sidecar import fence, files
from valkey_operator.valkey import config_file
from valkey_operator.valkey.connection import Connection, Refused

# Of no plain word: as people write it, and what the server is to have.
TEXTS = {
    "proc-title-template": ("{title} the shop", "{title} the shop"),
    "syslog-ident": ("'my shop'", "my shop"),
    "ignore-warnings": (r'a "b" \ c', r'a "b" \ c'),
    "latency-tracking-info-percentiles": ("", ""),
    "notify-keyspace-events": ("", ""),
    "locale-collate": ("", ""),
    "save": (["900 1", "300 10"], "900 1 300 10"),
    "oom-score-adj-values": ("0 200 800", "0 200 800"),
    "client-output-buffer-limit": (
        ["normal 0 0 0", "pubsub 1 1 1"],
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 1 1 1",
    ),
}
NO_SNAPSHOTS: list[Any] = ["", '""', [], [""], ['""'], "''", ["''"], " ", '" "']
SNAPSHOTS: list[Any] = ["900 1", ["900 1", "300 10"], '"900 1"', "'900  1'", "900\t1", "1 0"]


def rendered(config: dict[str, Any]) -> str:
    return valkey_conf(deployment(config=config)).replace("port 6379", "port 0")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


@asynccontextmanager
async def started(folder: Path, version: str, text: str) -> AsyncIterator[Connection | None]:
    """A server with this file, or None when it does not start."""
    file, socket = folder / "valkey.conf", folder / "s"
    file.write_text(f"{text}\ndir {folder}\nunixsocket {socket}\n")
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *server_command(version), str(file), stdout=silent, stderr=silent
    )
    connection = None
    try:
        await eventually(lambda: socket.exists() or process.returncode is not None, 15)
        if process.returncode is None:
            connection = await Connection.open(socket)
        yield connection
    finally:
        if connection is not None:
            connection.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
        socket.unlink(missing_ok=True)


@pytest.mark.parametrize("version", VERSIONS)
async def test_text_of_several_words_is_in_force_at_once_and_after_a_start(
    folder: Path, version: str
) -> None:
    config = {name: written for name, (written, _meant) in TEXTS.items() if name != "ignore-warnings"}
    assert refusal(deployment(config=config)) is None
    async with running(folder, version, rendered({})) as node:
        mounted = node.mount(rendered(config))
        await eventually(lambda: node.pod.observe().configuration.mounted == mounted, 10)
        assert not node.pod.observe().configuration.refused
        assert await node.value("proc-title-template") == "{title} the shop"
        config["ignore-warnings"] = TEXTS["ignore-warnings"][0]
        mounted = node.mount(rendered(config))
        await node.crash()
        await node.is_in_force(mounted)
        seen = node.pod.observe().configuration
        assert (seen.mounted, list(seen.needs_restart), seen.refused) == (mounted, [], "")
        assert {name: await node.value(name) for name in TEXTS} == {
            name: meant for name, (_written, meant) in TEXTS.items()
        }


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_read_alike_whether_snapshots_are_taken(folder: Path, version: str) -> None:
    for written in [*NO_SNAPSHOTS, *SNAPSHOTS]:
        wish = deployment(config={"save": written})
        assert refusal(wish) is None, written
        async with started(folder, version, rendered({"save": written})) as server:
            assert server is not None, written
            (_name, points) = await server.call("CONFIG", "GET", "save")
        assert bool(points) is (written in SNAPSHOTS), written
        assert keeps_data(wish) is bool(points), written
        assert files.kept(config_file.parse(rendered({"save": written}))).snapshots is bool(points), written


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_line_is_split_as_the_server_splits_it(folder: Path, version: str) -> None:
    for text in [
        'my"x y"', r'"a\x41\t\"\q"', r"'a\'b\n'", r"a\b", "a\u2028b\u0085c\x0bd\x0ce", "\x0ba",
        r'"\xe2\x80\xa8"', 'a "b" c', '"a"b', "'a", '"', "\\", '"a\\"', "é'ü'", " ", "\ta\x01 ",
    ]:  # fmt: skip
        raw, ours = words(text), one_word(text)
        async with started(folder, version, f"syslog-ident {text}") as server:
            # What comes right behind a quote is an error to servers before 9; to us it always is.
            assert (server is not None) is (raw is not None and len(raw) == 1) or text == '"a"b', text
            if server is not None and raw is not None:
                assert await server.call("CONFIG", "GET", "syslog-ident") == ["syslog-ident", *raw]
        async with started(folder, version, f"syslog-ident {ours}") as server:
            assert server is not None, text
            said = config_file.parse(f"syslog-ident {ours}\n")
            assert await server.call("CONFIG", "GET", "syslog-ident") == [
                "syslog-ident",
                said["syslog-ident"],
            ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_other_name_of_a_directive_that_we_write_is_let_through(folder: Path, version: str) -> None:
    ours = {*fence.DIRECTIVES, "cluster-replica-no-failover", *config_file.parse(rendered({}))}
    ours |= config_file.parse(valkey_conf(replace(deployment(), kind="ValkeyCluster"))).keys()
    found: dict[str, str] = {}
    async with started(folder, version, "port 0") as server:
        assert server is not None
        for name in ours & known().keys():
            before = await _all(server)
            for value in ("yes", "no", "7", "8", "always"):
                with suppress(Refused):
                    await server.call("CONFIG", "SET", name, value)
                    after = await _all(server)
                    found |= {
                        other: name for other in after if after[other] != before[other] and other != name
                    }
    assert found.keys() >= {"min-slaves-to-write", "min-slaves-max-lag", "repl-ping-slave-period"}
    assert {other: name for other, name in found.items() if directives.refusal(other, 1, None) is None} == {}
    assert {
        other: found[other] for other in found.keys() & directives.OLD_NAMES.keys()
    } == directives.OLD_NAMES


async def _all(server: Connection) -> dict[str, str]:
    said = await server.call("CONFIG", "GET", "*")
    return dict(zip(said[::2], said[1::2], strict=True))

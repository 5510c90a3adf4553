"""Configuration that changes under a running server: real servers of three versions, with a sidecar's Pod beside."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.caches import eventually
from tests.server_programs import server_command
from valkey_operator.api import directives
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.render.users import REPLICATION, SIDECAR, users_acl
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import fence, files
from valkey_operator.sidecar.disk import Kept
from valkey_operator.sidecar.fence import FENCED
from valkey_operator.sidecar.live_config import TODAY, plan
from valkey_operator.sidecar.pod import Pod
from valkey_operator.valkey import config_file
from valkey_operator.valkey.connection import Connection

VERSIONS = ["8.0", "8.1", "9.1"]
PASSWORDS = {SIDECAR: "one", REPLICATION: "two"}
BASE = 'port 0\nsave ""\nappendonly no\nappendfsync everysec\nmin-replicas-to-write 0\n'


class Node:
    """One pod's folders, its sidecar, and an entry point that starts a real server whenever the gate opens."""

    def __init__(self, folder: Path, version: str) -> None:
        run, data, config, users = (folder / name for name in ("run", "data", "config", "users"))
        for place in (run, data, config, users):
            place.mkdir()
        names = ("ns", "Valkey", "demo", "demo-0", "uid", "127.0.0.1", "operator:9444", "system", "valkey.io")
        self.settings = SidecarSettings(*names, run=run, data=data, config=config, users=users)
        self.program = server_command(version)
        (self.settings.users / "users.acl").write_text(users_acl(PASSWORDS))
        (self.settings.users / "sidecar-password").write_text(PASSWORDS[SIDECAR])
        self.told: list[str] = []
        self.pod = self._sidecar()

    def _sidecar(self) -> Pod:
        def tell(kind: contract.Event.Kind, _message: str) -> None:
            self.told.append(contract.Event.Kind.Name(kind))

        return Pod(self.settings, tell, contract.Fingerprints)

    def mount(self, text: str) -> str:
        """As the kubelet does; the fingerprint."""
        (self.settings.config / "valkey.conf").write_text(text)
        return config_file.fingerprint(config_file.parse(text))

    async def entry_point(self) -> None:
        run = self.settings.run
        while True:
            script = f'echo $$ >{run}/pid; read -r word <{run}/gate; exec "$@" {run}/valkey.conf'
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", script, "sh", *self.program, stdout=asyncio.subprocess.DEVNULL
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def ask(self, *words: str) -> object:
        connection = await Connection.open(self.settings.run / files.SOCKET)
        try:
            return await connection.call(*words)
        finally:
            connection.close()

    async def value(self, name: str) -> str:
        said = await self.ask("CONFIG", "GET", name)
        assert isinstance(said, list)
        return str(said[1])

    async def is_in_force(self, fingerprint: str) -> None:
        await eventually(lambda: self.pod.observe().fingerprints.config == fingerprint, 10)

    async def is_ready(self) -> None:
        await eventually(lambda: self.pod.why_not_ready() is None, 15)

    async def crash(self) -> None:
        server = self.pod.running_server()
        assert server is not None
        server.process.kill()
        await eventually(lambda: self.pod.running_server() is not server, 10)
        await self.is_ready()


@asynccontextmanager
async def running(folder: Path, version: str, text: str) -> AsyncIterator[Node]:
    node = Node(folder, version)
    node.mount(text)
    parts = [asyncio.create_task(part) for part in (node.pod.run(), node.entry_point())]
    try:
        await node.is_ready()
        yield node
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        shutil.rmtree(folder / "run", ignore_errors=True)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_mounted_comes_into_force_without_a_restart(folder: Path, version: str) -> None:
    async with running(folder, version, BASE) as node:
        before = await node.value("maxmemory-policy")
        fingerprint = node.mount(
            BASE + 'maxmemory 100mb\nmaxmemory-policy allkeys-lru\nsave 900 1 300 10\nhz 20\n'
            'client-output-buffer-limit pubsub 64mb 8mb 60\nnotify-keyspace-events KEA\n'
        )  # fmt: skip
        await node.is_in_force(fingerprint)
        seen = node.pod.observe()
        assert seen.configuration.mounted == fingerprint
        assert not seen.configuration.needs_restart
        assert await node.value("maxmemory") == str(100 * 2**20)
        assert seen.server.memory.max_bytes in (0, 100 * 2**20)
        assert await node.value("save") == "900 1 300 10"
        assert "pubsub 67108864" in await node.value("client-output-buffer-limit")
        await eventually(lambda: "KIND_CONFIG_CHANGED" in node.told)
        await node.is_in_force(node.mount(BASE))
        assert await node.value("maxmemory") == "0"
        assert await node.value("maxmemory-policy") == before
        assert await node.value("save") == ""
        assert await node.value("hz") == "10"
        assert "pubsub 33554432" in await node.value("client-output-buffer-limit")
        assert node.told.count("KIND_SERVER_STARTED") == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_only_a_start_sets_is_named_and_the_rest_is_in_force(folder: Path, version: str) -> None:
    async with running(folder, version, BASE) as node:
        mounted = node.mount(BASE + "databases 5\nmaxmemory 100mb\ntcp-backlog 128\n")
        await eventually(lambda: len(node.pod.observe().configuration.needs_restart) == 2, 10)
        seen = node.pod.observe()
        assert list(seen.configuration.needs_restart) == ["databases", "tcp-backlog"]
        assert seen.configuration.mounted == mounted != seen.fingerprints.config
        assert (await node.value("maxmemory"), await node.value("databases")) == (str(100 * 2**20), "16")
        await node.crash()
        await node.is_in_force(mounted)
        assert not node.pod.observe().configuration.needs_restart
        assert await node.value("databases") == "5"


async def test_a_wish_that_is_taken_back_needs_no_restart_any_more(folder: Path) -> None:
    async with running(folder, "9.1", BASE) as node:
        node.mount(BASE + "databases 5\n")
        await eventually(lambda: bool(node.pod.observe().configuration.needs_restart), 10)
        node.mount(BASE)
        await eventually(lambda: not node.pod.observe().configuration.needs_restart, 10)


async def test_what_the_server_refuses_is_told_in_its_words_and_the_rest_is_in_force(folder: Path) -> None:
    async with running(folder, "9.1", BASE) as node:
        node.mount(BASE + "maxmemory-policy best\nmaxmemory 100mb\n")
        await eventually(lambda: bool(node.pod.observe().configuration.refused), 10)
        assert "maxmemory-policy: argument(s) must be one of" in node.pod.observe().configuration.refused
        assert await node.value("maxmemory") == str(100 * 2**20)


@pytest.mark.parametrize(
    "wish", [BASE.replace("write 0", "write 1"), f"{BASE}min-slaves-to-write 1\n"], ids=["today", "old name"]
)
async def test_a_change_of_the_configuration_never_opens_a_fence(folder: Path, wish: str) -> None:
    async with running(folder, "9.1", BASE) as node:
        await node.ask("CONFIG", "SET", "min-replicas-to-write", str(FENCED))
        mounted = node.mount(f"{wish}hz 50\n")

        async def is_set() -> bool:
            return await node.value("hz") == "50"

        await eventually(is_set, 10)
        assert await node.value("min-replicas-to-write") == str(FENCED)
        await node.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        await node.is_in_force(mounted)
        assert await node.value("min-replicas-to-write") == "1"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_log_that_is_turned_on_loses_nothing_even_when_the_server_dies_at_once(
    folder: Path, version: str
) -> None:
    saving = BASE.replace('save ""', "save 900 1")
    async with running(folder, version, saving) as node:
        await node.ask("SET", "a", "1")
        await node.ask("SAVE")
        # The kubelet has brought the new file, and the server ends before anybody could tell it.
        server = node.pod.running_server()
        assert server is not None
        server.process.kill()
        mounted = node.mount(saving.replace("appendonly no", "appendonly yes"))
        await server.process.end()
        await node.is_in_force(mounted)
        assert await node.ask("GET", "a") == "1"
        assert await node.value("appendonly") == "yes"
        await eventually(lambda: node.pod.observe().disk.has_append_only_file, 15)
        await node.ask("SET", "a", "2")
        await asyncio.sleep(1.2)  # the log is synced each second
        await node.crash()
        assert await node.ask("GET", "a") == "2"


@pytest.mark.parametrize("version", VERSIONS)
async def test_from_snapshots_to_the_log_alone_the_snapshot_counts_until_the_log_is_whole(
    folder: Path, version: str
) -> None:
    saving = BASE.replace('save ""', "save 900 1")
    logging = BASE.replace("appendonly no", "appendonly yes")
    # In microseconds per key, for the process that rewrites the log.
    slowly, at_once = (f"{logging}rdb-key-save-delay {delay}\n" for delay in (200_000, 0))
    async with running(folder, version, saving) as node:
        for number in range(50):
            await node.ask("SET", f"key-{number}", "1")
        await node.ask("SAVE")
        node.mount(slowly)
        # The second time it ends in the run that began with the snapshot.
        for _ in range(2):
            await eventually((node.settings.data / "appendonlydir" / "temp-appendonly.aof.incr").exists, 10)
            await node.crash()
            assert await node.ask("GET", "key-0") == "1"
        assert node.pod._volume.kept.snapshots
        node.mount(at_once)
        await node.crash()
        await eventually(lambda: node.pod.observe().disk.has_append_only_file, 15)
        await eventually(lambda: node.pod._volume.kept == Kept(appendonly=True), 10)
        await node.crash()
        assert await node.ask("GET", "key-0") == "1"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_log_that_is_turned_off_counts_until_a_snapshot_was_taken(folder: Path, version: str) -> None:
    logging = BASE.replace('save ""', "save 900 1").replace("appendonly no", "appendonly yes")
    always = logging.replace("everysec", "always")
    async with running(folder, version, always) as node:
        assert node.pod.observe().disk.is_synced_always
        await node.ask("SET", "a", "1")
        await node.is_in_force(node.mount(always.replace("appendonly yes", "appendonly no")))
        assert not node.pod.observe().disk.is_synced_always
        await eventually((node.settings.data / "dump.rdb").exists, 15)
        await eventually(lambda: not node.pod.observe().disk.has_append_only_file, 15)
        await node.crash()
        assert await node.ask("GET", "a") == "1"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_clean_stop_right_after_the_log_was_turned_off_keeps_what_was_written_since(
    folder: Path, version: str
) -> None:
    # In microseconds per key, for the process that takes the snapshot.
    saving = BASE.replace('save ""', "save 900 1") + "rdb-key-save-delay 20000\n"
    async with running(folder, version, saving.replace("appendonly no", "appendonly yes")) as node:
        for number in range(50):
            await node.ask("SET", f"key-{number}", "1")
        await eventually(lambda: node.pod.observe().disk.has_append_only_file, 15)
        server = node.pod.running_server()
        assert server is not None
        node.mount(saving)

        async def is_off() -> bool:
            return await node.value("appendonly") == "no"

        await eventually(is_off, 10)
        await node.ask("SET", "since", "1")
        assert node.pod._volume.kept.appendonly, "the snapshot is not taken yet"
        await node.pod.stop()
        await server.process.end()
        await node.is_ready()
        assert await node.ask("GET", "since") == "1"


async def test_a_second_pod_of_the_node_stays_behind_its_gate_until_the_first_has_ended(folder: Path) -> None:
    async with running(folder, "9.1", BASE) as first:
        run = folder / "second"
        run.mkdir()
        settings = dataclasses.replace(first.settings, run=run, pod_uid="another")
        second = Pod(settings, lambda _kind, _message: None, contract.Fingerprints)
        visitor = asyncio.create_task(second.run())
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f"echo $$ >{run}/pid; read -r w <{run}/gate"
        )
        await eventually(lambda: "another pod of this node" in (second.why_not_ready() or ""), 10)
        held = first.pod._volume._lock
        assert held is not None
        os.close(held)  # as its end does
        assert await asyncio.wait_for(shell.wait(), 10) == 0
        visitor.cancel()
        await asyncio.gather(visitor, return_exceptions=True)


def test_the_sidecar_knows_every_old_name_that_the_operator_knows() -> None:
    """It has a list of its own: that of the operator would bring everything with it by which wishes are judged."""
    fields: dict[str, dict[str, str]] = {}
    for name, field in directives.FIELDS.items():
        fields.setdefault(field, {})["old" if "slaves" in name else "today"] = name
    of_fields = {names["old"]: names["today"] for names in fields.values()}
    assert {**directives.OLD_NAMES, **of_fields} == TODAY
    assert set(of_fields) <= fence.DIRECTIVES


def test_what_goes_by_its_old_name_is_set_again_by_the_new_one() -> None:
    """It is one thing to the server, which the default of the old name has reached first."""
    in_force = {"min-slaves-to-write": "1", "min-replicas-to-write": "1"}
    change = plan(in_force, {"min-replicas-to-write": "1"}, {"min-slaves-to-write": "0"})
    assert (change.back, change.new) == ({"min-slaves-to-write": "0"}, {"min-replicas-to-write": "1"})


def test_what_to_tell_the_server() -> None:
    change = plan({"a": "1", "b": "2", "x": "9", "y": "8"}, {"a": "1", "b": "3", "c": ""}, {"x": "0"})
    assert change.back == {"x": "0"}
    assert change.new == {"b": "3", "c": ""}
    assert change.unknown == {"y"}


@pytest.mark.parametrize(
    ("line", "directive"),
    [
        ('save ""', ("save", "")),
        ("save 900 1  300 10", ("save", "900 1 300 10")),
        ("  MaxMemory 1gb ", ("maxmemory", "1gb")),
        (r'proc-title-template "{title} \"x\" \x41"', ("proc-title-template", '{title} "x" A')),
        ("proc-title-template 'it is'", ("proc-title-template", "it is")),
        ("proc-title-template\tx\u2028masterauth y", ("proc-title-template", "x\u2028masterauth y")),
        ("syslog-ident a\x0bb\x0cc\x85d\x1ce\r", ("syslog-ident", "a\x0bb\x0cc\x85d\x1ce")),
    ],
)
def test_a_line_is_read_as_the_server_reads_it(line: str, directive: tuple[str, str]) -> None:
    assert config_file.parse(f"# a comment\n\n{line}\n") == dict([directive])


def test_the_last_of_a_name_counts_but_each_module_for_itself() -> None:
    text = "hz 1\nloadmodule a.so x\nhz 2\nloadmodule b.so\n"
    assert config_file.parse(text) == {"hz": "2", "loadmodule": "a.so x\nb.so"}


async def test_what_needed_a_restart_and_is_taken_back_needs_none_and_is_told(folder: Path) -> None:
    async with running(folder, "9.1", BASE) as node:
        wrong = node.mount(BASE + "loadmodule /no/such/module.so\n")
        await eventually(lambda: list(node.pod.observe().configuration.needs_restart) == ["loadmodule"], 10)
        assert node.pod.observe().configuration.mounted == wrong
        await eventually(lambda: "KIND_CONFIG_CHANGED" in node.told)
        told = node.told.count("KIND_CONFIG_CHANGED")
        back = node.mount(BASE)
        # Until the sidecar has looked at it, it speaks of what it has looked at.
        seen = node.pod.observe().configuration
        assert (seen.mounted, list(seen.needs_restart)) == (wrong, ["loadmodule"])
        await eventually(lambda: node.pod.observe().configuration.mounted == back, 10)
        assert not node.pod.observe().configuration.needs_restart
        await eventually(lambda: node.told.count("KIND_CONFIG_CHANGED") == told + 1)

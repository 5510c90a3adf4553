"""A primary and its replicas on one machine: real servers, each with a real sidecar's Pod; gRPC and mTLS between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.caches import eventually
from tests.mtls import ISSUING, material, node
from tests.pki import OPERATOR, SCOPE
from tests.ports import free_port
from tests.server_programs import server_command
from valkey_operator.contract.channel import answered, opened
from valkey_operator.contract.heartbeat import Address
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.render.users import REPLICATION, SIDECAR, users_acl
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import channel, files
from valkey_operator.sidecar.lease import Keeper
from valkey_operator.sidecar.metrics import Counts
from valkey_operator.sidecar.pod import Pod
from valkey_operator.sidecar.way import Way
from valkey_operator.valkey.connection import Connection, Refused, Silent

PASSWORDS = {SIDECAR: "one", REPLICATION: "two"}
CONFIG = (
    'save ""\nappendonly no\nmin-replicas-to-write 0\nmin-replicas-max-lag 10\nrepl-diskless-sync-delay 0\n'
    "repl-diskless-sync yes\nbind 127.0.0.1\n"
)
OPERATORS = Credentials.from_bytes(material(ISSUING.operator()))
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings(SidecarSettings):
    """Of a node beside others on one machine, each with ports of its own."""

    servers: Mapping[str, int] = field(default_factory=dict)
    sidecars: Mapping[str, int] = field(default_factory=dict)

    def server_of(self, node: str) -> tuple[str, int]:
        return HOST, self.servers[node]

    def sidecar_of(self, node: str) -> tuple[str, int]:
        return HOST, self.sidecars[node]


class Node:
    """One pod: its folders, its sidecar, and an entry point that starts a real server whenever the gate opens."""

    def __init__(self, settings: Settings, version: str, config: str, operator: Address) -> None:
        self.settings, self.name = settings, settings.node
        self._operator = operator
        _mount(settings, config)
        # Under the name by which a sidecar that starts again knows a server.
        loader, *rest = server_command(version)
        (settings.run / "valkey-server").symlink_to(loader)
        self.program = (str(settings.run / "valkey-server"), *rest)
        self.told: list[str] = []
        self.heard_at = float("-inf")
        self.pod = self._pod()
        self._sidecar = AsyncExitStack()
        self._entry: asyncio.Task[None] | None = None

    def _pod(self) -> Pod:
        def tell(kind: contract.Event.Kind, _message: str) -> None:
            self.told.append(contract.Event.Kind.Name(kind))

        return Pod(self.settings, tell, contract.Fingerprints, lambda: self.heard_at)

    async def start_sidecar(self, again: bool = False) -> None:
        if again:
            self.pod = self._pod()
        shown, port = node(self.name), self.settings.sidecars[self.name]
        doorman = channel.Doorman(SCOPE.node(self.name), OPERATOR, Counts())
        self._sidecar = AsyncExitStack()
        await self._sidecar.enter_async_context(channel.opened(self.pod, doorman, shown, port, HOST))

        async def way() -> Way:
            return Way(shown, OPERATOR, self._operator)

        keeper = Keeper(self.pod, self.pod._tell, way)
        parts = [asyncio.create_task(part) for part in (self.pod.run(), keeper.run())]
        self._sidecar.push_async_callback(_ended, parts)

    async def stop_sidecar(self) -> None:
        """As a crash does: its lock goes, its server stays."""
        await self._sidecar.aclose()
        if self.pod._volume._lock is not None:
            os.close(self.pod._volume._lock)
            self.pod._volume._lock = None

    def start_entry_point(self) -> None:
        self._entry = asyncio.create_task(self._entry_point())

    async def _entry_point(self) -> None:
        run = self.settings.run
        script = f'echo $$ >{run}/pid; read -r word <{run}/gate; exec "$@" {run}/valkey.conf'
        while True:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", script, "sh", *self.program, stdout=asyncio.subprocess.DEVNULL
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def end(self) -> None:
        await self.stop_sidecar()
        if self._entry is not None:
            await _ended([self._entry])

    @property
    def process(self) -> Any:
        server = self.pod.running_server()
        assert server is not None
        return server.process

    async def connect(self) -> Connection:
        """As any client does."""
        return await Connection.open(self.settings.run / files.SOCKET)

    async def ask(self, *words: str | int) -> Any:
        connection = await self.connect()
        try:
            return await connection.call(*words)
        finally:
            connection.close()

    async def role(self) -> str:
        return str((await self.ask("ROLE"))[0])

    async def is_in_sync(self) -> bool:
        try:
            said = await self.ask("ROLE")
        except (Silent, Refused):
            return False
        return bool(said[0] == "master" or said[3] == "connected")

    async def order(self, epoch: int, limit: float = 10.0, **what: Any) -> contract.Outcome:
        """What the operator orders, over the network."""
        sent = contract.Order(
            pod_uid=self.settings.pod_uid, epoch=epoch, limit_milliseconds=round(limit * 1000), **what
        )
        port = self.settings.sidecars[self.name]
        async with opened(HOST, OPERATORS, SCOPE.node(self.name), port) as connection:
            return await answered(NodeStub(connection).Act(sent), limit + 5)


async def _ended(parts: list[asyncio.Task[None]]) -> None:
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)


def _mount(settings: Settings, config: str) -> None:
    for place in (settings.run, settings.data, settings.config, settings.users, settings.identity):
        place.mkdir(parents=True)
    port = settings.servers[settings.node]
    (settings.config / "valkey.conf").write_text(f"port {port}\n{config}")
    (settings.users / "users.acl").write_text(users_acl(PASSWORDS))
    (settings.users / "sidecar-password").write_text(PASSWORDS[SIDECAR])
    shown = material(ISSUING.node(settings.node))
    for name, content in (("tls.crt", shown.certificate), ("tls.key", shown.key), ("ca.crt", shown.trust)):
        (settings.identity / name).write_bytes(content)


def mount_record(nodes: list[Node], epoch: int, primary: str) -> None:
    """As the operator does, by way of the kubelet."""
    told = {"epoch": epoch, "primary": primary, "members": [each.name for each in nodes]}
    for each in nodes:
        (each.settings.config / "record.json").write_text(json.dumps(told))


@asynccontextmanager
async def running(
    folder: Path, version: str = "9.1", count: int = 2, config: str = CONFIG, operator: Address | None = None
) -> AsyncIterator[list[Node]]:
    """The first is primary in epoch 1, the others follow it; all are in sync."""
    names = [f"cache-0-{number}" for number in range(count)]
    servers, sidecars = ({name: free_port() for name in names} for _ in range(2))
    nodes = []
    for name in names:
        place = folder / name[-1]
        settings = Settings(
            SCOPE.namespace, SCOPE.kind, SCOPE.deployment, name, f"uid-{name}", HOST, "", "valkey-system",
            SCOPE.trust_domain, place / "r", place / "data", place / "config", place / "users", place / "id",
            servers=servers, sidecars=sidecars,
        )  # fmt: skip
        nodes.append(Node(settings, version, config, operator or Address(HOST, 1)))
    mount_record(nodes, 1, names[0])
    try:
        for each in nodes:
            await each.start_sidecar()
            each.start_entry_point()
        for each in nodes:
            await eventually(each.is_in_sync, 20)
        yield nodes
    finally:
        await asyncio.gather(*(each.end() for each in nodes))
        shutil.rmtree(folder, ignore_errors=True)


class Writer:
    """One client that writes without a pause, goes on to the next node when refused, and remembers the rest."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self.acknowledged = 0
        self.longest_gap = 0.0
        self._last = time.monotonic()
        self._kept: set[int] = set()

    async def run(self) -> None:
        number = 0
        while True:
            for each in self._nodes:
                number = await self._write_to(each, number)
            await asyncio.sleep(0.001)

    async def _write_to(self, node: Node, number: int) -> int:
        try:
            connection = await node.connect()
        except Silent:
            return number
        try:
            while True:
                number += 1
                await connection.call("SET", f"key-{number}", number, limit=15)
                now = time.monotonic()
                self.longest_gap, self._last = max(self.longest_gap, now - self._last), now
                self._kept.add(number)
                self.acknowledged += 1
        except (Silent, Refused):
            return number
        finally:
            connection.close()

    async def goes_on(self, count: int) -> None:
        await eventually(lambda: self.acknowledged > count, 10)

    async def lost(self, primary: Node) -> int:
        """How many acknowledged writes the primary does not have."""
        connection = await primary.connect()
        numbers = sorted(self._kept)
        try:
            found: list[Any] = []
            for first in range(0, len(numbers), 1000):
                found += await connection.call(
                    "MGET", *(f"key-{each}" for each in numbers[first : first + 1000])
                )
        finally:
            connection.close()
        return sum(value != str(number) for number, value in zip(numbers, found, strict=True))


class Watcher:
    """Asks all servers for their role, as fast as it can; two primaries at one moment are remembered."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._connections: dict[str, Connection] = {}
        self.looks = 0
        self.two: list[tuple[str, str]] = []

    async def run(self) -> None:
        before: list[bool] = []
        while True:
            now = [await self._is_primary(each) for each in self._nodes]
            # The first was asked before and after the second: if it was primary both times, it was so in between.
            for first, _ in enumerate(before):
                for second in range(first + 1, len(before)):
                    if before[first] and before[second] and now[first]:
                        self.two.append((self._nodes[first].name, self._nodes[second].name))
            before, self.looks = now, self.looks + 1
            await asyncio.sleep(0)

    async def _is_primary(self, node: Node) -> bool:
        try:
            if node.name not in self._connections:
                self._connections[node.name] = await node.connect()
            said = await self._connections[node.name].call("ROLE", limit=0.2)
            return bool(said[0] == "master")
        except (Silent, Refused):
            if (ended := self._connections.pop(node.name, None)) is not None:
                ended.close()
            return False

    def close(self) -> None:
        for each in self._connections.values():
            each.close()


@asynccontextmanager
async def under_load(nodes: list[Node]) -> AsyncIterator[tuple[Writer, Watcher]]:
    writer, watcher = Writer(nodes), Watcher(nodes)
    parts = [asyncio.create_task(each.run()) for each in (writer, watcher)]
    try:
        await eventually(lambda: writer.acknowledged > 100 and watcher.looks > 10)
        yield writer, watcher
    finally:
        await _ended(parts)
        watcher.close()


class Granting:
    """An operator that grants leases, over real TLS; it may be away, and it may refuse."""

    def __init__(self) -> None:
        self.promotable: list[str] = []
        self.epoch: int | None = None
        self.asked: list[contract.LeaseRequest] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        context = OPERATORS.server_context()
        self._server = await asyncio.start_server(self._serve, HOST, self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            self._server = None

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, EOFError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = int(head.lower().split("content-length:")[1].split("\r\n")[0])
                request = contract.LeaseRequest.FromString(await reader.readexactly(size))
                writer.write(self._answer(head, request))
        self._writers.discard(writer)
        writer.close()

    def _answer(self, head: str, request: contract.LeaseRequest) -> bytes:
        assert head.startswith("POST /v1/lease ")
        self.asked.append(request)
        grant = contract.LeaseGrant(epoch=request.epoch, milliseconds=6000, promotable=self.promotable)
        status, body = "200 OK", grant.SerializeToString()
        if self.epoch is not None and request.epoch != self.epoch:
            status, body = "409 Conflict", b"the epoch is another one"
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def writes(node: Node) -> bool:
    """Whether this server takes a write now."""
    try:
        await node.ask("SET", "probe", "1")
    except (Refused, Silent):
        return False
    return True

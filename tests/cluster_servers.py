"""Real servers in cluster mode on one machine, each with the part of a sidecar that carries out orders."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.caches import eventually
from tests.ports import free_port
from tests.server_programs import server_command
from tests.unit.test_sidecar_orders import Pod
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import ClusterView, SlotRange, as_ranges
from valkey_operator.model.gate import Record
from valkey_operator.sidecar import cluster_words, observer
from valkey_operator.sidecar.candidacy import Candidacy
from valkey_operator.sidecar.cluster_orders import ClusterOrders, Known
from valkey_operator.sidecar.haste import Haste
from valkey_operator.sidecar.hush import Hush
from valkey_operator.sidecar.mover import Mover
from valkey_operator.sidecar.orders import Orders
from valkey_operator.sidecar.process import ServerProcess
from valkey_operator.sidecar.server import LivingServer
from valkey_operator.sidecar.slot_orders import SlotOrders
from valkey_operator.valkey.connection import Connection, Refused, Silent

HOST = "127.0.0.1"
VERSIONS = ("8.0", "8.1", "9.1")
NODE_TIMEOUT = "3000"
CONFIG = (
    'save ""\nappendonly no\ncluster-enabled yes\ncluster-allow-replica-migration no\nrepl-diskless-sync-delay 0\n'
    f"repl-diskless-load on-empty-db\ncluster-node-timeout {NODE_TIMEOUT}\nbind {HOST}\nprotected-mode no\n"
    "enable-debug-command local\n"
)


class Member(Pod):
    """One server; its files stay when it is killed, and it may come back at another address."""

    def __init__(self, name: str, folder: Path, version: str, everyone: dict[str, Member]) -> None:
        super().__init__()
        self.node, self.folder, self.version, self._everyone = name, folder, version, everyone
        self.record = Record()
        self.living: LivingServer | None = None
        self.port = self.bus = 0
        self.process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self.begin_sidecar()
        folder.mkdir()

    def begin_sidecar(self) -> None:
        """As after a crash of it: what it remembered is gone."""
        self.mover, self.haste, self.hush = Mover(), Haste(self.directive), Hush(self.directive)
        self.candidacy = Candidacy(self.directive)
        self._orders = Orders(self)

    async def start(self, *, moved: bool = False) -> None:
        if moved or not self.port:
            self.port, self.bus = free_port(), free_port()
        socket_file = self.folder / "s"
        socket_file.unlink(missing_ok=True)
        own = f"port {self.port}\ncluster-port {self.bus}\ncluster-announce-ip {HOST}\ndir {self.folder}\n"
        own += "cluster-replica-no-failover yes\n"
        own += f"cluster-announce-hostname {self.folder.parent.name}-{self.node}.ns.svc\n"
        (self.folder / "c").write_text(CONFIG + own + f"unixsocket {socket_file}\n")
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *server_command(self.version), str(self.folder / "c"), stdout=log, stderr=log
            )
        await eventually(lambda: _accepts(socket_file), 10)
        held = ServerProcess.hold(self.process.pid)
        assert held is not None
        self.living = LivingServer(held, socket_file, "", lambda: [""], self._follow)
        self._watch = asyncio.create_task(self.living.watch())

    async def _follow(self, server: LivingServer) -> None:
        if server.info is not None:
            # As the pod does: with the next look it is tried again.
            with contextlib.suppress(Silent, Refused):
                await self.haste.look(server)
                await self.hush.look(server)
                await self.candidacy.look(server)

    async def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
        await self.process.wait()
        await self.mover.cancel()
        if self._watch is not None:
            await self._watch
        self.living = self._watch = None

    def running_server(self) -> Any:
        return self.living

    def cluster_orders(self) -> Known:
        return {**ClusterOrders(self).known(), **SlotOrders(self).known()}

    def directive(self, name: str, otherwise: str) -> str:
        return {"cluster-node-timeout": NODE_TIMEOUT}.get(name, otherwise)

    async def peer(self, node: str, _host: str = "") -> contract.Observation | None:
        other = self._everyone.get(node)
        return await other.observe_now() if other is not None and other.living is not None else None

    async def observe_now(self) -> contract.Observation:
        if self.living is not None:
            await self.living.look_now()
        return self.observe()

    def observe(self) -> contract.Observation:
        found = contract.Observation(node=self.node, pod_uid=self.pod_uid)
        if self.living is not None:
            seen = self.living.cluster
            view = cluster_words.view(seen, self.mover.seen) if seen is not None else None
            found.server.CopyFrom(observer.server(self.living.info, (), view))
        return found

    async def order(self, limit: float = 10.0, **what: Any) -> contract.Outcome:
        order = contract.Order(pod_uid=self.pod_uid, limit_milliseconds=round(limit * 1000), **what)
        return await self._orders.carry_out(order)

    async def obeys(self, **what: Any) -> contract.Outcome:
        outcome = await self.order(**what)
        assert outcome.result == contract.RESULT_DONE, outcome.message
        return outcome

    async def ask(self, *words: str | int) -> Any:
        assert self.living is not None
        return await self.living.call(*words)

    async def view(self) -> ClusterView:
        assert self.living is not None
        await self.living.look_now()
        assert self.living.cluster is not None, self.node
        return self.living.cluster

    async def id(self) -> str:
        return str(await self.ask("CLUSTER", "MYID"))

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}@{self.bus}"

    async def acquaintance(self) -> contract.Acquaintance:
        return contract.Acquaintance(node=self.node, node_id=await self.id(), address=self.address)


async def _accepts(socket_file: Path) -> bool:
    """The file is there a moment before the server listens."""
    try:
        connection = await Connection.open(socket_file)
    except Silent:
        return False
    connection.close()
    return True


@asynccontextmanager
async def servers(
    folder: Path, names: Iterable[str], version: str | dict[str, str] = "9.1"
) -> AsyncIterator[dict[str, Member]]:
    everyone: dict[str, Member] = {}
    for name in names:
        of = version if isinstance(version, str) else version[name]
        everyone[name] = Member(name, folder / name, of, everyone)
    try:
        await asyncio.gather(*(each.start() for each in everyone.values()))
        yield everyone
    finally:
        await asyncio.gather(*(each.kill() for each in everyone.values() if each.process is not None))
        for each in everyone.values():
            shutil.rmtree(each.folder, ignore_errors=True)


def ranges(*slots: SlotRange) -> list[contract.SlotRange]:
    return [contract.SlotRange(first=first, last=last) for first, last in slots]


def ranges_of(slots: Iterable[int]) -> list[contract.SlotRange]:
    return ranges(*as_ranges(slots))


@asynccontextmanager
async def formed(
    folder: Path, shards: int = 2, replicas: int = 0, version: str | dict[str, str] = "9.1", empty: int = 0
) -> AsyncIterator[dict[str, Member]]:
    """By hand: `a`, `b`… own slots, `a1` follows `a`; `empty` more primaries own nothing."""
    primaries = [chr(ord("a") + i) for i in range(shards + empty)]
    names = [name for each in primaries for name in (each, *(f"{each}{i + 1}" for i in range(replicas)))]
    async with servers(folder, names, version) as everyone:
        step = 16384 // shards
        for i, name in enumerate(primaries[:shards]):
            last = 16383 if i == shards - 1 else (i + 1) * step - 1
            await everyone[name].ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            await everyone[name].ask("CLUSTER", "ADDSLOTSRANGE", i * step, last)
        for each in everyone.values():
            await each.obeys(hurry=contract.Hurry(milliseconds=20000))
            await everyone["a"].ask("CLUSTER", "MEET", HOST, each.port, each.bus)
        for name, each in everyone.items():
            if len(name) > 1:
                await each.obeys(replicate=contract.Replicate(primary=await everyone[name[0]].id()))
        await eventually(lambda: agree(everyone.values()), 20)
        for each in everyone.values():
            await each.obeys(hurry=contract.Hurry())
        yield everyone


async def agree(everyone: Iterable[Member]) -> bool:
    there = [each for each in everyone if each.living is not None]
    views = [await each.view() for each in there]
    infos = [(each.living.info or {}) for each in there if each.living is not None]
    linked = all(info.get("role") == "master" or info.get("master_link_status") == "up" for info in infos)
    return (
        linked
        and all(view.is_ok and len(view.by_id) == len(views) for view in views)
        and len({view.shards_digest for view in views}) == 1
    )


class Writer:
    """Counts up keys of its own, one write after the other, follows redirects, and remembers what was acknowledged."""

    def __init__(self, everyone: dict[str, Member], keys: int = 500, *, until_copied: bool = False) -> None:
        self._everyone, self._keys = everyone, keys
        # Counts as kept only what a replica has, too: before a crash of a primary, other writes may be lost.
        self._until_copied = until_copied
        self._open: dict[int, Connection] = {}
        self.values: dict[str, int] = {}
        self.in_doubt: dict[str, set[int]] = {}
        self.acknowledged = 0
        self.longest_gap = 0.0
        self._at: dict[str, int] = {}

    async def run(self) -> None:
        number, last = 0, time.monotonic()
        while True:
            number += 1
            key = f"w{number % self._keys}"
            try:
                await self._write(key, number)
            except asyncio.CancelledError:
                self.in_doubt.setdefault(key, set()).add(number)
                raise
            now = time.monotonic()
            self.longest_gap, last = max(self.longest_gap, now - last), now
            self.acknowledged += 1

    async def _write(self, key: str, value: int) -> None:
        port, asking = self._at.get(key) or next(iter(self._everyone.values())).port, False
        while True:
            try:
                connection = await self._connected(port)
                if asking:
                    await connection.call("ASKING")
                await connection.call("SET", key, value)
            except Refused as refusal:
                asking = refusal.code == "ASK"
                if refusal.code in ("MOVED", "ASK"):
                    port = int(str(refusal).rsplit(":", 1)[1])
                else:
                    await asyncio.sleep(0.005)
                if refusal.code == "MOVED":
                    self._at[key] = port
            except Silent:
                self.in_doubt.setdefault(key, set()).add(value)
                asking = False
                await asyncio.sleep(0.01)
                port = random.choice([m.port for m in self._everyone.values() if m.living is not None])  # noqa: S311
            else:
                if self._until_copied and not await self._is_copied(connection):
                    self.in_doubt.setdefault(key, set()).add(value)
                else:
                    self.values[key] = value
                return

    async def _is_copied(self, connection: Connection) -> bool:
        try:
            return bool(await connection.call("WAIT", 1, 20))
        except (Refused, Silent):
            return False

    async def _connected(self, port: int) -> Connection:
        found = self._open.get(port)
        if found is None or found.is_closed:
            member = next((each for each in self._everyone.values() if each.port == port), None)
            if member is None:
                raise Silent("nobody is there")
            self._open[port] = found = await Connection.open(member.folder / "s")
        return found

    async def lost(self) -> list[str]:
        """Keys whose value is neither the last acknowledged one nor one of those that were in doubt."""
        wrong = []
        for key, value in self.values.items():
            found = int(await read(self._everyone, key) or 0)
            if found != value and found not in self.in_doubt.get(key, ()):
                wrong.append(f"{key}: {found} and not {value}")
        return wrong

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()


async def read(everyone: dict[str, Member], key: str, *words: str | int) -> Any:
    """As a client that follows redirects."""
    member = next(each for each in everyone.values() if each.living is not None)
    for _ in range(200):
        try:
            return await member.ask(*(words or ("GET", key)))
        except Refused as refusal:
            if refusal.code in ("MOVED", "ASK"):
                port = int(str(refusal).rsplit(":", 1)[1])
                member = next(each for each in everyone.values() if each.port == port)
            else:
                await asyncio.sleep(0.02)
    raise AssertionError(f"{key} cannot be read")


@asynccontextmanager
async def writing(
    everyone: dict[str, Member], keys: int = 500, *, until_copied: bool = False
) -> AsyncIterator[Writer]:
    writer = Writer(everyone, keys, until_copied=until_copied)
    task = asyncio.create_task(writer.run())
    try:
        await eventually(lambda: writer.acknowledged > keys, 20)
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


async def fill(member: Member, count: int, size: int = 100) -> None:
    """Keys for every slot of this server."""
    slots = (await member.view()).own.slots
    tags = _tags()
    connection = await Connection.open(member.folder / "s")
    try:
        chosen = [tags[slot] for slot in sorted(slots)]
        commands: list[tuple[Any, ...]] = [
            ("SET", f"k{i}:{{{chosen[i % len(chosen)]}}}", "x" * size) for i in range(count)
        ]
        for first in range(0, count, 5000):
            await connection.call_all(commands[first : first + 5000], limit=60)
    finally:
        connection.close()


def key_slot(key: str) -> int:
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
    return (crc & 0xFFFF) % 16384


_TAGS: dict[int, str] = {}


def _tags() -> dict[int, str]:
    """For each slot a word that falls into it."""
    number = 0
    while len(_TAGS) < 16384:
        _TAGS.setdefault(key_slot(str(number)), str(number))
        number += 1
    return _TAGS


def tag_of(slot: int) -> str:
    return _tags()[slot]


def stop(member: Member, how: signal.Signals = signal.SIGSTOP) -> None:
    assert member.process is not None
    os.kill(member.process.pid, how)

"""One leads; a leader that is frozen, cut off or gone never writes beside its successor."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from devcluster.cluster import Cluster
from devcluster.faults import Faults
from tests.caches import PATIENCE, eventually, filled, running
from tests.interloper import Interloper
from valkey_operator.kube import access, errors
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.lease import Leadership, Lease
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS, LEASES

DURATION = 3


class Record(Object, frozen=True, gc=False):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Process:
    """The leader program, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.said.append(line.decode().strip())

    async def says(self, word: str, count: int = 1) -> None:
        await eventually(lambda: self.said.count(word) >= count)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def is_frozen(self) -> bool:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def end(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self.ended()

    async def ended(self) -> int:
        code = await asyncio.wait_for(self._process.wait(), PATIENCE)
        await self._reading
        return code


class Stage:
    """A namespace in which leaders compete, and the order in which their writes arrived."""

    def __init__(self, kubeconfig: Path, namespace: str, client: Client) -> None:
        self.namespace, self.client = namespace, client
        self._kubeconfig = kubeconfig
        self._processes: list[Process] = []
        self.writers: list[str] = []
        self.cache = Informer(client, CONFIG_MAPS, Record, [namespace])
        self.cache.store.on_change(self._saw)

    def _saw(self, _before: Object | None, after: Object | None) -> None:
        if isinstance(after, Record) and after.key.name == "record":
            self.writers.append(after.data["writer"])

    async def start(self, identity: str, *options: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.apiserver.leader_program", str(self._kubeconfig), self.namespace,
            identity, f"--duration={DURATION}", *options, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self._processes.append(Process(process))
        return self._processes[-1]

    async def close(self) -> None:
        for process in self._processes:
            await process.end()

    def writes_after(self, successor: str) -> set[str]:
        """Who wrote after the successor's first write."""
        return set(self.writers[self.writers.index(successor) :])


@pytest.fixture
async def stage(cluster: Cluster, namespace: str) -> AsyncIterator[Stage]:
    async with Client(access.from_kubeconfig(str(cluster.kubeconfig))) as client:
        made = Stage(cluster.kubeconfig, namespace, client)
        async with filled(made.cache):
            try:
                yield made
            finally:
                await made.close()


async def test_a_clean_exit_passes_the_lead_on_at_once(stage: Stage) -> None:
    first = await stage.start("first")
    await first.says("leads")
    second = await stage.start("second")
    await eventually(lambda: "first" in stage.writers)
    await asyncio.sleep(1)  # the second has filled its caches, and does not lead
    assert "leads" not in second.said
    first.send(signal.SIGTERM)
    left = time.monotonic()
    await second.says("leads")
    assert time.monotonic() - left < 2
    assert await first.ended() == 0
    assert first.said[-2:] == ["stopped", "ended"]
    await eventually(lambda: "second" in stage.writers)
    assert stage.writes_after("second") == {"second"}


async def test_a_crash_passes_the_lead_on_within_the_lease(stage: Stage) -> None:
    first = await stage.start("first")
    await first.says("leads")
    second = await stage.start("second")
    await asyncio.sleep(1)
    await first.end()
    left = time.monotonic()
    await second.says("leads")
    assert time.monotonic() - left < DURATION + 2


async def test_a_leader_frozen_in_the_middle_of_a_write_does_not_finish_it_when_another_leads(
    stage: Stage,
) -> None:
    first = await stage.start("first", "--freeze-at=20")
    await eventually(lambda: first.is_frozen)
    written = stage.writers.count("first")
    second = await stage.start("second")
    await second.says("leads")
    await eventually(lambda: "second" in stage.writers)
    first.send(signal.SIGCONT)
    await first.says("stopped")
    await asyncio.sleep(1)
    assert stage.writes_after("second") == {"second"}
    assert stage.writers.count("first") == written


async def test_leaders_frozen_at_random_moments_never_write_beside_their_successors(stage: Stage) -> None:
    """Each freezes while it writes without pause, and wakes when another has led for a while."""
    leader, standby = await stage.start("leader0"), await stage.start("leader1")
    await eventually(lambda: bool(stage.writers))
    if stage.writers[-1] == "leader1":
        leader, standby = standby, leader
    for _ in range(3):
        await asyncio.sleep(random.uniform(0, 0.5))  # noqa: S311 - spread, not secrecy
        before, turns = stage.writers[-1], standby.said.count("leads")
        leader.send(signal.SIGSTOP)
        await standby.says("leads", turns + 1)
        await eventually(lambda before=before: stage.writers[-1] != before)  # type: ignore[misc]
        mark, successor = len(stage.writers), stage.writers[-1]
        leader.send(signal.SIGCONT)
        await asyncio.sleep(1)
        assert set(stage.writers[mark:]) == {successor}
        leader, standby = standby, leader


async def test_one_that_lost_the_lead_remembers_nothing_when_it_leads_again(stage: Stage) -> None:
    """It is the same process still: its container was not restarted."""
    first = await stage.start("first")
    await eventually(lambda: stage.writers.count("first") > 20)
    first.send(signal.SIGSTOP)
    second = await stage.start("second")
    await second.says("leads")
    first.send(signal.SIGCONT)
    await first.says("ended")
    await second.end()
    await first.says("leads", 2)
    assert [word for word in first.said if word.startswith("remembers")] == ["remembers 0"] * 2
    first.send(signal.SIGTERM)
    assert await first.ended() == 0
    assert first.said.count("ended") == 2


async def test_one_that_begins_while_the_server_is_away_waits_for_it(stage: Stage, faults: Faults) -> None:
    with faults.stop("api"):
        first = await stage.start("first")
        await asyncio.sleep(3)
        assert first.is_alive
        assert not first.said
    await first.says("leads")


async def test_a_leader_cut_off_from_the_server_stops_before_another_may_start(
    cluster: Cluster, stage: Stage
) -> None:
    """The moment at which its fence closes comes before the moment at which the standby leads."""
    closed: list[float] = []
    async with Interloper(cluster.kubeconfig) as between, Client(between.access) as cut_off:
        first = Leadership(cut_off, Key(stage.namespace, "leader"), "first", duration=DURATION)

        async def work() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                closed.append(time.monotonic())

        async def again_and_again() -> None:
            while not await first.run(work):
                pass

        async with running(again_and_again()):
            await eventually(lambda: first.leads)
            second = await stage.start("second")
            await asyncio.sleep(1)
            between.freeze()
            await eventually(lambda: not first.leads)
            fenced = time.monotonic()
            with pytest.raises(errors.NotLeader, match="first does not lead"):
                first.time_left()
            assert "leads" not in second.said
            await second.says("leads")
            assert time.monotonic() > fenced
            await eventually(lambda: len(closed) == 1)
            between.heal()
            await eventually(lambda: first.leader == "second")


async def test_no_write_may_take_longer_than_the_lead_is_sure(cluster: Cluster, stage: Stage) -> None:
    way = access.from_kubeconfig(str(cluster.kubeconfig))
    async with (
        Interloper(cluster.kubeconfig) as between,
        Client(way) as free,
        contextlib.AsyncExitStack() as stack,
    ):
        leadership = Leadership(free, Key(stage.namespace, "leader"), "me", duration=DURATION)
        fenced = await stack.enter_async_context(Client(between.access, fence=leadership))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
        with pytest.raises(errors.NotLeader):
            await fenced.create(CONFIG_MAPS, stage.namespace, body, Object)
        async with running(leadership.run(lambda: asyncio.sleep(3600))):
            await eventually(lambda: leadership.leads)
            await fenced.create(CONFIG_MAPS, stage.namespace, body, Object)
            between.freeze()
            begun = time.monotonic()
            with pytest.raises(errors.Unreachable):
                await fenced.delete(CONFIG_MAPS, Key(stage.namespace, "late"))
            assert time.monotonic() - begun < DURATION
            assert all(asked.method != "GET" for asked in between.requests)


async def test_a_lead_is_kept_while_the_server_restarts(stage: Stage, faults: Faults) -> None:
    leadership = Leadership(stage.client, Key(stage.namespace, "leader"), "me", duration=15)
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async with running(leadership.run(work)):
        await eventually(lambda: leadership.leads)
        faults.restart("api")
        first = await stage.client.get(LEASES, Key(stage.namespace, "leader"), Lease)

        async def renewed() -> bool:
            with contextlib.suppress(errors.KubeError):
                found = await stage.client.get(LEASES, Key(stage.namespace, "leader"), Lease)
                return found.version > first.version
            return False

        await eventually(renewed)
        assert leadership.leads
        assert not ended


async def test_a_lease_taken_away_by_hand_closes_the_fence_at_once(stage: Stage) -> None:
    key = Key(stage.namespace, "leader")
    leadership = Leadership(stage.client, key, "me", duration=15)
    async with running(leadership.run(lambda: asyncio.sleep(3600))):
        await eventually(lambda: leadership.leads)
        await stage.client.patch(LEASES, key, {"spec": {"holderIdentity": "thief"}}, Object)
        await eventually(lambda: not leadership.leads)
        assert leadership.leader == "thief"


async def test_two_that_start_together_do_not_both_lead(stage: Stage) -> None:
    leaders = [
        Leadership(stage.client, Key(stage.namespace, "leader"), f"l{n}", duration=DURATION) for n in range(5)
    ]
    async with running(*(leader.run(lambda: asyncio.sleep(3600)) for leader in leaders)):
        await eventually(lambda: any(leader.leads for leader in leaders))
        for _ in range(20):
            assert sum(leader.leads for leader in leaders) == 1
            await asyncio.sleep(0.05)

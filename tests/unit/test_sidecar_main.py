"""The whole sidecar beside a real server, without a pod: what the operator hears of it, and when."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import shlex
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.heartbeats import KEY, Operator, eventually, operator, started
from tests.mtls import ISSUING, material
from tests.server_programs import server_command
from tests.sidecar_program import CONFIG, PASSWORD, UID, USERS, prepare, settings
from tests.unit.test_contract_mtls_reload import mount
from valkey_operator.contract.mtls import thumbprints
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.render.scripts import ENTRY_POINT, HOOK, SUPERVISOR
from valkey_operator.render.users import SIDECAR
from valkey_operator.settings.sidecar import SidecarSettings
from valkey_operator.sidecar import main
from valkey_operator.sidecar.files import SOCKET
from valkey_operator.sidecar.handover import Handover
from valkey_operator.sidecar.pod import Pod
from valkey_operator.valkey import config_file
from valkey_operator.valkey.connection import Connection

Kind = contract.Event.Kind


@pytest.fixture
async def leader() -> AsyncIterator[Operator]:
    made = operator(1, leader=1)
    async with started(made):
        yield made


@asynccontextmanager
async def running(
    folder: Path, operator_address: str, more: str = ""
) -> AsyncIterator[tuple[Process, Process, SidecarSettings]]:
    """A server, behind the pod's own entry point, and its sidecar."""
    place = settings(folder, operator_address)
    prepare(place)
    with (place.config / "valkey.conf").open("a") as file:
        file.write(more)
    server = await entry_point(place)
    program = (sys.executable, "-m", "tests.sidecar_program", str(folder), operator_address)
    sidecar = await asyncio.create_subprocess_exec(*program)
    try:
        yield server, sidecar, place
    finally:
        for process in (server, sidecar):
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def entry_point(place: SidecarSettings) -> Process:
    script = ENTRY_POINT.replace("/run/valkey", str(place.run)).replace("cd /data", f"cd {place.data}")
    script = script.replace("exec valkey-server", f"exec {shlex.join(server_command())}")
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=quiet, stderr=quiet)


@asynccontextmanager
async def shell(script: str, stdout: int | None = None) -> AsyncIterator[Process]:
    """Ended at the end, at the latest."""
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=stdout)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def kill_server(place: SidecarSettings) -> None:
    os.kill(int((place.run / "pid").read_text()), signal.SIGKILL)


def kinds(leader: Operator) -> list[Kind]:
    return [event.kind for event in leader.events]


async def test_the_operator_hears_of_everything_at_once(leader: Operator, tmp_path: Path) -> None:
    async with running(tmp_path, str(leader.address)) as (server, sidecar, place):
        await eventually(lambda: Kind.KIND_SERVER_STARTED in kinds(leader), 30)
        _is_seen_as_it_is(leader)
        await _changes_its_role(leader, place)
        await _shows_a_new_certificate(leader, place)
        (place.run / "stopping").write_text("yes")  # as the preStop hook does
        kill_server(place)
        await server.wait()
        sidecar.terminate()  # as the kubelet does right after the server's end
        await asyncio.wait_for(sidecar.wait(), 5)
    assert kinds(leader)[-1] == Kind.KIND_SERVER_DIED
    assert not leader.heard[-1].HasField("server")
    assert leader.heard[-1].fingerprints.config == ""
    assert sorted(kinds(leader)) == sorted(
        [Kind.KIND_STARTED_EMPTY, Kind.KIND_SERVER_STARTED, Kind.KIND_READINESS_CHANGED, Kind.KIND_ROLE_CHANGED,
         Kind.KIND_READINESS_CHANGED, Kind.KIND_CERTIFICATE_RELOADED, Kind.KIND_SERVER_DIED]
    )  # fmt: skip


def _is_seen_as_it_is(leader: Operator) -> None:
    seen = leader.heard[-1]
    assert (seen.node, seen.pod_uid) == (KEY.name, UID)
    assert seen.fingerprints.config == config_file.fingerprint(config_file.parse(CONFIG))
    assert seen.fingerprints.users == hashlib.sha256(USERS.encode()).hexdigest()
    assert len(seen.fingerprints.sidecar_certificate) == 64
    assert seen.fingerprints.trust == thumbprints(ISSUING.root.certificate)[0]
    assert 0 < seen.disk.free_bytes < seen.disk.size_bytes


async def _changes_its_role(leader: Operator, place: SidecarSettings) -> None:
    await eventually((place.run / SOCKET).exists)
    connection = await Connection.open(place.run / SOCKET, SIDECAR, PASSWORD)
    await asyncio.sleep(1.2)  # so that it was seen as a primary
    await connection.call("REPLICAOF", "127.0.0.1", 1)
    assert await eventually(lambda: Kind.KIND_ROLE_CHANGED in kinds(leader)) < 2.5
    (told,) = (event for event in leader.events if event.kind == Kind.KIND_ROLE_CHANGED)
    assert told.message == "from master to slave"
    assert leader.heard[-1].server.role == contract.ROLE_REPLICA
    connection.close()


async def _shows_a_new_certificate(leader: Operator, place: SidecarSettings) -> None:
    new = material(ISSUING.node())
    mount(place.identity, "..2", new)
    assert await eventually(lambda: Kind.KIND_CERTIFICATE_RELOADED in kinds(leader)) < 2.5
    assert leader.heard[-1].fingerprints.sidecar_certificate == thumbprints(new.certificate)[0]


async def test_without_an_operator_it_works_and_ends_soon(tmp_path: Path) -> None:
    async with running(tmp_path, "127.0.0.1:1") as (server, sidecar, place):
        await eventually((place.run / SOCKET).exists, 30)
        server.kill()
        kill_server(place)  # as the kernel does with whatever else is in the container
        sidecar.terminate()
        await asyncio.wait_for(sidecar.wait(), main.PARTING + 2)


async def test_told_to_end_it_stays_until_its_server_has_handed_over_and_stopped(
    leader: Operator, tmp_path: Path
) -> None:
    async with running(tmp_path, str(leader.address)) as (server, sidecar, place):
        await eventually(lambda: Kind.KIND_READINESS_CHANGED in kinds(leader), 30)
        sidecar.terminate()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(sidecar.wait()), 2)
        (place.run / "sidecar").write_text(f"{sidecar.pid}\n")
        hook = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", HOOK.replace("/run/valkey", str(place.run))
        )
        assert await asyncio.wait_for(hook.wait(), 10) == 0
        assert await asyncio.wait_for(sidecar.wait(), 5) == 0
        await asyncio.wait_for(server.wait(), 5)
    assert kinds(leader)[-3:] == [
        Kind.KIND_POD_STOPPING, Kind.KIND_READINESS_CHANGED, Kind.KIND_SERVER_DIED,
    ]  # fmt: skip


class TestEnd:
    """When a sidecar that is told to end may do so."""

    @pytest.fixture
    async def server(self) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec("sleep", "60")
        yield process
        if process.returncode is None:
            process.kill()
        await process.wait()

    @pytest.fixture
    def pod(self, tmp_path: Path, server: Process) -> Pod:
        place = settings(tmp_path, "127.0.0.1:1")
        prepare(place)
        (place.run / "pid").write_text(str(server.pid))
        return Pod(place, lambda *_: None, contract.Fingerprints)

    async def test_not_before_its_server(self, pod: Pod, server: Process) -> None:
        ending = asyncio.create_task(pod.may_end())
        assert not (await asyncio.wait([ending], timeout=1))[0]
        server.kill()
        await asyncio.wait_for(ending, 5)

    async def test_at_once_without_a_server(self, pod: Pod, server: Process) -> None:
        server.kill()
        await server.wait()
        await asyncio.wait_for(pod.may_end(), 0.4)

    async def test_before_its_server_when_it_is_replaced(self, pod: Pod) -> None:
        pod.step_aside()
        await asyncio.wait_for(pod.may_end(), 5)

    async def test_not_when_the_pod_ends_while_it_is_being_replaced(self, pod: Pod, server: Process) -> None:
        pod.step_aside()
        ending = asyncio.create_task(pod.may_end())
        await pod.leave()
        assert not (await asyncio.wait([ending], timeout=1))[0]
        server.kill()
        await asyncio.wait_for(ending, 5)

    async def test_who_was_to_be_replaced_and_was_not_stays(
        self, pod: Pod, server: Process, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("valkey_operator.sidecar.pod.STEP_ASIDE", 0.0)
        pod.step_aside()
        await self.test_not_before_its_server(pod, server)


class TestSupervisor:
    """What starts the sidecar again and again."""

    @asynccontextmanager
    async def supervising(self, folder: Path, sidecar: str) -> AsyncIterator[Process]:
        """A shell script in place of the sidecar."""
        script = SUPERVISOR.replace("/run/valkey", str(folder)).replace("/data", str(folder))
        script = script.replace(
            "python3.13 -S -m valkey_operator.sidecar", f"/bin/sh {folder / 'sidecar.sh'}"
        )
        (folder / "sidecar.sh").write_text(sidecar)
        async with shell(script) as process:
            yield process

    async def test_who_ends_or_fails_is_started_again(self, tmp_path: Path) -> None:
        ends = f'echo "$STOPPING" >>{tmp_path}/starts; [ $(wc -l <{tmp_path}/starts) = 2 ] && exit 1; exit 0'
        async with self.supervising(tmp_path, ends):
            await eventually(lambda: lines(tmp_path / "starts") >= 4, 10)

    async def test_who_fails_after_it_was_told_to_end_is_started_again_and_told(self, tmp_path: Path) -> None:
        fails_once = (
            f'echo "$STOPPING" >>{tmp_path}/starts; [ "$STOPPING" ] && exit 0\n'
            "trap 'exit 1' TERM; while true; do sleep 0.05; done"
        )
        async with self.supervising(tmp_path, fails_once) as process:
            await eventually(lambda: lines(tmp_path / "starts") == 1, 10)
            process.terminate()
            await asyncio.wait_for(process.wait(), 10)
        assert (tmp_path / "starts").read_text().splitlines() == ["", "yes"]


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def test_a_server_that_was_killed_is_there_again_at_once(leader: Operator, tmp_path: Path) -> None:
    async with running(tmp_path, str(leader.address)) as (_, _, place):
        for number in range(1, 4):
            ready = [Kind.KIND_STARTED_EMPTY, Kind.KIND_SERVER_STARTED, Kind.KIND_READINESS_CHANGED]
            expected = [
                *([*ready, Kind.KIND_READINESS_CHANGED, Kind.KIND_SERVER_DIED] * (number - 1)),
                *ready,
            ]
            await eventually(lambda expected=expected: kinds(leader) == expected, 30)  # type: ignore[misc]
            kill_server(place)
        await eventually(lambda: kinds(leader)[-3:] == ready, 30)


async def test_a_server_that_cannot_start_is_tried_less_and_less_often(
    leader: Operator, tmp_path: Path
) -> None:
    async with running(tmp_path, str(leader.address), "port no-number") as (server, _, place):
        # Once it ends with an error, so that the kubelet shows what the server said; then it is started again.
        assert await asyncio.wait_for(server.wait(), 30) == 1
        again = await entry_point(place)
        await eventually(lambda: kinds(leader).count(Kind.KIND_SERVER_DIED) == 3, 30)
        assert again.returncode is None
        again.terminate()
        await again.wait()
        times = [event.at for event in leader.events if event.kind == Kind.KIND_SERVER_STARTED]
    first, second = (later - earlier for earlier, later in itertools.pairwise(times))
    assert second > first > 400
    assert "ended" in leader.heard[-1].not_ready


class TestHook:
    """The preStop hook of the server's container."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        for name in ("handover", "handed-over"):
            os.mkfifo(tmp_path / name)
        return tmp_path

    @asynccontextmanager
    async def asking(self, run: Path, sidecar: int) -> AsyncIterator[Process]:
        (run / "sidecar").write_text(f"{sidecar}\n")
        async with shell(HOOK.replace("/run/valkey", str(run)), stdout=asyncio.subprocess.PIPE) as hook:
            yield hook

    async def test_it_waits_for_the_answer_of_a_sidecar_that_lives(self, run: Path) -> None:
        async with self.asking(run, os.getpid()) as hook:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hook.wait(), 6)
            assert (run / "stopping").read_text() == "yes\n"
            answer = os.open(run / "handed-over", os.O_RDWR)
            os.write(answer, f"0\n{hook.pid}\n".encode())
            # Nothing it has started keeps its output open, for which a kubelet would wait.
            assert hook.stdout is not None
            assert await asyncio.wait_for(hook.stdout.read(), 0.9) == b""
            assert await asyncio.wait_for(hook.wait(), 5) == 0
            os.close(answer)

    async def test_a_pod_that_is_deleted_before_its_sidecar_runs_waits_for_it(self, tmp_path: Path) -> None:
        done: list[str] = []

        async def hand_over() -> None:
            done.append("handed over")

        async with self.asking(tmp_path, os.getpid()) as hook:
            await eventually((tmp_path / "stopping").exists)
            await asyncio.sleep(0.3)
            assert not (tmp_path / "handover").exists(), "nobody hears who asks through an ordinary file"
            answers = asyncio.create_task(Handover(tmp_path, hand_over).run())
            assert await asyncio.wait_for(hook.wait(), 10) == 0
            answers.cancel()
        assert done == ["handed over"]

    async def test_it_does_not_wait_for_ever_for_a_sidecar_that_never_came(self, tmp_path: Path) -> None:
        async with self.asking(tmp_path, os.getpid()) as hook:
            assert await asyncio.wait_for(hook.wait(), 40) == 0
        assert not (tmp_path / "handover").exists()

    async def test_a_file_in_the_place_of_its_fifo_does_not_keep_a_sidecar_from_hearing(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "handover").write_text("1\n")
        handover = asyncio.create_task(Handover(tmp_path, lambda: asyncio.sleep(0)).run())
        await asyncio.sleep(0.1)
        assert not handover.done()
        assert (tmp_path / "handover").is_fifo()
        handover.cancel()

    async def test_a_question_that_went_with_a_killed_sidecar_is_asked_again(self, run: Path) -> None:
        done: list[str] = []

        async def hand_over(first: str) -> None:
            done.append(first)
            if first == "is killed in the middle":
                await asyncio.Event().wait()

        async with self.asking(run, os.getpid()) as hook:
            killed = asyncio.create_task(Handover(run, lambda: hand_over("is killed in the middle")).run())
            await eventually(lambda: len(done) == 1)
            killed.cancel()
            await asyncio.wait([killed])
            answers = asyncio.create_task(Handover(run, lambda: hand_over("answers")).run())
            assert await asyncio.wait_for(hook.wait(), 5) == 0
            await asyncio.sleep(0.1)
            answers.cancel()
            await asyncio.wait([answers])
        assert done == ["is killed in the middle", "answers"]

    async def test_without_a_sidecar_it_does_not_wait_until_the_server_is_killed(self, run: Path) -> None:
        ended = await asyncio.create_subprocess_exec("true")
        await ended.wait()
        async with self.asking(run, ended.pid) as hook:
            assert await asyncio.wait_for(hook.wait(), 20) == 0

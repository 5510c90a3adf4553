"""What the gate learns from the other nodes: real gRPC over real TLS, on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.mtls import ISSUING, material, node
from tests.pki import OPERATOR, SCOPE
from tests.unit.test_sidecar_orders import Pod
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Disk, Member, Record, Silence
from valkey_operator.sidecar import channel, members
from valkey_operator.sidecar.members import Members
from valkey_operator.sidecar.metrics import Counts

ME, B, C = "cache-0-0", "cache-0-1", "cache-0-2"


class Sidecar(Pod):
    """One that says what it is told to say."""

    def __init__(self, said: contract.Observation) -> None:
        super().__init__()
        self.said, self.asked = said, 0

    def observe(self) -> contract.Observation:
        self.asked += 1
        return self.said


@asynccontextmanager
async def sidecars(**said: contract.Observation) -> AsyncIterator[dict[str, int]]:
    async with AsyncExitStack() as stack:
        ports = {}
        for name, observation in said.items():
            full = name.replace("_", "-")
            doorman = channel.Doorman(SCOPE.node(full), OPERATOR, Counts())
            opened = channel.opened(Sidecar(observation), doorman, node(full), 0, "127.0.0.1")
            ports[full] = await stack.enter_async_context(opened)
        yield ports


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    shown = material(ISSUING.node(ME))
    for name, content in (("tls.crt", shown.certificate), ("tls.key", shown.key), ("ca.crt", shown.trust)):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def asking(identity: Path, ports: dict[str, int]) -> Members:
    return Members(SCOPE, identity, lambda name: ("127.0.0.1", ports.get(name, 1)))


UP = contract.Observation(
    server=contract.Server(answers=True, keys=3, replication=contract.Replication(offset=100)),
    record=contract.Record(epoch=4, primary=B),
)
DOWN = contract.Observation(
    record=contract.Record(epoch=3, primary=ME),
    disk=contract.Disk(has_data=True, was_stopped_cleanly=True, history="h", offset=77),
)


async def test_every_member_is_asked_and_its_answer_understood(identity: Path) -> None:
    async with sidecars(cache_0_1=UP, cache_0_2=DOWN) as ports:
        assert await asking(identity, ports).ask([B, C]) == {
            B: Member(is_up=True, record=Record(4, B), has_data=True),
            C: Member(
                record=Record(3, ME),
                disk=Disk(has_data=True, was_stopped_cleanly=True, history="h", offset=77),
            ),
        }


@pytest.mark.parametrize(
    ("server", "has_data"),
    [
        (contract.Server(answers=True), False),
        # A replica that was never in sync.
        (contract.Server(answers=True, replication=contract.Replication(offset=1)), False),
        (contract.Server(answers=True, replication=contract.Replication(offset=2)), True),
        (contract.Server(answers=True, keys=1), True),
        (contract.Server(answers=True, is_loading=True), True),
        # It runs and says nothing: nobody knows what it holds.
        (contract.Server(answers=False), True),
    ],
)
def test_whether_a_living_server_may_hold_data(server: contract.Server, has_data: bool) -> None:
    seen = members.member(contract.Observation(server=server))
    assert (seen.is_up, seen.has_data) == (True, has_data)


async def test_who_is_not_there_or_is_somebody_else_cannot_be_asked(identity: Path) -> None:
    async with sidecars(cache_0_1=UP) as ports:
        said = await asking(identity, {**ports, C: ports[B]}).ask([B, C, "cache-0-3"])
    assert isinstance(said[B], Member)
    somebody_else, nobody = said[C], said["cache-0-3"]
    assert isinstance(somebody_else, Silence)
    assert "cache-0-1, expected is" in somebody_else.reason
    assert isinstance(nobody, Silence)
    assert "Connect call failed" in nobody.reason


async def test_a_name_that_does_not_exist_is_one_sentence(identity: Path) -> None:
    lost = Members(SCOPE, identity, lambda _: ("nobody.invalid", 9443))
    said = (await lost.ask([B]))[B]
    assert isinstance(said, Silence)
    assert said.reason


async def test_the_silent_are_waited_for_all_at_once_and_not_long(
    identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "LIMIT", 0.5)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as mute:
        port = mute.sockets[0].getsockname()[1]
        begun = time.monotonic()
        said = await asking(identity, {B: port, C: port}).ask([B, C])
        assert time.monotonic() - begun < 0.9
    assert set(said.values()) == {Silence("no answer within 0 s")}


async def test_without_a_certificate_nobody_can_be_asked(tmp_path: Path) -> None:
    said = (await asking(tmp_path, {}).ask([B]))[B]
    assert isinstance(said, Silence)
    assert "there is no certificate to show: tls.crt" in said.reason

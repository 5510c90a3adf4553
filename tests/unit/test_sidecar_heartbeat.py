"""How a node's heartbeats find the operator that leads, through everything that happens to operators."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.heartbeats import KEY, Sidecar, eventually, lead, operator, sending, started
from tests.mtls import ISSUING, NOW, material, node
from tests.pki import NODE, Issuing
from valkey_operator.contract.heartbeat import LEADER, Address
from valkey_operator.contract.mtls import Credentials, Material
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.operator.heartbeats import Missing
from valkey_operator.sidecar import heartbeat, line, outbox
from valkey_operator.sidecar.line import Names, Unheard
from valkey_operator.sidecar.metrics import Count

AT_ONCE = 2.0  # on a busy machine; the next usual heartbeat would be ten seconds away
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def test_the_first_is_sent_at_once_the_next_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "PERIOD", 0.3)
    leader = operator(1, leader=1)
    begun = time.monotonic()
    async with started(leader), sending(sidecar := Sidecar(leader.address)):
        assert await eventually(lambda: len(leader.heard) == 1) < AT_ONCE
        assert await eventually(lambda: len(leader.heard) == 2) < 0.3 + AT_ONCE
        assert time.monotonic() - begun > 0.3
        await eventually(lambda: sidecar.counts[Count.HEARTBEATS_SENT] == 2)
    assert [seen.sequence for seen in leader.heard] == [1, 2]


async def test_an_event_is_sent_at_once() -> None:
    leader = operator(1, leader=1)
    async with started(leader), sending(sidecar := Sidecar(leader.address)):
        await eventually(lambda: len(leader.heard) == 1)
        sidecar.tell("a")
        assert await eventually(lambda: len(leader.events) == 1) < AT_ONCE
        await asyncio.wait_for(sidecar.outbox.emptied(), 1)


async def test_one_that_nobody_asks_for_any_more_does_not_count_on_the_operator() -> None:
    leader = operator(1, leader=1)
    async with started(leader), sending(sidecar := Sidecar(leader.address)):
        await eventually(lambda: sidecar.outbox.heard_at > 0)
        leader.pods.clear()
        sidecar.tell("a node that has no pod for a moment is still looked after")
        await eventually(lambda: sidecar.counts[Count.HEARTBEATS_FAILED] == 1)
        assert sidecar.outbox.heard_at > 0
        leader.missing = Missing.NODE
        assert await eventually(lambda: sidecar.outbox.heard_at < 0) < AT_ONCE


async def test_a_standby_sends_it_on_and_the_connection_to_the_leader_is_kept() -> None:
    leader, standby = operator(1, leader=1), operator(2, leader=1)
    async with started(leader, standby):
        sidecar = Sidecar(standby.address)
        async with sending(sidecar):
            assert await eventually(lambda: len(leader.heard) == 1) < AT_ONCE
            kept = sidecar.sender._way.line
            assert kept is not None
            assert kept.place == leader.address
            await standby.stop()
            for number in range(3):
                sidecar.tell(str(number))
                await eventually(lambda: len(leader.events) == number + 1)  # noqa: B023 - waited for here
            assert sidecar.sender._way.line is kept
    assert standby.heard == []


async def test_when_the_leader_dies_the_next_one_hears_at_once() -> None:
    """Its end is the sign: nobody waits for the next heartbeat."""
    first, second = operator(1, leader=1), operator(2, leader=1)
    async with started(first, second), sending(Sidecar(second.address)):
        await eventually(lambda: len(first.heard) == 1)
        await asyncio.sleep(1.0)
        lead(2, second)
        await first.stop()
        assert await eventually(lambda: len(second.heard) == 1) < AT_ONCE


async def test_a_leader_that_lost_the_lead_sends_on_to_the_next() -> None:
    first, second = operator(1, leader=1), operator(2, leader=1)
    async with started(first, second):
        sidecar = Sidecar(first.address)
        async with sending(sidecar):
            await eventually(lambda: len(first.heard) == 1)
            lead(2, first, second)
            sidecar.tell("a")
            await eventually(lambda: len(second.heard) == 1)
            assert [event.message for event in second.events] == ["a"]


async def test_when_the_leader_it_was_sent_to_is_dead_it_comes_back_to_the_service() -> None:
    """A lease outlives its holder for some seconds, and a standby names the dead one meanwhile."""
    standby = operator(2, leader=1)
    async with started(standby), sending(Sidecar(standby.address)):
        await asyncio.sleep(0.5)
        assert standby.heard == []
        lead(2, standby)
        assert await eventually(lambda: len(standby.heard) == 1) < 2


async def test_while_nobody_leads_it_asks_again_when_it_was_told_to() -> None:
    standby = operator(2)
    async with started(standby):
        sidecar = Sidecar(standby.address)
        async with sending(sidecar):
            await eventually(lambda: sidecar.counts[Count.HEARTBEATS_FAILED] == 1)
            begun = time.monotonic()
            lead(2, standby)
            await eventually(lambda: len(standby.heard) == 1)
            assert 0.5 < time.monotonic() - begun < 5


async def test_operators_that_name_each_other_are_not_believed_for_ever() -> None:
    first, second = operator(1, leader=2), operator(2, leader=1)
    async with started(first, second):
        sidecar = Sidecar(first.address)
        async with sending(sidecar):
            begun = time.monotonic()
            await eventually(lambda: sidecar.sequence >= 3)
            assert sidecar.sequence <= 3 + 24 * (time.monotonic() - begun)
            lead(1, first, second)
            await eventually(lambda: len(first.heard) == 1)


async def test_events_wait_for_the_operator_and_arrive_in_order_once_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leader = operator(1, leader=1)
    await leader.start()
    await leader.stop()
    caplog.set_level("INFO")
    sidecar = Sidecar(leader.address)
    async with sending(sidecar):
        for number in range(20):
            sidecar.tell(str(number))
            await asyncio.sleep(0.05)
        async with started(leader):
            await eventually(lambda: len(leader.events) == 20)
            sidecar.tell("20")
            await eventually(lambda: len(leader.events) == 21)
    assert [event.message for event in leader.events] == [str(number) for number in range(21)]
    assert len({event.at for event in leader.events}) == 21
    said = [record.getMessage() for record in caplog.records if "operator" in record.getMessage()]
    assert len(said) == 2
    assert said[0].startswith(f"the operator does not hear of this node, which goes on: {leader.address}: ")
    assert said[1] == f"the operator at {leader.address} hears of this node"


async def test_events_survive_an_operator_that_comes_and_goes() -> None:
    leader = operator(1, leader=1)
    await leader.start()
    sidecar = Sidecar(leader.address)
    async with sending(sidecar):
        for number in range(30):
            sidecar.tell(str(number))
            await asyncio.sleep(0.03)
            if number % 10 == 5:
                await leader.stop()
            if number % 10 == 8:
                await leader.start()
        await eventually(lambda: bool(leader.events) and leader.events[-1].message == "29")
    await leader.stop()
    first_of_each = dict.fromkeys((event.at, event.message) for event in leader.events)
    assert [message for _, message in first_of_each] == [str(number) for number in range(30)]


async def test_an_observation_that_overtook_the_heartbeat_costs_no_event() -> None:
    """The operator may have asked for one while the heartbeat was on its way: then it is refused as older."""
    leader = operator(1, leader=1)
    async with started(leader), sending(sidecar := Sidecar(leader.address)):
        await eventually(lambda: len(leader.heard) == 1)
        later = contract.Observation(node=NODE.node, pod_uid="uid-1", run=1, sequence=sidecar.sequence + 1)
        assert leader.observations.take(KEY, later) == ""
        sidecar.tell("a")
        assert await eventually(lambda: len(leader.events) == 1) < AT_ONCE


async def test_an_event_may_come_twice_with_the_same_time_when_the_answer_was_lost() -> None:
    seen: list[contract.Heartbeat] = []

    async def forgets_the_first_answer(body: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(contract.Heartbeat.FromString(body))
        writer.write(OK if len(seen) > 1 else b"")
        if len(seen) == 1:
            writer.transport.abort()

    async with answering(forgets_the_first_answer) as address:
        sidecar = Sidecar(address)
        sidecar.tell("a")
        async with sending(sidecar):
            await eventually(lambda: len(seen) == 2)
    assert seen[0].events == seen[1].events
    assert seen[0].observation.sequence < seen[1].observation.sequence


async def test_too_many_events_lose_the_oldest_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "MOST", 5)
    leader = operator(1, leader=1)
    async with started(leader):
        sidecar = Sidecar(leader.address)
        for number in range(12):
            sidecar.tell(str(number))
        async with sending(sidecar):
            await eventually(lambda: "dropped" in caplog.text)
    assert [event.message for event in leader.events] == ["7", "8", "9", "10", "11"]
    assert caplog.text.count("7 events were dropped before the operator heard of them") == 1


async def test_new_certificates_between_heartbeats_fail_none(caplog: pytest.LogCaptureFixture) -> None:
    """Both ends change, and so does the root."""
    newer = Issuing(NOW)
    both = ISSUING.root, newer.root
    leader = operator(1, leader=1)
    leader.credentials.replace(material(ISSUING.operator(), *both))
    credentials = Credentials.from_bytes(material(ISSUING.node(), *both))
    async with started(leader):
        sidecar = Sidecar(leader.address, credentials)
        async with sending(sidecar):
            await eventually(lambda: len(leader.heard) == 1)
            before = sidecar.sender._way.line
            credentials.replace(material(newer.node(), *both))
            leader.credentials.replace(material(newer.operator(), *both))
            sidecar.tell("reloaded")
            assert await eventually(lambda: len(leader.events) == 1) < AT_ONCE
            assert sidecar.sender._way.line is not before
            # The old root is gone: only with the new certificates do they still agree.
            credentials.replace(material(newer.node(), newer.root))
            leader.credentials.replace(material(newer.operator(), newer.root))
            sidecar.tell("reloaded again")
            assert await eventually(lambda: len(leader.events) == 2) < AT_ONCE
    assert "does not hear" not in caplog.text


@pytest.mark.parametrize(
    "shown",
    [material(ISSUING.node("cache-0-1")), material(Issuing(NOW).operator(), ISSUING.root)],
    ids=["a node in the operator's place", "an operator of another root"],
)
async def test_nothing_is_sent_to_anybody_but_the_operator(
    shown: Material, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[bytes] = []

    async def hear(body: bytes, _writer: asyncio.StreamWriter) -> None:
        got.append(body)

    async with answering(hear, Credentials.from_bytes(shown)) as address, sending(Sidecar(address)):
        await eventually(lambda: "does not hear" in caplog.text)
        await asyncio.sleep(0.3)
    assert got == []
    assert caplog.text.count("does not hear") == 1


async def test_a_leader_that_is_named_must_show_that_it_is_an_operator() -> None:
    """A standby that was told a wrong address must not make us talk to a stranger."""
    got: list[bytes] = []

    async def hear(body: bytes, _writer: asyncio.StreamWriter) -> None:
        got.append(body)

    async with answering(hear, node("cache-0-1"), "127.0.0.1") as stranger:
        standby = operator(2, leader=1, port=stranger.port)
        async with started(standby):
            sidecar = Sidecar(standby.address)
            async with sending(sidecar):
                await eventually(lambda: sidecar.sequence >= 2)
    assert got == []


async def test_without_dns_the_one_that_heard_us_last_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = operator(1, leader=1)
    answers = [leader.address.host]

    def look_up(_place: Address) -> list[str] | OSError:
        return list(answers) or socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(line, "_looked_up", look_up)
    async with started(leader):
        sidecar = Sidecar(Address("valkey-operator.valkey-system.svc", leader.port))
        async with sending(sidecar):
            await eventually(lambda: len(leader.heard) == 1)
            answers.clear()
            await leader.stop()
            sidecar.tell("a")
            await asyncio.sleep(0.3)
            await leader.start()
            await eventually(lambda: len(leader.events) == 1)


async def test_a_lookup_that_hangs_is_given_up_and_not_begun_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "LIMIT", 0.1)
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    begun: list[Address] = []
    loop = asyncio.get_running_loop()

    def hang(place: Address) -> list[str] | OSError:
        begun.append(place)
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(answer, 5), loop).result(5)
        return ["127.0.0.1"]

    monkeypatch.setattr(line, "_looked_up", hang)
    names, place = Names(), Address("valkey-operator.valkey-system.svc", 9444)
    for _ in range(3):
        with pytest.raises(Unheard, match="DNS does not answer"):
            await names.addresses(place)
    assert len(begun) == 1
    answer.set_result(None)
    await eventually(lambda: names._thread is not None and not names._thread.is_alive())
    assert await names.addresses(place) == [Address("127.0.0.1", 9444)]


async def test_one_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "LIMIT", 0.3)
    got: list[bytes] = []

    async def say_nothing(body: bytes, _writer: asyncio.StreamWriter) -> None:
        got.append(body)

    async with answering(say_nothing) as address, sending(Sidecar(address)):
        assert await eventually(lambda: len(got) >= 2) < 2


async def test_one_that_hangs_up_after_every_answer_is_not_stormed() -> None:
    got: list[bytes] = []

    async def answer_and_go(body: bytes, writer: asyncio.StreamWriter) -> None:
        got.append(body)
        writer.write(OK)
        await writer.drain()
        writer.close()

    async with answering(answer_and_go) as address, sending(Sidecar(address)):
        await asyncio.sleep(1.5)
    assert len(got) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n",
        f"HTTP/1.1 421 X\r\n{LEADER}: not.an.address:1\r\nContent-Length: 0\r\n\r\n".encode(),
        b"X" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff",
    ],
)
async def test_no_answer_however_strange_ends_it(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    answers = [answer]

    async def say(_body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop() if answers else OK)

    caplog.set_level("INFO")
    async with answering(say) as address, sending(Sidecar(address)) as task:
        await eventually(lambda: "hears of this node" in caplog.text)
        assert not task.done()
    assert caplog.text.count("does not hear") == 1


async def test_an_observation_that_cannot_be_made_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    leader = operator(1, leader=1)
    async with started(leader):
        sidecar = Sidecar(leader.address)
        good, failures = sidecar.sender._observe, [OSError("the volume is away")] * 2

        def observe() -> contract.Observation:
            if failures:
                raise failures.pop()
            return good()

        sidecar.sender._observe = observe
        async with sending(sidecar):
            await eventually(lambda: len(leader.heard) == 1)
    assert caplog.text.count("the volume is away") >= 1
    assert caplog.text.count("does not hear") == 1


async def test_the_operator_may_wish_for_another_period() -> None:
    got: list[bytes] = []

    async def wish(body: bytes, writer: asyncio.StreamWriter) -> None:
        got.append(body)
        content = contract.HeartbeatAnswer(next_milliseconds=10).SerializeToString()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)

    async with answering(wish) as address, sending(Sidecar(address)):
        await asyncio.sleep(1.5)
    assert len(got) == 2  # not more often than every second


@asynccontextmanager
async def answering(
    answer: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]],
    credentials: Credentials | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[Address]:
    """An operator with manners of its own."""
    connected: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = int(head.partition("content-length: ")[2].split("\r\n")[0])
                await answer(await reader.readexactly(size), writer)

    shown = credentials or Credentials.from_bytes(material(ISSUING.operator()))
    server = await asyncio.start_server(serve, host, 0, ssl=shown.server_context())
    try:
        yield Address(host, server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in connected:
            writer.transport.abort()
        await asyncio.sleep(0)

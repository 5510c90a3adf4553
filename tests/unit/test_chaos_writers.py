"""What a writer makes of each answer, of none, and of a cut. The server is scripted, because a real
one cannot be made to answer late, wrongly or half."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import pytest

from tests.chaos.history import Demands, Header, History, Kind, Recorder, Waited
from tests.chaos.outcomes import Outcome
from tests.chaos.targets import PlainTarget
from tests.chaos.wire import Access, Address, Wire
from tests.chaos.writers import Writer

PASSWORD = "a password"  # noqa: S105
HOLD = None  # the scripted server reads the command and never answers
CUT = b""  # it reads the command and closes the connection
IMPATIENT = Access(connect_limit=0.5, command_limit=0.05)
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Script:
    """A server that gives the answers of its script in turn, one for each command."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.received: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while command := await reader.read(4096):
            self.received.append(command)
            answer = self.answers.pop(0)
            if answer == CUT:
                return
            if answer is not HOLD:
                writer.write(answer)


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[Address]:
    """Whatever a test leaves open is closed here, on both sides."""
    ended: list[asyncio.Event] = []

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(end := asyncio.Event())
        await serve(reader, writer)
        writer.close()
        end.set()

    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0)
    async with server:
        yield Address(*server.sockets[0].getsockname())
    async with asyncio.timeout(5):
        await asyncio.gather(*(end.wait() for end in ended))
    await asyncio.sleep(0)


@asynccontextmanager
async def writing_to(
    serve: Serve, kind: Kind = Kind.SET, access: Access = IMPATIENT
) -> AsyncIterator[tuple[Writer, History]]:
    recorder = Recorder()
    recorder.begin(Header("scripted", "run-1", 0, "2025-01-01", ("t0",), {}, Demands()))
    async with listening(serve) as address:
        writer = Writer(kind, "t0", "run-1", PlainTarget(address, access), recorder, lambda: "a test")
        try:
            yield writer, recorder.history
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"+OK\r\n", Outcome.OK),
        (b"-READONLY You can't write against a read only replica.\r\n", Outcome.FAIL),
        (b"-ERR something else\r\n", Outcome.INFO),
        (b"-UNHEARD of\r\n", Outcome.INFO),
        (b"$nonsense\r\n", Outcome.INFO),
        (b"+O", Outcome.INFO),
        (HOLD, Outcome.INFO),
        (CUT, Outcome.INFO),
    ],
)
async def test_the_answer_decides_the_outcome(answer: bytes | None, outcome: Outcome) -> None:
    async with writing_to(Script(answer).serve) as (writer, history):
        assert await writer.write_once() is outcome
    (write,) = history.writes
    assert write.outcome is outcome
    assert write.element == "set:{t0}:1"
    assert write.during == "a test"


async def test_a_key_that_has_moved_ahead_of_its_slot_is_written_where_it_is() -> None:
    there = Script(b"+OK\r\n", b"+OK\r\n", b":1\r\n")
    async with listening(there.serve) as other:
        owner = Script(f"-ASK 7 {other}\r\n".encode(), b"+OK\r\n", b":0\r\n")
        async with writing_to(owner.serve, Kind.WAITED) as (writer, history):
            assert await writer.write_once() is Outcome.OK
            assert await writer.write_once() is Outcome.OK
    commands = [command.split(b"\r\n")[2] for command in there.received]
    assert commands == [b"ASKING", b"SET", b"WAIT"]
    assert [write.node == str(other) for write in history.writes] == [True, False]
    assert len(owner.received) == 3


async def test_a_refused_connection_is_a_failure_because_nothing_was_sent() -> None:
    async with writing_to(Script().serve) as (writer, history):
        pass
    assert await writer.write_once() is Outcome.FAIL
    assert "cannot connect" in history.writes[0].reason


async def test_a_refused_password_is_a_failure_because_the_write_was_not_sent() -> None:
    script = Script(b"-WRONGPASS invalid\r\n")
    access = Access("a wrong password", command_limit=0.05)
    async with writing_to(script.serve, access=access) as (writer, _):
        assert await writer.write_once() is Outcome.FAIL
    assert [b"AUTH" in command for command in script.received] == [True]


async def test_a_connection_that_was_cut_while_idle_is_a_failure_because_nothing_was_sent() -> None:
    async def answer_and_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(b"+OK\r\n")

    async with writing_to(answer_and_cut) as (writer, history):
        await writer.write_once()
        await asyncio.sleep(0.05)
        assert await writer.write_once() is Outcome.FAIL
    assert "already closed" in history.writes[1].reason


@pytest.mark.parametrize("answer", [b"-MOVED 1 127.0.0.1:1\r\n", b"-TRYAGAIN later\r\n", HOLD, CUT])
async def test_nothing_is_ever_sent_twice(answer: bytes | None) -> None:
    script = Script(answer, b"+OK\r\n")
    async with writing_to(script.serve) as (writer, _):
        await writer.write_once()
        assert await writer.write_once() is Outcome.OK
    keys = [command.split(b"\r\n")[4] for command in script.received]
    assert keys == [b"run-1:set:{t0}:1", b"run-1:set:{t0}:2"]


async def test_an_outcome_is_on_record_before_the_next_write_is_sent() -> None:
    on_record: list[int] = []

    async def note_and_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            on_record.append(len(history.writes))
            writer.write(b"+OK\r\n")

    async with writing_to(note_and_answer) as (writer, history):
        await writer.run(asyncio.Event(), pace=0.0, first_after=0.0, most=5)
    assert on_record == [0, 1, 2, 3, 4]


async def test_a_writer_that_is_stopped_while_it_waits_leaves_an_indeterminate_write() -> None:
    script = Script(HOLD)
    async with writing_to(script.serve, access=Access(command_limit=5)) as (writer, history):
        task = asyncio.create_task(writer.write_once())
        for _ in range(200):
            await asyncio.sleep(0.005)
            if script.received:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [write.outcome for write in history.writes] == [Outcome.INFO]


async def test_a_counter_keeps_what_the_server_counted() -> None:
    async with writing_to(Script(b":41\r\n").serve, Kind.COUNTER) as (writer, history):
        await writer.write_once()
    assert history.writes[0].value == 41


@pytest.mark.parametrize(
    ("answer", "replicas"), [(b":2\r\n", 2), (b":0\r\n", 0), (b"-UNBLOCKED\r\n", 0), (HOLD, 0), (CUT, 0)]
)
async def test_a_wait_is_recorded_apart_from_its_acknowledged_write(
    answer: bytes | None, replicas: int
) -> None:
    async with writing_to(Script(b"+OK\r\n", answer).serve, Kind.WAITED) as (writer, history):
        assert await writer.write_once() is Outcome.OK
    assert history.waits == [Waited("waited:{t0}:1", replicas)]


async def test_a_wait_never_goes_to_another_connection_than_its_write() -> None:
    """On a new connection it would confirm somebody else's write."""
    connections: list[int] = []

    async def answer_and_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.read(4096)
        writer.write(b"+OK\r\n")

    async with writing_to(answer_and_cut, Kind.WAITED) as (writer, history):
        await writer.write_once()
    assert len(connections) == 1
    assert history.waits == [Waited("waited:{t0}:1", 0)]


async def test_a_write_that_was_not_acknowledged_is_not_waited_for() -> None:
    script = Script(b"-READONLY\r\n")
    async with writing_to(script.serve, Kind.WAITED) as (writer, history):
        await writer.write_once()
    assert len(script.received) == 1
    assert history.waits == []


async def test_a_connection_is_closed_when_its_opening_was_cut_short() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        asked.set()
        with suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with listening(hold) as address:
        opening = asyncio.create_task(Wire.open(address, Access(PASSWORD, connect_limit=5)))
        async with asyncio.timeout(5):
            await asked.wait()
            opening.cancel()
            await closed.wait()
    assert opening.cancelled()

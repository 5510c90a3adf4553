"""Into a pod, for the command line: run a command there, and reach one of its ports.

Both speak the channel protocol over a WebSocket: the first byte of each frame says which stream it belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple

import aiohttp
import msgspec

from valkey_operator.kube import errors, transport
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key
from valkey_operator.kube.resources import PODS

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
FRAME = 32 * 1024

Socket = aiohttp.ClientWebSocketResponse


class Finished(NamedTuple):
    stdout: bytes
    stderr: bytes
    exit_code: int


class Running:
    """A command while it runs: iterate over what it prints, as (channel, bytes); then `exit_code` is known."""

    def __init__(self, socket: Socket, asked: str) -> None:
        self.exit_code: int | None = None
        self._socket, self._asked = socket, asked

    async def send(self, content: bytes) -> None:
        for start in range(0, len(content), FRAME):
            await self._put(STDIN, content[start : start + FRAME])

    async def close_input(self) -> None:
        await self._put(CLOSE, bytes([STDIN]))

    async def resize(self, width: int, height: int) -> None:
        await self._put(RESIZE, msgspec.json.encode({"Width": width, "Height": height}))

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        async for channel, content in _frames(self._socket):
            if channel == ERROR:
                self.exit_code = _exit_code(content, self._asked)
            else:
                yield channel, content
        if self.exit_code is None:
            raise errors.Unreachable(f"{self._asked}: the connection ended before the command did")

    async def _put(self, channel: int, content: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + content)
        except transport.FAILURES as error:
            raise errors.Unreachable(f"{self._asked}: {transport.words(error)}") from error


@contextlib.asynccontextmanager
async def start(
    client: Client, pod: Key, command: Sequence[str], container: str = "", *, stdin: bool = False,
    tty: bool = False,
) -> AsyncIterator[Running]:  # fmt: skip
    """Start a command in a container, by default the pod's first. Leaving it early does not end the command."""
    # A terminal has one output, which the server calls stdout.
    wanted = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = [("command", word) for word in command] + [(name, "1") for name, on in wanted.items() if on]
    asked, place = f"run {command[0]} in pod {pod}", [("container", container)] if container else []
    async with client.websocket(PODS.path(pod, "exec"), query + place, asked) as socket:
        yield Running(socket, asked)


async def execute(
    client: Client, pod: Key, command: Sequence[str], container: str = "", stdin: bytes | None = None
) -> Finished:
    """Run a command to its end, however long that takes: set a time limit around it.

    It has to read its input: of one that ends with much of it unread, Kubernetes does not tell the end.
    """
    printed = {STDOUT: bytearray(), STDERR: bytearray()}
    async with start(client, pod, command, container, stdin=stdin is not None) as running:
        # Both ways at once: a command that prints what it reads would otherwise block itself and us.
        feeding = asyncio.create_task(_feed(running, stdin))
        try:
            async for channel, content in running:
                printed[channel] += content
        finally:
            await _end(feeding)
    return Finished(bytes(printed[STDOUT]), bytes(printed[STDERR]), running.exit_code or 0)


@contextlib.asynccontextmanager
async def port_forward(
    client: Client, pod: Key, port: int, report: Callable[[errors.KubeError], None], local: int = 0
) -> AsyncIterator[int]:
    """Carry connections to a port of loopback, by default a free one, to the pod's port.

    `report` hears why one failed. The protocol knows no half-closed connection: when the local side ends
    its sending, the connection ends.
    """
    asked, carried = f"forward to port {port} of pod {pod}", set[asyncio.Task[None]]()
    connect = partial(client.websocket, PODS.path(pod, "portforward"), [("ports", str(port))], asked)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with connect() as socket:
                await _carry(socket, reader, writer, asked)
        except errors.KubeError as error:
            report(error)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried.add(task := asyncio.create_task(carry(reader, writer)))
        task.add_done_callback(carried.discard)
        task.add_done_callback(lambda _: writer.close())

    async with connect():
        pass  # what is refused is refused now, not at the first connection
    try:
        server = await asyncio.start_server(accept, "127.0.0.1", local)
    except OSError as error:
        raise errors.Misconfigured(f"port {local} of this machine cannot be used: {error.strerror}") from None
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await _end(*carried)


async def _carry(
    socket: Socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: str
) -> None:
    begun, sending = set[int](), asyncio.create_task(_send(reader, socket))
    try:
        async for channel, content in _frames(socket):
            if channel not in begun:
                begun.add(channel)  # the first frame of a channel carries the port's number
            elif channel == 0:
                writer.write(content)
                await writer.drain()
            else:
                refused, words = b"connection refused" in content, content.decode(errors="replace").strip()
                raise errors.Unreachable(f"{asked}: {'nothing listens there' if refused else words}")
    except OSError:
        pass  # the local side went away
    finally:
        await _end(sending)


async def _send(reader: asyncio.StreamReader, socket: Socket) -> None:
    with contextlib.suppress(*transport.FAILURES):  # the receiving half says what is wrong
        while content := await reader.read(FRAME):
            await socket.send_bytes(b"\0" + content)
        await socket.close()


async def _feed(running: Running, stdin: bytes | None) -> None:
    if stdin is not None:
        with contextlib.suppress(errors.Unreachable):  # a command may end before it has read everything
            await running.send(stdin)
            await running.close_input()


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _frames(socket: Socket) -> AsyncIterator[tuple[int, bytes]]:
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY:
            return  # a broken connection ends like a closed one
        if len(message.data) > 1:
            yield message.data[0], message.data[1:]


def _exit_code(content: bytes, asked: str) -> int:
    """The server's last word: success, the command's own code, or why it could not be run."""
    status = errors.read_status(content)
    for cause in status.causes:
        if cause.reason == "ExitCode":
            return int(cause.message)
    if not status.message:
        return 0
    raise errors.refusal(content.replace(b"Internal error occurred: ", b""), asked)

"""How the client asks when the server is full, silent, or tired of a token: the server does as it is told."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.caches import nothing_left_running
from tests.certificates import Authority
from valkey_operator.kube import errors, transport, webhook
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.credentials import Fixed, Identity, TokenFile
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import EVERYTHING, PODS, Resource

NODES = Resource("Node", "nodes", namespaced=False)
NODE = Key("", "node1")


class Server:
    """Answers what it is told, in turn; the last answer stays."""

    def __init__(self) -> None:
        self.answers: list[Callable[[web.Request], web.Response]] = [found]
        self.asked: list[tuple[float, str]] = []
        self.address = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((time.monotonic(), request.headers.get("Authorization", "")))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(request)

    def gaps(self) -> list[float]:
        times = [at for at, _ in self.asked]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def found(_: web.Request) -> web.Response:
    return web.json_response({"metadata": {"name": "node1"}})


def full(code: int, **headers: str) -> Callable[[web.Request], web.Response]:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: web.json_response({"message": "too many requests"}, status=code, headers=shown)


def only(token: str) -> Callable[[web.Request], web.Response]:
    def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == f"Bearer {token}":
            return found(request)
        return web.json_response({"message": "Unauthorized"}, status=401)

    return answer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    told = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", told.handle)
    async with nothing_left_running(), TestServer(application) as listening:
        told.address = f"http://127.0.0.1:{listening.port}"
        yield told


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(Access(server.address)) as client:
        yield client


async def name(client: Client) -> str:
    return (await client.get(NODES, NODE, Object)).metadata.name


# A full server


async def test_a_full_server_is_asked_again_after_the_time_it_wishes(client: Client, server: Server) -> None:
    server.answers = [full(429, Retry_After="1"), full(429, Retry_After="1"), found]
    assert await name(client) == "node1"
    assert len(server.asked) == 3
    assert min(server.gaps()) >= 1
    assert max(server.gaps()) < 10


@pytest.mark.parametrize("headers", [{}, {"Retry_After": "0"}, {"Retry_After": "soon"}])
async def test_a_full_server_that_wishes_no_time_is_not_asked_at_once(
    client: Client, server: Server, headers: dict[str, str]
) -> None:
    server.answers = [full(429, **headers), found]
    assert await name(client) == "node1"
    assert min(server.gaps()) >= 1


async def test_a_server_that_is_going_down_is_asked_again_when_it_says_so(
    client: Client, server: Server
) -> None:
    server.answers = [full(503, Retry_After="1"), found]
    assert await name(client) == "node1"


async def test_a_wait_beyond_the_time_limit_is_not_begun(client: Client, server: Server) -> None:
    server.answers = [full(429, Retry_After="3600", X_Kubernetes_PF_FlowSchema_UID="flow")]
    with pytest.raises(errors.Throttled, match="get nodes node1: too many requests") as refused:
        await name(client)
    assert (refused.value.retry_after, refused.value.flow) == (3600, "flow")
    assert len(server.asked) == 1


# A silent server


@pytest.fixture
async def silence() -> AsyncIterator[str]:
    """A server that takes connections and says nothing."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    listening = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with nothing_left_running(), listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_a_silent_server_is_unreachable_after_the_time_limit(silence: str) -> None:
    async with Client(Access(silence), limit=0.2) as client:
        with pytest.raises(errors.Unreachable, match="get nodes node1: no answer within the time limit"):
            await name(client)


async def test_a_silent_watch_is_unreachable_after_its_idle_time(silence: str) -> None:
    async with Client(Access(silence)) as client:
        with pytest.raises(errors.Unreachable, match="watch nodes: no answer within the time limit"):
            await anext(client.watch(NODES, "", EVERYTHING, "1", idle=0.2))


async def test_a_silent_upgrade_is_unreachable_after_the_time_limit(silence: str) -> None:
    async with Client(Access(silence), limit=0.2) as client:
        with pytest.raises(errors.Unreachable, match="run it: no answer within the time limit"):
            await client.websocket("/exec", [], "run it").__aenter__()


async def test_a_server_that_is_not_there_is_named(server: Server) -> None:
    async with Client(Access("http://127.0.0.1:1")) as client:
        with pytest.raises(errors.Unreachable) as refused:
            await name(client)
    assert server.asked == []
    assert str(refused.value).startswith("get nodes node1: cannot connect to 127.0.0.1:1: ")
    assert "object at" not in str(refused.value)


# A refused token


@pytest.fixture
async def holder(server: Server, tmp_path: Path) -> AsyncIterator[Client]:
    """A client whose token file was rotated after it had been read."""
    file = TokenFile(tmp_path / "token")
    file.path.write_text("old")
    async with Client(Access(server.address, credentials=file)) as client:
        await file.identity()
        file.path.write_text("new")
        server.answers = [only("new")]
        yield client


async def test_a_refused_token_is_read_again(holder: Client, server: Server) -> None:
    assert await name(holder) == "node1"
    assert [shown for _, shown in server.asked] == ["Bearer old", "Bearer new"]


async def test_all_requests_that_were_refused_together_recover(holder: Client) -> None:
    assert await asyncio.gather(*(name(holder) for _ in range(10))) == ["node1"] * 10


async def test_a_token_that_stays_refused_is_shown_twice_and_never_said(
    holder: Client, server: Server
) -> None:
    server.answers = [only("another")]
    with pytest.raises(errors.Unauthorized) as refused:
        await name(holder)
    assert len(server.asked) == 2
    assert str(refused.value) == "get nodes node1: Unauthorized"


async def test_a_refused_watch_shows_the_new_token_the_next_time(holder: Client, server: Server) -> None:
    with pytest.raises(errors.Unauthorized):
        await anext(holder.watch(NODES, "", EVERYTHING, "1", idle=30))
    async for _ in holder.watch(NODES, "", EVERYTHING, "1", idle=30):
        pass
    assert [shown for _, shown in server.asked] == ["Bearer old", "Bearer new"]


async def test_a_refused_upgrade_says_what_the_server_said(holder: Client, server: Server) -> None:
    with pytest.raises(errors.Unauthorized, match="run it: Unauthorized"):
        await holder.websocket(PODS.path(Key("here", "one"), "exec"), [], "run it").__aenter__()
    assert len(server.asked) == 1


async def test_a_failed_upgrade_does_not_tell_the_command(client: Client) -> None:
    with pytest.raises(errors.Unreachable) as refused:
        await client.websocket("/exec", [("command", "secret")], "run it").__aenter__()
    assert str(refused.value) == "run it: 200 Invalid response status"


class Slow(Fixed):
    """As a program that asks somebody to log in."""

    async def identity(self) -> Identity:
        await asyncio.sleep(0.3)
        return self.shown


async def test_who_we_are_may_take_longer_to_find_out_than_the_server_to_answer(server: Server) -> None:
    async with Client(Access(server.address, credentials=Slow()), limit=0.2) as client:
        assert await name(client) == "node1"


async def test_requests_that_were_cancelled_leave_no_connection_behind() -> None:
    """Whenever it was: while they connected, greeted, or waited for an answer."""
    authority, here = Authority("first"), "127.0.0.1"
    pair = authority.issue(here)
    shown = webhook.Certificate()
    shown.set_certificate(pair.certificate, pair.key)
    async with webhook.opened({}, shown, here, 0) as port:
        for step in range(40):
            connections = transport.Connections()
            asking = [
                asyncio.ensure_future(
                    connections.session._request("GET", f"https://{here}:{port}/", ssl=authority.trusted())
                )
                for _ in range(3)
            ]
            await asyncio.sleep(step * 0.0005)
            sockets = list(connections._sockets)
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await connections.close()
            assert [each for each in sockets if each.fileno() >= 0] == []

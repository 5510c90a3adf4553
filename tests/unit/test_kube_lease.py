"""What leading does with errors and with the end of the process; the Lease itself is tried on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.caches import eventually, nothing_left_running, running
from valkey_operator.kube import errors
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Again, Controller
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime

KEY = Key("n", "lead")


class Server:
    """Keeps one Lease; `refuses` lets nobody write it any more."""

    def __init__(self) -> None:
        self.lease: dict[str, object] | None = None
        self.version = 1
        self.refuses = False

    async def read(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await asyncio.sleep(3600)
            return answer
        items = [] if self.lease is None else [self.lease]
        return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def write(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            return web.json_response({"message": "no"}, status=403)
        self.version += 1
        body = json.loads(await request.text())
        body["metadata"] |= {"resourceVersion": str(self.version), "uid": "1"}
        self.lease = body
        return web.json_response(body)


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    application = web.Application()
    application.router.add_get("/{path:.*}", server.read)
    application.router.add_route("*", "/{path:.*}", server.write)
    async with nothing_left_running(), TestServer(application) as listening:
        made = Client(Access(f"http://127.0.0.1:{listening.port}"))
        async with made:
            yield made


async def test_an_error_of_work_that_was_ended_is_not_lost(client: Client, server: Server) -> None:
    leadership = Leadership(client, KEY, "me", duration=1)

    async def work() -> None:
        server.refuses = True
        try:
            await asyncio.sleep(3600)
        finally:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as failure:
        await asyncio.wait_for(leadership.run(work), 10)
    assert failure.group_contains(ZeroDivisionError)


async def test_a_bug_in_renewing_is_not_taken_for_a_lost_lead(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership = Leadership(client, KEY, "me", duration=1)

    attempt = leadership._attempt

    async def breaks(holder: str) -> bool:
        return await attempt(holder) if not leadership.leads or not holder else bool(1 / 0)

    monkeypatch.setattr(leadership, "_attempt", breaks)
    with pytest.raises(ExceptionGroup) as failure:
        await asyncio.wait_for(leadership.run(lambda: asyncio.sleep(3600)), 10)
    assert failure.group_contains(ZeroDivisionError)


async def test_one_that_cannot_renew_says_so(client: Client, server: Server) -> None:
    leadership = Leadership(client, KEY, "me", duration=1)
    with pytest.raises(errors.NotLeader, match="me does not lead: nobody does"):
        leadership.time_left()
    async with running(leadership.run(lambda: asyncio.sleep(3600))):
        await eventually(lambda: leadership.leads)
        server.refuses = True
        await eventually(lambda: not leadership.leads)
        with pytest.raises(errors.NotLeader, match="me does not lead: it could not renew its lease"):
            leadership.time_left()


async def test_who_led_in_the_same_pod_before_is_dead_and_nobody_else_is(
    client: Client, server: Server
) -> None:
    """Its container was restarted: the one before it has ended by then."""
    spec = {"holderIdentity": "pod-a_10.0.0.1_old", "leaseDurationSeconds": 60}
    server.lease = {"metadata": {**KEY._asdict(), "resourceVersion": "1", "uid": "1"}, "spec": spec}
    other = Leadership(client, KEY, "pod-b_10.0.0.2_new", duration=1, place="pod-b_")
    async with running(other.run(lambda: asyncio.sleep(3600))):
        await eventually(lambda: other.leader == "pod-a_10.0.0.1_old")
        await asyncio.sleep(1.5)
        assert not other.leads
    again = Leadership(client, KEY, "pod-a_10.0.0.9_new", duration=1, place="pod-a_")
    async with running(again.run(lambda: asyncio.sleep(3600))):
        await eventually(lambda: again.leads)


# The whole runtime


async def test_a_lead_lost_while_the_process_ends_is_not_waited_for_again(
    client: Client, server: Server
) -> None:
    runtime = Runtime(client, Leadership(client, KEY, "me", duration=2), grace=30)
    begun = asyncio.Event()

    async def reconcile(_key: Key) -> Again:
        begun.set()
        await asyncio.sleep(3600)
        return None

    controller = runtime.add(Controller("test", reconcile))
    controller.wake(Key("n", "a"))
    ending = asyncio.create_task(runtime.run())
    await begun.wait()
    server.refuses = True
    runtime.stop()
    await asyncio.wait_for(ending, 10)


async def test_a_stop_at_the_very_moment_at_which_work_begins_is_heard(client: Client) -> None:
    leadership = Leadership(client, KEY, "me", duration=2)
    runtime = Runtime(client, leadership)
    controller = runtime.add(Controller("test", lambda _key: asyncio.sleep(3600)))
    began = leadership._lead

    async def leads_and_is_stopped(work: object) -> bool:
        async def late() -> None:
            runtime.stop()
            await work()  # type: ignore[operator]

        return await began(late)

    leadership._lead = leads_and_is_stopped  # type: ignore[method-assign]
    await asyncio.wait_for(runtime.run(), 10)
    assert not len(controller.queue)


async def test_work_that_ends_gives_the_lease_back(client: Client, server: Server) -> None:
    await Leadership(client, KEY, "me").run(lambda: asyncio.sleep(0))
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == ""  # type: ignore[index]


async def test_a_lost_lead_ends_the_run_and_is_told_before_anything_is_closed(
    client: Client, server: Server
) -> None:
    runtime = Runtime(client, Leadership(client, KEY, "me", duration=1))
    told: list[str] = []
    runtime.on_loss = lambda: told.append("lost")

    async def reconcile(_key: Key) -> Again:
        server.refuses = True
        try:
            await asyncio.sleep(3600)
        finally:
            told.append("closed")
        return None

    runtime.add(Controller("test", reconcile)).wake(Key("n", "a"))
    assert await asyncio.wait_for(runtime.run(), 10) is False
    assert told == ["lost", "closed"]


async def test_a_lead_lost_while_the_process_ends_does_not_let_it_begin_anew(
    client: Client, server: Server
) -> None:
    runtime = Runtime(client, Leadership(client, KEY, "me", duration=1), grace=30)
    told: list[str] = []
    runtime.on_loss = lambda: told.append("lost")

    async def reconcile(_key: Key) -> Again:
        runtime.stop()
        server.refuses = True
        await asyncio.sleep(3600)
        return None

    runtime.add(Controller("test", reconcile)).wake(Key("n", "a"))
    assert await asyncio.wait_for(runtime.run(), 10) is True
    assert not told

"""An informer before a server that talks nonsense; whatever a real one does is tried on a real one."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.caches import eventually, running
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS

ITEM = b'{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"%d"}}'


def listing(item: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"5"},"items":[%b]}' % item


def line(item: bytes) -> bytes:
    return b'{"type":"MODIFIED","object":%b}\n' % item


@pytest.mark.parametrize(
    "nonsense", [b'{"metadata":5}', b'{"metadata":{"name":"\xff"}}', b"[]"], ids=["number", "bytes", "array"]
)
async def test_an_answer_that_is_no_object_is_trouble_and_not_the_end(nonsense: bytes) -> None:
    lists, watches = [listing(nonsense), listing(ITEM % 4)], [line(nonsense), line(ITEM % 6)]

    async def handle(request: web.Request) -> web.StreamResponse:
        answers = watches if "watch" in request.query else lists
        answer = web.StreamResponse()
        await answer.prepare(request)
        if answers:
            await answer.write(answers.pop(0))
        else:
            await asyncio.sleep(3600)
        return answer

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    async with (
        TestServer(application) as listening,
        Client(Access(f"http://127.0.0.1:{listening.port}")) as client,
    ):
        cache = Informer(client, CONFIG_MAPS, Object)
        async with running(cache.run()):
            await eventually(lambda: [item.version for item in cache.store] == [6])
            await eventually(lambda: cache.trouble() is None)
            assert Key("n", "a") in cache.store

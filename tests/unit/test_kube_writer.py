"""When a write is in doubt and who looks; the writing itself is tried on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from valkey_operator.kube import errors, ownership
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client, Request
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import (
    Key,
    ManagedFields,
    ManagedMetadata,
    ManagedObject,
    Metadata,
    Object,
    StatusAnswer,
)
from valkey_operator.kube.resources import CONFIG_MAPS
from valkey_operator.kube.writer import APPLIED, Writer

KEY = Key("n", "a")
SEEN = Object(Metadata("a", "n", "u", "1"))
GOING = b'{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"%d"}}'


class Told(Client):
    """Answers what it is told, and counts."""

    def __init__(self) -> None:
        super().__init__(Access("http://nowhere"))
        self.answer: bytes | Exception = GOING % 2
        self.looks = 0
        self.may_look = asyncio.Event()
        self.may_look.set()

    async def ask(self, request: Request, _type: object) -> msgspec.Raw:  # type: ignore[override]
        if request.verb == "get":
            self.looks += 1
            await self.may_look.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return msgspec.Raw(self.answer)


class Config(Object, frozen=True, gc=False):
    data: dict[str, str]


@pytest.fixture
async def client() -> AsyncIterator[Told]:
    async with Told() as told:
        yield told


@pytest.fixture
def cache(client: Told) -> Informer[Object]:
    made = Informer(client, CONFIG_MAPS, Object)
    made.store.put(SEEN)
    return made


@pytest.fixture
def writer(client: Told) -> Writer:
    return Writer(client, "us")


def refused(kind: type[errors.ApiError], code: int, *more: object) -> errors.ApiError:
    return kind(code, StatusAnswer(), "delete it", *more)


@pytest.mark.parametrize(
    ("failure", "looks"),
    [
        (errors.Unreachable("no answer"), 1),
        (errors.Unreadable("what is this?"), 1),
        (refused(errors.ServerFault, 500), 1),
        (refused(errors.Throttled, 500, 2.0, ""), 1),  # as when etcd did not answer the server in time
        (refused(errors.Throttled, 429, 2.0, ""), 0),
        (refused(errors.Conflict, 409), 0),
        (errors.NotLeader("another one leads"), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_in_doubt_is_what_may_have_been_done(
    client: Told, cache: Informer[Object], writer: Writer, failure: Exception, looks: int
) -> None:
    client.answer = failure
    with pytest.raises(type(failure)):
        await writer.delete(cache, SEEN)
    client.answer = GOING % 3
    await writer.settle()
    await writer.settle()
    assert client.looks == looks


async def doubt(client: Told, cache: Informer[Object], writer: Writer) -> None:
    before, client.answer = client.answer, errors.Unreachable("no answer")
    with pytest.raises(errors.Unreachable):
        await writer.delete(cache, SEEN)
    client.answer = before


async def test_one_looks_and_everybody_waits_for_what_it_sees(
    client: Told, cache: Informer[Object], writer: Writer
) -> None:
    await doubt(client, cache, writer)
    client.may_look.clear()
    waiting = [asyncio.create_task(writer.settle()) for _ in range(5)]
    await asyncio.wait(waiting, timeout=0.05)
    assert not any(task.done() for task in waiting)
    client.may_look.set()
    await asyncio.gather(*waiting)
    assert client.looks == 1


async def test_a_doubt_that_arises_during_a_look_is_looked_at_once_more(
    client: Told, cache: Informer[Object], writer: Writer
) -> None:
    await doubt(client, cache, writer)
    client.may_look.clear()
    looking = asyncio.create_task(writer.settle())
    await asyncio.sleep(0)
    await doubt(client, cache, writer)
    client.may_look.set()
    await looking
    assert client.looks == 2


async def test_a_look_that_was_cut_off_leaves_the_doubt(
    client: Told, cache: Informer[Object], writer: Writer
) -> None:
    await doubt(client, cache, writer)
    client.may_look.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await writer.settle()
    client.may_look.set()
    await writer.settle()
    assert client.looks == 2


async def test_one_object_that_cannot_be_read_does_not_keep_the_others_waiting(
    client: Told, writer: Writer
) -> None:
    cache = Informer(client, CONFIG_MAPS, Config)
    cache.store.put(Config(SEEN.metadata, {}))
    client.answer = errors.Unreachable("no answer")
    with pytest.raises(errors.Unreachable):
        await writer.delete(cache, Config(SEEN.metadata, {}))
    client.answer = GOING % 2
    await writer.settle()
    with pytest.raises(errors.Unreadable, match=r"n/a is there but cannot be read: .* `data`"):
        cache.store.get(KEY)


async def test_an_object_that_begins_to_go_may_be_one_that_cannot_be_read(
    client: Told, writer: Writer
) -> None:
    cache = Informer(client, CONFIG_MAPS, Config)
    seen = Config(SEEN.metadata, {})
    cache.store.put(seen)
    await writer.delete(cache, seen)
    with pytest.raises(errors.Unreadable):
        cache.store.get(KEY)


async def test_who_owns_what_is_read_once_for_each_version(
    client: Told, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}
    marks = {APPLIED: ownership.fingerprint(wanted)}
    owned = msgspec.Raw(
        msgspec.json.encode({"f:data": {"f:k": {}}, "f:metadata": {"f:annotations": {f"f:{APPLIED}": {}}}})
    )
    made = Informer(client, CONFIG_MAPS, ManagedObject)
    reads: list[object] = []
    real = ownership.lost

    def lost(*arguments: Any) -> frozenset[ownership.Path]:
        reads.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(ownership, "lost", lost)
    for version, read in (("1", 1), ("1", 1), ("2", 2), ("2", 2)):
        ours = ManagedFields("us", "Apply", "", owned)
        made.store.put(
            ManagedObject(ManagedMetadata("a", "n", "u", version, annotations=marks, managed_fields=(ours,)))
        )
        assert (await writer.apply(made, wanted)).outcome == "unchanged"
        assert len(reads) == read

"""The recorder against a scripted API server, under a clock that only the test moves."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from valkey_operator.kube import events
from valkey_operator.kube.access import Access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import BURST, GAP, REFILL, SIMILAR, WINDOW, Item, Recorder
from valkey_operator.kube.objects import Metadata
from valkey_operator.kube.resources import CONFIG_MAPS, NODES
from valkey_operator.process import serving

CACHE: Item = (CONFIG_MAPS, Metadata(name="cache", namespace="shop", uid="u-1"))
COLLECTION = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
Body = dict[str, Any]


@dataclass
class Cluster:
    """Keeps what is written; `failures` are answered first, None is a connection cut after the write."""

    created: list[Body] = field(default_factory=list)
    patched: list[tuple[str, Body]] = field(default_factory=list)
    failures: list[int | None] = field(default_factory=list)

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        failure = self.failures.pop(0) if self.failures else 0
        if failure:
            return refused(failure)
        name = body["metadata"]["name"]
        if any(known["metadata"]["name"] == name for known in self.created):
            return refused(409, "AlreadyExists")
        self.created.append(body)
        return self.done(request, failure)

    async def patch(self, request: web.Request) -> web.Response:
        failure = self.failures.pop(0) if self.failures else 0
        if failure:
            return refused(failure)
        assert request.content_type == "application/merge-patch+json"
        self.patched.append((request.match_info["name"], json.loads(await request.text())))
        return self.done(request, failure)

    def done(self, request: web.Request, failure: int | None) -> web.Response:
        if failure is None and request.transport is not None:
            request.transport.close()
        return web.json_response({})

    @property
    def notes(self) -> list[str]:
        return [body["note"] for body in self.created]

    @property
    def counts(self) -> list[int]:
        return [body["series"]["count"] for _, body in self.patched]


def refused(code: int, reason: str = "") -> web.Response:
    headers = {"Retry-After": "60"} if code == 429 else {}
    return web.json_response({"message": "refused", "reason": reason}, status=code, headers=headers)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def recorder(cluster: Cluster, clock: Clock) -> AsyncIterator[Recorder]:
    app = web.Application()
    app.router.add_post(COLLECTION, cluster.create)
    app.router.add_patch(COLLECTION + "/{name}", cluster.patch)
    async with (
        serving.opened(app, "127.0.0.1", 0) as port,
        Client(Access(f"http://127.0.0.1:{port}")) as client,
    ):
        yield Recorder(client, "valkey.io/operator", "operator-0", clock)


def dropped() -> float:
    return REGISTRY.get_sample_value("valkey_operator_events_dropped_total") or 0.0


async def until_quiet(recorder: Recorder, clock: Clock) -> None:
    """Let time pass until nothing waits any more."""
    while (pause := await recorder.write_due()) is not None:
        clock.now += pause


async def test_an_event_says_what_happened_to_whom_and_who_says_so(
    recorder: Recorder, cluster: Cluster
) -> None:
    recorder.event(CACHE, "Promoted", "cache-1 is the primary now", action="Failover")
    assert await recorder.write_due() is None
    (body,) = cluster.created
    name = body.pop("metadata")
    assert name["namespace"] == "shop"
    assert re.fullmatch(r"cache\.[0-9a-f]{16}", name["name"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("eventTime"))
    assert body == {
        "type": "Normal",
        "reason": "Promoted",
        "action": "Failover",
        "note": "cache-1 is the primary now",
        "regarding": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "cache", "uid": "u-1",
        },
        "reportingController": "valkey.io/operator",
        "reportingInstance": "operator-0",
    }  # fmt: skip


async def test_nothing_is_written_before_the_background_task_runs(
    recorder: Recorder, cluster: Cluster
) -> None:
    recorder.event(CACHE, "Promoted", "a")
    assert cluster.created == []


async def test_an_event_about_what_has_no_namespace_is_in_the_default_one(
    recorder: Recorder, cluster: Cluster
) -> None:
    recorder.event((NODES, Metadata(name="node1", uid="u-2")), "Cordoned", "a")
    await recorder.write_due()
    assert cluster.created[0]["metadata"]["namespace"] == "default"
    assert cluster.created[0]["regarding"]["namespace"] == ""


async def test_what_is_said_again_is_counted_in_the_event_that_is_there(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for _ in range(3):
        recorder.event(CACHE, "Waiting", "no node has room")
        await recorder.write_due()
    clock.now += GAP
    await recorder.write_due()
    assert len(cluster.created) == 1
    ((name, body),) = cluster.patched
    assert name == cluster.created[0]["metadata"]["name"]
    assert body["series"]["count"] == 3
    assert body["series"]["lastObservedTime"] > cluster.created[0]["eventTime"]


async def test_what_is_said_often_before_the_first_write_is_one_event_with_its_count(
    recorder: Recorder, cluster: Cluster
) -> None:
    for _ in range(4):
        recorder.event(CACHE, "Waiting", "no node has room")
    assert await recorder.write_due() is None
    assert cluster.created[0]["series"]["count"] == 4
    assert cluster.patched == []


async def test_one_event_is_not_written_more_often_than_every_few_seconds(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for _ in range(100):
        recorder.event(CACHE, "Waiting", "no node has room")
        await recorder.write_due()
        clock.now += 0.2
    assert cluster.counts == [26, 51, 76]


async def test_what_is_said_long_after_is_a_new_event(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for _ in range(2):
        recorder.event(CACHE, "Waiting", "no node has room")
        await recorder.write_due()
        clock.now += WINDOW
    assert len(cluster.created) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"reason": "Other"},
        {"note": "other"},
        {"type": "Warning"},
        {"action": "Other"},
        {"regarding": (CONFIG_MAPS, Metadata(name="cache", namespace="shop", uid="recreated"))},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_events_that_differ_are_not_counted_together(
    recorder: Recorder, cluster: Cluster, other: dict[str, Any]
) -> None:
    usual: dict[str, Any] = {"regarding": CACHE, "reason": "Waiting", "note": "no node has room"}
    recorder.event(**usual)
    recorder.event(**{**usual, **other})
    await recorder.write_due()
    assert len(cluster.created) == 2


async def test_many_notes_for_one_reason_are_combined(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for number in range(SIMILAR + 30):
        recorder.event(CACHE, "Failed", f"attempt {number}", "Warning", action=f"Step{number % 3}")
    await until_quiet(recorder, clock)
    assert cluster.notes[:SIMILAR] == [f"attempt {number}" for number in range(SIMILAR)]
    assert cluster.notes[SIMILAR:] == [f"(combined from similar events): attempt {SIMILAR}"]
    assert cluster.created[-1]["series"]["count"] == 30


async def test_combining_one_reason_leaves_another_alone(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for number in range(SIMILAR + 5):
        recorder.event(CACHE, "Failed", f"attempt {number}", "Warning")
    recorder.event(CACHE, "Promoted", "cache-1")
    await until_quiet(recorder, clock)
    assert cluster.notes[-1] == "cache-1"


async def test_one_object_that_says_too_much_is_cut_short_and_the_others_are_not(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    before = dropped()
    for number in range(BURST + 5):
        recorder.event(CACHE, f"Reason{number}", "a")
    recorder.event((CONFIG_MAPS, Metadata(name="quiet", namespace="shop")), "Promoted", "b")
    await until_quiet(recorder, clock)
    assert len(cluster.created) == BURST + 1
    assert dropped() == before + 5


async def test_an_object_that_was_cut_short_may_speak_again_later(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for number in range(BURST + 1):
        recorder.event(CACHE, f"Reason{number}", "a")
    clock.now += REFILL
    for number in range(2):
        recorder.event(CACHE, f"Later{number}", "a")
    await until_quiet(recorder, clock)
    assert len(cluster.created) == BURST + 1


async def test_a_count_without_writes_left_waits_and_is_not_lost(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    before = dropped()
    for number in range(BURST):
        recorder.event(CACHE, f"Reason{number}", "a")
    await recorder.write_due()
    recorder.event(CACHE, "Reason0", "a")
    clock.now += GAP
    pause = await recorder.write_due()
    assert cluster.patched == []
    assert pause == pytest.approx(REFILL - GAP)
    clock.now += REFILL
    assert await recorder.write_due() is None
    assert cluster.counts == [2]
    assert dropped() == before


async def test_a_hot_loop_of_one_event_ends_in_a_write_every_few_minutes(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    for _ in range(3600):
        recorder.event(CACHE, "Waiting", "no node has room")
        await recorder.write_due()
        clock.now += 1
    assert len(cluster.created) == 1
    assert len(cluster.patched) <= BURST + 3600 / REFILL


async def test_more_than_the_queue_holds_is_dropped_and_counted(
    recorder: Recorder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "WAITING", 10)
    before = dropped()
    for number in range(15):
        recorder.event((CONFIG_MAPS, Metadata(name=f"cache-{number}", namespace="shop")), "Promoted", "a")
    await recorder.write_due()
    assert len(cluster.created) == 10
    assert dropped() == before + 5


async def test_the_object_spoken_of_least_lately_is_forgotten_first(
    recorder: Recorder, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "REMEMBERED", 2)
    for name in ("a", "b", "a", "c", "a", "b"):
        recorder.event((CONFIG_MAPS, Metadata(name=name, namespace="shop")), "Promoted", "again")
    await recorder.write_due()
    assert [body["regarding"]["name"] for body in cluster.created] == ["a", "b", "c", "b"]
    assert cluster.created[0]["series"]["count"] == 3


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("a" * 1024, "a" * 1024),
        ("a" * 1025, "a" * 1021 + "…"),
        ("ü" * 1000, "ü" * 510 + "…"),
        ("\ud800", "?"),
        ("", ""),
    ],
    ids=["fits", "one too long", "counted in bytes", "no text", "empty"],
)
async def test_any_note_becomes_one_the_api_server_takes(
    recorder: Recorder, cluster: Cluster, note: str, written: str
) -> None:
    recorder.event(CACHE, "Odd", note)
    await recorder.write_due()
    assert cluster.notes == [written]


async def test_a_long_name_leaves_room_for_what_makes_it_unique(recorder: Recorder, cluster: Cluster) -> None:
    recorder.event((CONFIG_MAPS, Metadata(name="a" * 199 + "-" + "b" * 53, namespace="shop")), "Odd", "a")
    await recorder.write_due()
    assert re.fullmatch(r"a{199}\.[0-9a-f]{16}", cluster.created[0]["metadata"]["name"])


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refused_event_is_dropped_at_once(
    recorder: Recorder, cluster: Cluster, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = dropped()
    cluster.failures = [code]
    recorder.event(CACHE, "Promoted", "a")
    assert await recorder.write_due() is None
    assert dropped() == before + 1
    assert not [record for record in caplog.records if record.name.startswith("valkey_operator")]


async def test_what_was_refused_once_is_tried_again_when_it_is_said_again(
    recorder: Recorder, cluster: Cluster
) -> None:
    cluster.failures = [403]
    for _ in range(2):
        recorder.event(CACHE, "Promoted", "a")
        await recorder.write_due()
    assert cluster.notes == ["a"]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_server_in_trouble_is_asked_again_and_the_event_arrives(
    recorder: Recorder, cluster: Cluster, clock: Clock, code: int
) -> None:
    cluster.failures = [code, code]
    recorder.event(CACHE, "Promoted", "a")
    assert await recorder.write_due() == pytest.approx(1.0)
    assert cluster.created == []
    await until_quiet(recorder, clock)
    assert cluster.notes == ["a"]
    assert clock.now == pytest.approx(1003.0)


async def test_a_server_in_lasting_trouble_is_not_asked_for_ever(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    before = dropped()
    cluster.failures = [500] * 100
    recorder.event(CACHE, "Promoted", "a")
    await until_quiet(recorder, clock)
    assert len(cluster.failures) == 100 - events.ATTEMPTS
    assert dropped() == before + 1


async def test_an_event_whose_answer_got_lost_is_not_there_twice(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    before = dropped()
    cluster.failures = [None]
    recorder.event(CACHE, "Promoted", "a")
    await recorder.write_due()
    recorder.event(CACHE, "Promoted", "a")
    await until_quiet(recorder, clock)
    assert cluster.notes == ["a"]
    assert cluster.counts == [2]
    assert dropped() == before


async def test_an_event_that_somebody_deleted_is_made_anew_the_next_time(
    recorder: Recorder, cluster: Cluster, clock: Clock
) -> None:
    recorder.event(CACHE, "Waiting", "no node has room")
    await recorder.write_due()
    clock.now += GAP
    cluster.failures = [404]
    for _ in range(2):
        recorder.event(CACHE, "Waiting", "no node has room")
        await recorder.write_due()
    assert len(cluster.created) == 2
    assert cluster.created[0]["metadata"]["name"] != cluster.created[1]["metadata"]["name"]


async def test_the_background_task_writes_as_soon_as_something_is_said(cluster: Cluster) -> None:
    written = asyncio.Event()

    async def notice(request: web.Request) -> web.Response:
        answer = await cluster.create(request)
        written.set()
        return answer

    app = web.Application()
    app.router.add_post(COLLECTION, notice)
    async with (
        serving.opened(app, "127.0.0.1", 0) as port,
        Client(Access(f"http://127.0.0.1:{port}")) as client,
        asyncio.timeout(10),
    ):
        recorder = Recorder(client, "valkey.io/operator", "operator-0")
        task = asyncio.create_task(recorder.run())
        for note in ("first", "second"):
            recorder.event(CACHE, "Promoted", note)
            await written.wait()
            written.clear()
        task.cancel()
        await asyncio.wait([task])
    assert cluster.notes == ["first", "second"]

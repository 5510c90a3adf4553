"""The webhook server on real TLS sockets: what it answers, and how its certificate changes under way."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.certificates import Authority, Pair
from valkey_operator.kube import webhook
from valkey_operator.kube.errors import Misconfigured
from valkey_operator.kube.webhook import ALLOWED, Certificate, Handler, Review, Verdict

HERE = "127.0.0.1"
AUTHORITY = Authority("first")
PAIR = AUTHORITY.issue(HERE, "webhook.test")
NEWER = AUTHORITY.issue(HERE, "webhook.test")
SECRET = "the password is swordfish"  # noqa: S105 - what must never be seen


def shown(pair: Pair = PAIR) -> Certificate:
    certificate = Certificate()
    certificate.set_certificate(pair.certificate, pair.key)
    return certificate


def asking(**request: Any) -> dict[str, Any]:
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    least = {"uid": "u-1", "kind": kind, "operation": "CREATE"}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**least, **request}}


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[aiohttp.ClientSession]:
    """A session to a server with this handler at /check."""
    connector = aiohttp.TCPConnector(ssl=AUTHORITY.trusted())
    async with (
        webhook.opened({"/check": handler}, shown(), HERE, 0) as port,
        aiohttp.ClientSession(f"https://{HERE}:{port}", connector=connector) as session,
    ):
        yield session


async def answered(verdict: Verdict) -> dict[str, Any]:
    async def handler(_: Review) -> Verdict:
        return verdict

    async with served(handler) as session, session.post("/check", json=asking()) as answer:
        assert answer.status == 200
        assert answer.content_type == "application/json"
        read: dict[str, Any] = await answer.json()
    assert (read["apiVersion"], read["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert read["response"].pop("uid") == "u-1"
    response: dict[str, Any] = read["response"]
    return response


async def allow(_: Review) -> Verdict:
    return ALLOWED


# Reviews and verdicts


async def test_a_handler_sees_who_wants_to_do_what() -> None:
    seen: list[Review] = []

    async def handler(review: Review) -> Verdict:
        seen.append(review)
        return ALLOWED

    request = asking(
        operation="UPDATE",
        namespace="shop",
        name="cache",
        subResource="scale",
        userInfo={"username": "jane", "groups": ["admins"], "extra": {"unknown": ["field"]}},
        object={"data": {"new": "1"}},
        oldObject={"data": {"old": "1"}},
        options={"fieldManager": "kubectl"},
        dryRun=True,
    )
    async with served(handler) as session, session.post("/check?timeout=10s", json=request) as answer:
        assert answer.status == 200
    (review,) = seen
    assert (review.operation, review.kind.kind) == ("UPDATE", "ConfigMap")
    assert (review.namespace, review.name, review.sub_resource) == ("shop", "cache", "scale")
    assert (review.user_info.username, review.user_info.groups) == ("jane", ("admins",))
    assert json.loads(bytes(review.object)) == {"data": {"new": "1"}}
    assert json.loads(bytes(review.old_object)) == {"data": {"old": "1"}}
    assert json.loads(bytes(review.options)) == {"fieldManager": "kubectl"}
    assert review.dry_run


async def test_what_is_not_there_reads_as_null() -> None:
    async def handler(review: Review) -> Verdict:
        return Verdict(warnings=(bytes(review.object).decode(), bytes(review.old_object).decode()))

    async with (
        served(handler) as session,
        session.post("/check", json=asking(operation="DELETE", object=None)) as answer,
    ):
        assert (await answer.json())["response"]["warnings"] == ["null", "null"]


async def test_an_allowed_request_gets_nothing_else() -> None:
    assert await answered(ALLOWED) == {"allowed": True, "warnings": []}


async def test_a_refusal_carries_its_sentence_code_and_reason() -> None:
    refusal = Verdict(allowed=False, message="Another pod of this shard is away.", code=429)
    status = {"code": 429, "message": "Another pod of this shard is away.", "reason": "TooManyRequests"}
    assert await answered(refusal) == {"allowed": False, "warnings": [], "status": status}


async def test_warnings_come_along_with_a_yes() -> None:
    assert (await answered(Verdict(warnings=("old field",))))["warnings"] == ["old field"]


async def test_a_patch_comes_as_the_api_server_wants_it() -> None:
    patch = {"op": "add", "path": "/metadata/labels/a", "value": "b"}
    response = await answered(Verdict(patch=(patch,)))
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [patch]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"deep": ' + b"[" * 100_000, "recursion"),
        (b'{"apiVersion": "\xff"}', "utf-8"),
        (b'{"apiVersion": "admission.k8s.io/v1"}', "missing required field `request`"),
        (json.dumps(asking()).replace("k8s.io/v1", "k8s.io/v1beta1").encode(), "$.apiVersion"),
        (json.dumps(asking(uid=7)).encode(), "Expected `str`, got `int` - at `$.request.uid`"),
    ],
    ids=["nothing", "half", "too deep", "no text", "no request", "another version", "a wrong type"],
)
async def test_a_body_that_is_no_review_gets_one_sentence(body: bytes, why: str) -> None:
    async with served(allow) as session, session.post("/check", data=body) as answer:
        assert answer.status == 400
        text = await answer.text()
    assert text.startswith("This is no AdmissionReview of admission.k8s.io/v1: ")
    assert why.lower() in text.lower()
    assert text.count("\n") == 1


async def test_an_update_of_the_biggest_object_fits() -> None:
    biggest = {"data": {"a": "x" * (3 * 1024 * 1024)}}
    body = io.BytesIO(json.dumps(asking(object=biggest, oldObject=biggest)).encode())
    async with served(allow) as session, session.post("/check", data=body) as answer:
        assert answer.status == 200


async def test_a_body_beyond_every_object_is_refused() -> None:
    body = io.BytesIO(b"x" * (8 * 1024 * 1024))
    async with served(allow) as session, session.post("/check", data=body) as answer:
        assert answer.status == 413


async def test_a_handler_that_breaks_yields_a_sentence_and_the_log_the_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: Review) -> Verdict:
        raise RuntimeError(SECRET)

    async with served(handler) as session, session.post("/check", json=asking(name="a")) as answer:
        assert answer.status == 500
        assert await answer.text() == "The check of this ConfigMap failed; try again.\n"
    assert "the webhook /check failed on CREATE ConfigMap /a" in caplog.text
    assert "RuntimeError" in caplog.text


async def test_a_handler_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "HANDLER_LIMIT", 0.01)
    stopped = asyncio.Event()

    async def handler(_: Review) -> Verdict:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ALLOWED

    async with served(handler) as session, session.post("/check", json=asking()) as answer:
        assert answer.status == 500
        assert await answer.text() == "The check of this ConfigMap took longer than 0.01 s; try again.\n"
    assert stopped.is_set()


async def test_a_verdict_that_cannot_be_sent_is_a_failure_too() -> None:
    async def handler(_: Review) -> Verdict:
        return Verdict(allowed=False, message="\ud800")

    async with served(handler) as session, session.post("/check", json=asking()) as answer:
        assert answer.status == 500


async def test_there_is_nothing_at_other_paths() -> None:
    async with served(allow) as session, session.post("/other", json=asking()) as answer:
        assert answer.status == 404


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "RECEIVE_LIMIT", 0.2)

    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(2)

    async with served(allow) as session, session.post("/check", data=half()) as answer:
        assert answer.status == 408
        assert await answer.text() == "The review did not arrive within 0.2 s.\n"


async def test_large_reviews_are_read_a_few_at_a_time_and_small_ones_always() -> None:
    gate = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield b" " * 1000
        await gate.wait()
        yield json.dumps(asking()).encode()

    async with served(allow) as session:
        held = [asyncio.create_task(_status(session, data=half())) for _ in range(webhook.MOST_LARGE)]
        await asyncio.sleep(0.5)  # until all of them are being read
        large = io.BytesIO(b" " * (webhook.LARGE + 1))
        assert await _status(session, data=large) == 503
        assert await _status(session, json=asking()) == 200
        gate.set()
        assert await asyncio.gather(*held) == [200] * webhook.MOST_LARGE
        assert (
            await _status(session, data=io.BytesIO(b" " * webhook.LARGE + json.dumps(asking()).encode()))
            == 200
        )


async def _status(session: aiohttp.ClientSession, **content: Any) -> int:
    async with session.post("/check", **content) as answer:
        return answer.status


# Certificates


async def certificate_at(port: int, name: str = HERE, version: ssl.TLSVersion | None = None) -> bytes:
    """What a new connection is shown; a name that is an address is sent by no client (no SNI)."""
    context = AUTHORITY.trusted()
    if version is not None:
        context.minimum_version = context.maximum_version = version
    _, writer = await asyncio.open_connection(HERE, port, ssl=context, server_hostname=name)
    try:
        content = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(content, bytes)
        return content
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("name", [HERE, "webhook.test"], ids=["without SNI", "with SNI"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_new_connections_get_the_new_certificate(name: str, version: ssl.TLSVersion) -> None:
    certificate = shown()
    async with webhook.opened({}, certificate, HERE, 0) as port:
        assert await certificate_at(port, name, version) == PAIR.der
        certificate.set_certificate(NEWER.certificate, NEWER.key)
        assert await certificate_at(port, name, version) == NEWER.der


async def test_an_open_connection_goes_on_through_a_change() -> None:
    certificate = shown()
    opened = 0

    async def count(*_: object) -> None:
        nonlocal opened
        opened += 1

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(count)
    connector = aiohttp.TCPConnector(ssl=AUTHORITY.trusted())
    async with (
        webhook.opened({"/check": allow}, certificate, HERE, 0) as port,
        aiohttp.ClientSession(
            f"https://{HERE}:{port}", connector=connector, trace_configs=[tracing]
        ) as session,
    ):
        for _ in range(2):
            async with session.post("/check", json=asking()) as answer:
                assert answer.status == 200
            certificate.set_certificate(NEWER.certificate, NEWER.key)
        assert opened == 1


def mounted(folder: Path, pair: Pair, version: str) -> Certificate:
    """As the kubelet mounts a Secret: the files lead through `..data`, which is swapped in one step."""
    swap(folder, pair, version)
    for name in ("tls.crt", "tls.key"):
        (folder / name).symlink_to(f"..data/{name}")
    return Certificate(folder / "tls.crt", folder / "tls.key")


def swap(folder: Path, pair: Pair, version: str) -> None:
    (folder / version).mkdir()
    (folder / version / "tls.crt").write_bytes(pair.certificate)
    (folder / version / "tls.key").write_bytes(pair.key)
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")


async def test_a_mounted_secret_that_changes_is_shown_at_the_next_connection(tmp_path: Path) -> None:
    certificate = mounted(tmp_path, PAIR, "..1")
    async with webhook.opened({}, certificate, HERE, 0) as port:
        assert await certificate_at(port) == PAIR.der
        swap(tmp_path, NEWER, "..2")
        assert await certificate_at(port) == NEWER.der


async def test_half_of_a_new_pair_leaves_the_old_one_in_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = mounted(tmp_path, PAIR, "..1")
    async with webhook.opened({}, certificate, HERE, 0) as port:
        (tmp_path / "tls.crt").write_bytes(NEWER.certificate)
        assert [await certificate_at(port) for _ in range(3)] == [PAIR.der] * 3
        assert caplog.text.count("what was shown before stays") == 1
        (tmp_path / "tls.key").write_bytes(NEWER.key)
        assert await certificate_at(port) == NEWER.der


async def test_files_that_vanish_leave_the_last_pair_in_place(tmp_path: Path) -> None:
    certificate = mounted(tmp_path, PAIR, "..1")
    async with webhook.opened({}, certificate, HERE, 0) as port:
        (tmp_path / "..data").unlink()
        assert await certificate_at(port) == PAIR.der
    assert certificate.problem() is None


async def test_without_a_certificate_nobody_connects_until_there_is_one(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with webhook.opened({}, certificate, HERE, 0) as port:
        assert certificate.problem() == "there is no serving certificate yet"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await certificate_at(port)
        (tmp_path / "tls.crt").write_bytes(PAIR.certificate)
        (tmp_path / "tls.key").write_bytes(PAIR.key)
        assert await certificate_at(port) == PAIR.der
    assert certificate.problem() is None


@pytest.mark.parametrize(
    "pair",
    [
        Pair(PAIR.certificate, NEWER.key),
        Pair(PAIR.certificate, b""),
        Pair(b"", PAIR.key),
        Pair(PAIR.certificate, PAIR.key[:60]),
        AUTHORITY.issue(HERE, password=b"locked"),
    ],
    ids=["another's key", "no key", "no certificate", "half a key", "a locked key"],
)
async def test_a_pair_that_does_not_fit_is_never_shown(pair: Pair) -> None:
    certificate = shown()
    with pytest.raises(Misconfigured, match="certificate and key are no pair") as raised:
        certificate.set_certificate(pair.certificate, pair.key)
    assert "BEGIN" not in str(raised.value)
    async with webhook.opened({}, certificate, HERE, 0) as port:
        assert await certificate_at(port) == PAIR.der

"""What Kubernetes, Prometheus and people may ask the process."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import prometheus_client
import pytest
from aiohttp import web

from valkey_operator.kube import metrics
from valkey_operator.process import health
from valkey_operator.render.pod import PROBE_PORT
from valkey_operator.settings.operator import OperatorSettings


@pytest.fixture(autouse=True)
def same_level() -> Iterator[None]:
    level = logging.root.level
    yield
    logging.root.setLevel(level)


def well() -> None:
    return None


def broken() -> str | None:
    raise KeyError("secret")


@asynccontextmanager
async def asked(
    live: dict[str, health.Check] | None = None, ready: dict[str, health.Check] | None = None, host: str = ""
) -> AsyncIterator[Callable[..., aiohttp.client._RequestContextManager]]:
    async with (
        health.opened(live or {}, ready or {}, host, 0) as port,
        aiohttp.ClientSession(f"http://{host or '127.0.0.1'}:{port}") as session,
    ):
        yield session.request


async def test_a_process_without_complaints_is_alive_and_ready() -> None:
    async with asked({"loop": well}, {"caches": well, "certificate": well}) as request:
        async with request("GET", "/livez") as answer:
            assert (answer.status, await answer.text()) == (200, "[+]loop ok\nlivez check passed\n")
        async with request("GET", "/readyz") as answer:
            assert answer.status == 200
            assert await answer.text() == "[+]caches ok\n[+]certificate ok\nreadyz check passed\n"


async def test_a_check_that_fails_says_why_and_the_others_still_say_theirs() -> None:
    async with (
        asked(ready={"caches": lambda: "pods are not listed yet", "certificate": well}) as request,
        request("GET", "/readyz") as answer,
    ):
        assert answer.status == 503
        assert await answer.text() == (
            "[-]caches failed: pods are not listed yet\n[+]certificate ok\nreadyz check failed\n"
        )


async def test_a_check_that_breaks_has_not_passed_and_tells_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asked({"odd": broken}) as request, request("GET", "/livez") as answer:
        assert answer.status == 503
        assert "secret" not in await answer.text()
    assert "the health check odd cannot be made" in caplog.text


async def test_prometheus_gets_the_figures_in_its_own_form() -> None:
    metrics.EVENTS_DROPPED.inc()
    async with asked() as request, request("GET", "/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert "valkey_operator_events_dropped_total" in await answer.text()


async def test_the_figures_are_counted_once_a_second_however_many_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []

    def count() -> bytes:
        counted.append(1)
        return b"figures"

    monkeypatch.setattr(prometheus_client, "generate_latest", count)
    monkeypatch.setattr(health, "FRESH", 60.0)
    async with asked() as request:
        for _ in range(20):
            async with request("GET", "/metrics") as answer:
                assert await answer.text() == "figures"
    assert len(counted) == 1


async def test_silent_connections_keep_no_prober_out() -> None:
    async with health.opened({}, {}, "127.0.0.1", 0) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(400)]
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/livez") as answer,
        ):
            assert answer.status == 200
        assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.transport.abort()


@pytest.mark.parametrize("host", ["", "127.0.0.1", "::1"])
async def test_the_log_level_can_be_set_through_a_port_forward(host: str) -> None:
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    logging.root.setLevel("WARNING")
    async with (
        health.opened({}, {}, host, 0) as port,
        aiohttp.ClientSession(f"http://{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{port}") as to,
    ):
        async with to.put("/loglevel?level=debug") as answer:
            assert (answer.status, await answer.text()) == (200, "debug\n")
        async with to.get("/loglevel") as answer:
            assert await answer.text() == "debug\n"
    assert logging.root.level == logging.DEBUG


@pytest.mark.parametrize("peer", ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", None])
async def test_nobody_else_sets_the_log_level(peer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.root.setLevel("WARNING")
    monkeypatch.setattr(web.BaseRequest, "remote", peer)
    async with asked() as request, request("PUT", "/loglevel?level=debug") as answer:
        assert answer.status == 403
        assert (
            await answer.text() == "The log level can only be set through kubectl port-forward to this pod.\n"
        )
    assert logging.root.level == logging.WARNING


@pytest.mark.parametrize("query", ["", "?level=loud"])
async def test_a_wrong_level_is_refused_with_the_levels_there_are(query: str) -> None:
    async with asked() as request, request("PUT", f"/loglevel{query}") as answer:
        assert answer.status == 400
        assert "there are debug, info, warning, error" in await answer.text()


async def test_the_port_is_free_again_afterwards() -> None:
    async with health.opened({}, {}, "127.0.0.1", 0) as port:
        pass
    async with health.opened({}, {}, "127.0.0.1", port) as again:
        assert again == port


async def test_a_port_that_is_taken_is_an_error_at_the_start() -> None:
    async with health.opened({}, {}, port=0) as port:
        with pytest.raises(OSError, match="in use"):
            async with health.opened({}, {}, port=port):
                pass


def test_the_page_of_what_listens_names_the_ports_that_do() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "hardening.md").read_text()
    listening = {"operator": OperatorSettings.health_port, "sidecar": PROBE_PORT}
    for process, port in listening.items():
        assert re.findall(rf"^\| {process} (\d+): .*figures", page, re.MULTILINE) == [str(port)]

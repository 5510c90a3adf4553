"""The few lines of HTTP that a kubelet needs."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import aiohttp
import pytest

from valkey_operator.api import layers
from valkey_operator.model.deployment import Deployment
from valkey_operator.process import ports
from valkey_operator.render import pod
from valkey_operator.sidecar import probes


async def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, (await answer.text()).strip()


async def test_a_check_says_yes_or_why_not() -> None:
    why: list[str] = []
    checks = {"ready": lambda: why[0] if why else None}
    async with probes.opened(checks, ports.opened("127.0.0.1", 0), {"metrics": lambda: "a 1\n"}) as port:
        assert await ask(port, "/ready") == (200, "yes")
        why.append("the server is loading its data")
        assert await ask(port, "/ready") == (503, "the server is loading its data")
        assert await ask(port, "/nothing") == (404, "there are: ready, metrics")
        assert await ask(port, "/metrics") == (200, "a 1")
        assert (await ask(port, "/ready", "POST"))[0] == 404


async def test_a_prober_waits_for_a_server_that_starts() -> None:
    why, started = ["the server does not answer"], asyncio.Event()
    checks, changes = {"ready": lambda: why[0] if why else None}, {"ready": started.wait}
    async with probes.opened(checks, ports.opened("127.0.0.1", 0), changes=changes) as port:
        asked = asyncio.create_task(ask(port, "/ready"))
        await asyncio.sleep(0.1)
        assert not asked.done()
        why.clear()
        started.set()
        assert await asked == (200, "yes")
        why.append("the server is loading its data")
        assert await ask(port, "/ready") == (503, "the server is loading its data")


async def test_a_prober_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PATIENCE", 0.1)
    checks, changes = {"ready": lambda: "it takes its time"}, {"ready": asyncio.Event().wait}
    async with probes.opened(checks, ports.opened("127.0.0.1", 0), changes=changes) as port:
        assert await ask(port, "/ready") == (503, "it takes its time")


def test_a_prober_does_not_wait_for_longer_than_the_kubelet_does() -> None:
    values = layers.effective("Valkey", {}).values
    deployment = Deployment("Valkey", "demo", "prod", "uid", values)
    template = pod.template(deployment, "demo-0", pod.OperatorPlace("image", "system"))
    (probe,) = (each["readinessProbe"] for each in template["spec"]["containers"] if "readinessProbe" in each)
    assert probe["timeoutSeconds"] - 1 >= probes.PATIENCE
    assert probe["timeoutSeconds"] <= probes.LIMIT


async def test_whoever_sends_nonsense_or_nothing_disturbs_nobody() -> None:
    async with probes.opened({"ready": lambda: None}, ports.opened("127.0.0.1", 0)) as port:
        for content in (b"", b"\x00\xff" * 10000, b"GET /ready"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(content)
            await writer.drain()
            writer.close()
        assert (await ask(port, "/ready"))[0] == 200


async def test_silent_connections_keep_the_kubelet_not_out() -> None:
    async with probes.opened({"ready": lambda: None}, ports.opened("127.0.0.1", 0)) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * probes.MOST)]
        assert (await ask(port, "/ready"))[0] == 200
        assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.transport.abort()


async def test_who_asks_before_anybody_serves_is_answered() -> None:
    with ports.opened("127.0.0.1", 0) as listening:
        asked = asyncio.create_task(ask(listening.getsockname()[1], "/ready"))
        await asyncio.sleep(0.2)
        async with probes.opened({"ready": lambda: None}, listening):
            assert await asyncio.wait_for(asked, 5) == (200, "yes")


def test_the_sidecar_listens_where_the_kubelet_asks_and_before_it_imports_what_takes_long() -> None:
    """In a fresh process, which is ended by the first heavy import."""
    program = (
        "import sys, runpy\n"
        "class Heavy:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name in ('asyncio', 'ssl', 'google'): sys.exit(f'{name} after a port was opened: {opened}')\n"
        "import socket; create, opened = socket.create_server, []\n"
        "def create_server(address, **more): opened.append(address[1]); return create((address[0], 0), **more)\n"
        "socket.create_server = create_server\n"
        "sys.meta_path.insert(0, Heavy())\n"
        "runpy.run_module('valkey_operator.sidecar', run_name='__main__')\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert said.stderr.strip() == f"asyncio after a port was opened: [{pod.PROBE_PORT}]"

"""The operator among another operator's CRDs: it says so, and asks for nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.caches import eventually, running
from tests.ports import free_port
from valkey_operator.api.foreign import ADVICE
from valkey_operator.operator import main
from valkey_operator.operator.own_kinds import Discovery, Served, reason
from valkey_operator.settings.operator import OperatorSettings

NEEDED = {"valkeys": "valkeys.valkey.io", "valkeynodes": "valkeynodes.valkey.io"}
OURS = ("valkey-all",)


@pytest.mark.parametrize(
    ("served", "why"),
    [
        ({"valkeys": OURS, "valkeynodes": OURS}, None),
        ({"valkeys": OURS, "valkeynodes": OURS, "valkeys/status": (), "strangers": ()}, None),
        ({"valkeys": ("all", "valkey-all"), "valkeynodes": OURS}, None),
        ({"valkeys": OURS}, "valkeynodes.valkey.io: not installed; install the CRDs of this version"),
        ({"valkeys": (), "valkeynodes": OURS}, f"valkeys.valkey.io: {ADVICE}"),
        ({"valkeys": ("valkey",)}, f"valkeys.valkey.io: {ADVICE}"),
        ({"valkeys": (), "valkeynodes": ()}, f"valkeynodes.valkey.io, valkeys.valkey.io: {ADVICE}"),
    ],
)
def test_a_crd_is_ours_when_its_category_says_so(served: dict[str, tuple[str, ...]], why: str | None) -> None:
    found = Discovery(tuple(Served(name, categories) for name, categories in served.items()))
    assert reason(NEEDED, found) == why


class Api:
    """An API server that has one foreign resource, or cannot answer; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = True

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if not self.answers:
            return web.json_response({"kind": "Status", "message": "not today", "code": 500}, status=500)
        found: dict[str, Any] = {
            "name": "valkeyclusters",
            "kind": "ValkeyCluster",
            "namespaced": True,
            "verbs": [],
        }
        return web.json_response({"kind": "APIResourceList", "resources": [found]})


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_an_operator_beside_another_says_so_and_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, port = Api(), free_port()

    async def ready() -> str:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 503
            return (await answer.text()).splitlines()[0]

    async with served(api) as server, aiohttp.ClientSession() as session:
        content = {
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": server}}],
            "contexts": [{"name": "here", "context": {"cluster": "here"}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        settings = OperatorSettings("valkey-system", "one_127.0.0.1_x", "x", health_port=port)
        async with running(main.run(settings)):
            await eventually(lambda: len(api.asked) >= 2)
            assert await ready() == f"[-]custom resources failed: valkeyclusters.valkey.io: {ADVICE}"
            api.answers = False
            before = len(api.asked)
            await eventually(lambda: len(api.asked) > before + 1)
            await asyncio.sleep(0)
            assert "it cannot be seen whose they are: " in await ready()
    assert set(api.asked) == {"GET /apis/valkey.io/v1alpha1"}

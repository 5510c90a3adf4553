"""For tests of caches and controllers: run them, wait for what must become true, compare with the server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, Object

# Far above what is normal: a test that waits this long has failed.
PATIENCE = 30.0


@contextlib.asynccontextmanager
async def running(*parts: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run these beside the test; one that ends with an error fails it, all are ended with it."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        ended_early = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended_early:
        task.result()


@contextlib.asynccontextmanager
async def filled(*informers: Informer[Any]) -> AsyncIterator[None]:
    async with running(*(informer.run() for informer in informers)):
        for informer in informers:
            await asyncio.wait_for(informer.synced(), PATIENCE)
        yield


async def eventually(claim: Callable[[], bool | Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Wait until the claim holds; a claim that never does is the test's failure."""
    ends = time.monotonic() + patience
    while True:
        held = claim()
        if await held if isinstance(held, Awaitable) else held:
            return
        assert time.monotonic() < ends, f"not true within {patience} s"
        await asyncio.sleep(0.02)


def versions(items: Any) -> dict[Key, str]:
    return {item.key: item.metadata.resource_version for item in items}


async def becomes_what_the_server_has(informer: Informer[Any], client: Client, *namespaces: str) -> None:
    """The store comes to equal a fresh LIST, object by object and version by version."""

    async def equal() -> bool:
        fresh: dict[Key, str] = {}
        for namespace in namespaces or ("",):
            found = await client.list_all(informer.resource, Object, namespace, informer.selection)
            fresh |= versions(found)
        return fresh == versions(informer.store)

    await eventually(equal)


@contextlib.asynccontextmanager
async def nothing_left_running() -> AsyncIterator[None]:
    """Fails when a task is still there that was not there before."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"still running: {left}"


def open_sockets() -> int:
    """Of this process. Connections with TLS are closed a moment after their client."""
    count = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since
            count += str(file.readlink()).startswith("socket:")
    return count

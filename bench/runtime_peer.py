"""An operator on our own runtime that caches Pods or reconciles ConfigMaps and does nothing else, to be measured.

Usage: python -m bench.runtime_peer cache|latency|idle NAMESPACE COUNT. Prints one JSON line when its cache is
filled, and one with all latencies when it is ended. It imports what an operator imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from valkey_operator.kube import access, events, webhook, writer
from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Again, Controller
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Fields, Key, Object, Vocabulary
from valkey_operator.kube.resources import CONFIG_MAPS, PODS, Selection
from valkey_operator.kube.runtime import Runtime
from valkey_operator.process import health, logs

OURS = Selection(labels="bench=yes")
CHANGED_AT = "bench/changed-at"
BEGUN = time.time_ns()
# Imported for their weight, as an operator would have them.
ALSO = (events, webhook, writer)


class Condition(Vocabulary, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""


class ContainerStatus(Vocabulary, frozen=True, gc=False):
    name: str
    ready: bool = False
    restart_count: int = 0
    image: str = ""


class PodSpec(Fields, frozen=True, gc=False):
    node_name: str = ""


class PodStatus(Fields, frozen=True, gc=False):
    phase: str = ""
    pod_ip: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True, gc=False):
    """What an operator reads of a pod."""

    spec: PodSpec
    status: PodStatus


class Work:
    """A reconcile that only notes how late it came."""

    def __init__(self, informer: Informer[Object]) -> None:
        self._informer = informer
        self.latencies: list[float] = []

    async def reconcile(self, key: Key) -> Again:
        now = time.time_ns()
        item = self._informer.store.get(key)
        changed = int(item.metadata.annotations.get(CHANGED_AT, 0)) if item is not None else 0
        if changed > BEGUN:  # what changed before this program was there says nothing about it
            self.latencies.append((now - changed) / 1e6)
        return None


async def main() -> None:
    mode, namespace, _ = sys.argv[1:]
    logs.configure("json")
    async with Client(access.from_kubeconfig()) as client:
        runtime = Runtime(client)
        latencies = prepare(runtime, mode, namespace)
        async with health.opened(live={}, ready=runtime.checks(), host="127.0.0.1", port=0):
            await runtime.run()
        say({"latencies_ms": latencies})


def prepare(runtime: Runtime, mode: str, namespace: str) -> list[float]:
    """The list that will hold the latencies."""
    if mode == "cache":
        pods = runtime.informer(PODS, Pod, [namespace], OURS)
        runtime.beside(lambda: tell(pods))
        return []
    maps = runtime.informer(CONFIG_MAPS, Object, [namespace], OURS)
    work = Work(maps)
    controller = runtime.add(Controller("bench", work.reconcile))
    controller.watches(maps)
    runtime.beside(lambda: tell(maps))
    return work.latencies


async def tell(informer: Informer[Any]) -> None:
    """Say when the cache is filled."""
    started = time.monotonic()
    await informer.synced()
    say({"pid": os.getpid(), "sync_s": time.monotonic() - started})


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

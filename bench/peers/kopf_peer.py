"""The same work as bench/runtime_peer.py, done with kopf as its documentation shows it.

Usage: kopf_peer.py cache|latency|idle NAMESPACE COUNT. It has neither a cache that can be waited for nor a
reconcile by key: an index stands for the one, an event handler (its fastest, which writes nothing) for the other.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import kopf  # type: ignore[import-not-found]

CHANGED_AT = "bench/changed-at"
BEGUN = time.time_ns()


class Work:
    """What the handlers keep."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.known: set[str] = set()
        self.latencies: list[float] = []
        self.started = time.monotonic()

    def saw(self, name: str) -> None:
        """Say once that everything was seen."""
        if name in self.known:
            return
        self.known.add(name)
        if len(self.known) == self.count:
            say({"pid": os.getpid(), "sync_s": time.monotonic() - self.started})

    async def index(self, name: str, body: Any, **_: Any) -> dict[str, Any]:
        """As many fields as bench/runtime_peer.py keeps."""
        self.saw(name)
        spec, status = body["spec"], body.get("status", {})
        kept = {
            "metadata": {**body["metadata"], "managedFields": None},
            "nodeName": spec.get("nodeName"),
            "phase": status.get("phase"),
            "podIP": status.get("podIP"),
            "conditions": [dict(condition) for condition in status.get("conditions", ())],
            "containerStatuses": [dict(container) for container in status.get("containerStatuses", ())],
        }
        return {name: kept}

    async def event(self, name: str, annotations: Any, **_: Any) -> None:
        now = time.time_ns()
        changed = int(annotations.get(CHANGED_AT, 0))
        if changed > BEGUN:
            self.latencies.append((now - changed) / 1e6)
        self.saw(name)


def configure(settings: Any, **_: Any) -> None:
    settings.posting.enabled = False
    settings.scanning.disabled = True


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    mode, namespace, count = sys.argv[1:]
    work = Work(int(count))
    kopf.on.startup()(configure)
    ours = {"bench": "yes"}
    if mode == "cache":
        kopf.index("v1", "pods", labels=ours)(work.index)
    else:
        kopf.on.event("v1", "configmaps", labels=ours)(work.event)
    kopf.run(standalone=True, namespaces=[namespace])
    say({"latencies_ms": work.latencies})


if __name__ == "__main__":
    main()

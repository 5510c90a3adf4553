"""The same work as bench/runtime_peer.py, done with kopf as its documentation shows it.

Usage: kopf_peer.py cache|latency|idle NAMESPACE COUNT. It has neither a cache that can be waited for nor a
reconcile by key: event handlers, its fastest, which write nothing, stand for both. (Its indexes would be the
cache, but their time grows with the square: 1,000 pods 3 s, 2,000 pods 14 s, 5,000 pods over 3 minutes.)
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import kopf  # type: ignore[import-not-found]

CHANGED_AT = "bench/changed-at"
KEPT = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations")
BEGUN = time.time_ns()


class Work:
    """What the handlers keep."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.known: dict[str, Any] = {}
        self.latencies: list[float] = []
        self.started = time.monotonic()

    def keep(self, name: str, kept: Any) -> None:
        """Say once that everything was seen."""
        is_new = name not in self.known
        self.known[name] = kept
        if is_new and len(self.known) == self.count:
            say({"pid": os.getpid(), "sync_s": time.monotonic() - self.started})

    async def cache(self, name: str, body: Any, **_: Any) -> None:
        """As many fields as bench/runtime_peer.py keeps."""
        metadata, status = body["metadata"], body.get("status", {})
        kept = {
            "metadata": {field: metadata[field] for field in KEPT if field in metadata},
            "nodeName": body["spec"].get("nodeName"),
            "phase": status.get("phase"),
            "podIP": status.get("podIP"),
            "conditions": [(each["type"], each["status"]) for each in status.get("conditions", ())],
            "containers": [(each["name"], each["ready"]) for each in status.get("containerStatuses", ())],
        }
        self.keep(name, kept)

    async def event(self, name: str, annotations: Any, **_: Any) -> None:
        now = time.time_ns()
        changed = int(annotations.get(CHANGED_AT, 0))
        if changed > BEGUN:
            self.latencies.append((now - changed) / 1e6)
        self.keep(name, None)


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
        kopf.on.event("v1", "pods", labels=ours)(work.cache)
    else:
        kopf.on.event("v1", "configmaps", labels=ours)(work.event)
    kopf.run(standalone=True, namespaces=[namespace])
    say({"latencies_ms": work.latencies})


if __name__ == "__main__":
    main()

"""Compacts etcd over its JSON gateway; run inside the control plane's network namespace."""

from __future__ import annotations

import json
import sys
import urllib.request

from devcluster.control_plane import ETCD


def _call(path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(f"{ETCD}/v3/{path}", json.dumps(body).encode())  # noqa: S310 - own etcd
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        parsed: dict[str, dict[str, str]] = json.load(answer)
        return parsed


def compact() -> str:
    """Forget every revision but the newest."""
    revision = _call("kv/range", {"key": "AA=="})["header"]["revision"]
    _call("kv/compaction", {"revision": revision, "physical": True})
    return revision


if __name__ == "__main__":
    sys.stdout.write(compact())

"""The least that can watch: notes when each line of a watch came, and looks into it only for its time stamp.

Usage: python -m bench.bare_watch latency NAMESPACE COUNT. The floor below every latency: what the API server and
the network take themselves.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import time
from urllib.parse import urlsplit

from valkey_operator.kube.access import from_kubeconfig
from valkey_operator.kube.credentials import Fixed, Identity

STAMP = re.compile(rb'"bench/changed-at":"(\d+)"')


def main() -> None:
    begun, latencies = time.time_ns(), list[float]()
    signal.signal(signal.SIGTERM, _end)
    answer = watch(sys.argv[2])
    print(json.dumps({"pid": os.getpid(), "sync_s": 0}), flush=True)
    try:
        while line := answer.readline():
            now = time.time_ns()
            changed = STAMP.search(line)
            if changed is not None and int(changed[1]) > begun:
                latencies.append((now - int(changed[1])) / 1e6)
    finally:
        print(json.dumps({"latencies_ms": latencies}), flush=True)


def watch(namespace: str) -> http.client.HTTPResponse:
    access = from_kubeconfig()
    shown = access.credentials.shown if isinstance(access.credentials, Fixed) else Identity()
    place = urlsplit(access.server)
    context = access.tls.context(shown) if access.tls is not None else None
    connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=context)
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=1&labelSelector=bench%3Dyes&timeoutSeconds=600"
    headers = {"Authorization": f"Bearer {shown.token}"} if shown.token else {}
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def _end(_number: int, _frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()

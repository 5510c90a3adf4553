"""Changes ConfigMaps at a steady rate, each stamped with the moment before its request leaves.

Usage: python -m bench.changer NAMESPACE COUNT RATE SECONDS. A process of its own, so that what it does is not
counted against whoever is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from valkey_operator.kube.access import from_kubeconfig
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS


async def main() -> None:
    namespace, count, rate, seconds = sys.argv[1], *map(int, sys.argv[2:])
    late: list[float] = []
    async with Client(from_kubeconfig()) as client, asyncio.TaskGroup() as group:
        # Connections are there before the first change, so that none of them waits for a handshake.
        warm = (client.get(CONFIG_MAPS, Key(namespace, f"map-{number}"), Object) for number in range(16))
        await asyncio.gather(*warm)
        begun = time.monotonic()
        for number in range(rate * seconds):
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            late.append(time.monotonic() - due)
            group.create_task(change(client, Key(namespace, f"map-{number % count}")))
    print(json.dumps({"changes": len(late), "late_ms": round(max(late) * 1e3, 1)}), flush=True)


async def change(client: Client, key: Key) -> None:
    stamp = {"metadata": {"annotations": {"bench/changed-at": str(time.time_ns())}}}
    await client.patch(CONFIG_MAPS, key, stamp, Object)


if __name__ == "__main__":
    asyncio.run(main())

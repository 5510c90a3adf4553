"""A process that leads when it can and writes as fast as it can while it does; says so on standard output.

With `--freeze-at N` it stops itself (SIGSTOP) in the middle of its N-th write: the fence has said yes, the
request has not left. With the lead it loses all that it remembers: how much it had written.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal

from valkey_operator.kube import access, errors
from valkey_operator.kube.client import Client
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import CONFIG_MAPS
from valkey_operator.kube.runtime import Runtime
from valkey_operator.process import anew


class Freezing:
    """A fence that freezes the whole process right after it has said yes."""

    def __init__(self, leadership: Leadership, freeze_at: int) -> None:
        self._leadership = leadership
        self._asked = 0
        self._freeze_at = freeze_at

    def time_left(self) -> float:
        left = self._leadership.time_left()
        self._asked += 1
        if self._asked == self._freeze_at:
            os.kill(os.getpid(), signal.SIGSTOP)
        return left


async def main() -> bool:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig")
    parser.add_argument("namespace")
    parser.add_argument("identity")
    parser.add_argument("--duration", type=int, default=15)
    parser.add_argument("--freeze-at", type=int, default=0)
    options = parser.parse_args()
    way = access.from_kubeconfig(options.kubeconfig)
    async with Client(way) as unfenced:
        lease = Key(options.namespace, "leader")
        leadership = Leadership(unfenced, lease, options.identity, duration=options.duration)
        # The fence is asked twice per write: before connecting and before sending.
        async with Client(way, fence=Freezing(leadership, 2 * options.freeze_at - 1)) as client:
            runtime = Writing(client, leadership, options.namespace)
            runtime.on_loss = anew.decide
            is_over = await runtime.run()
    print("ended", flush=True)
    return is_over


class Writing(Runtime):
    """Instead of controllers: one write after the other."""

    def __init__(self, client: Client, leadership: Leadership, namespace: str) -> None:
        super().__init__(client, leadership)
        self._key = Key(namespace, "record")
        self._writer = leadership.identity
        self._written = 0

    async def _work(self) -> None:
        self._works = True
        print("leads", flush=True)
        print(f"remembers {self._written}", flush=True)
        try:
            await self._write_on()
        finally:
            print("stopped", flush=True)
            self._works = False

    async def _write_on(self) -> None:
        while not self._stopping.is_set():
            self._written += 1
            data = {"writer": self._writer, "number": str(self._written)}
            metadata = {"name": self._key.name, "namespace": self._key.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            try:
                await self._client.apply(CONFIG_MAPS, self._key, body, Object, manager="leader", force=True)
            except errors.NotLeader:
                print("held back", flush=True)
                await asyncio.sleep(0.2)
            except errors.KubeError as error:
                print(f"failed {error}", flush=True)
                await asyncio.sleep(0.2)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if not asyncio.run(main()):
        anew.begin()

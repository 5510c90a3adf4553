"""Says whether an operator leads in this namespace and answers there; `helm test` runs it.

A Lease that names somebody proves nothing: it may be what is left of one that is gone. Only a renewal does.
"""

from __future__ import annotations

import asyncio
import os
import sys

from valkey_operator.contract import heartbeat
from valkey_operator.contract.heartbeat import Address
from valkey_operator.kube import access
from valkey_operator.kube.backoff import Backoff
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.lease import Lease
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import LEASES, Selection
from valkey_operator.operator.world import MANAGER

LIMIT = 60.0


async def leader(client: Client, key: Key) -> str:
    """Who leads, as soon as it was seen to renew its lead."""
    renewed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    selection = Selection(fields=f"metadata.name={key.name}")
    informer = Informer(client, LEASES, Lease, (key.namespace,), selection)

    def saw(before: Object | None, after: Object | None) -> None:
        if isinstance(before, Lease) and isinstance(after, Lease) and not renewed.done():
            holder = after.spec.holder_identity
            if holder and holder == before.spec.holder_identity:
                renewed.set_result(holder)

    informer.store.on_change(saw)
    watching = asyncio.create_task(informer.run())
    try:
        return await renewed
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def answers(address: Address) -> None:
    """Returns when somebody takes a connection. Nobody tells when that is so: it is tried again and again."""
    backoff = Backoff(first=0.2, longest=2.0)
    while True:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            await asyncio.sleep(backoff.failed())
        else:
            writer.close()
            return


async def examine(client: Client, namespace: str, address: Address, limit: float = LIMIT) -> str | None:
    """What is wrong, or None."""
    try:
        async with asyncio.timeout(limit):
            who = await leader(client, Key(namespace, MANAGER))
    except TimeoutError:
        return f"no operator renewed its lead in namespace {namespace} within {limit:.0f} s; its log says why"
    print(f"{who} leads")
    try:
        async with asyncio.timeout(limit):
            await answers(address)
    except TimeoutError:
        return f"no operator took a connection at {address} within {limit:.0f} s; its log says why"
    print(f"an operator answers at {address}")
    return None


async def main() -> str | None:
    namespace = os.environ.get("NAMESPACE")
    if not namespace:
        return "the environment lacks NAMESPACE; the pod's manifest must set it"
    async with Client(access.find()) as client:
        return await examine(client, namespace, Address(f"{MANAGER}.{namespace}.svc", heartbeat.PORT))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

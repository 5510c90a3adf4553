"""The operator's process: settings, caches, controllers, leadership, health."""

from __future__ import annotations

import asyncio

from valkey_operator.contract.identity import TRUST_DOMAIN
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.kube.writer import Writer
from valkey_operator.operator.calls import LastSeen, Sidecars
from valkey_operator.operator.node import NodeController
from valkey_operator.operator.valkey import ValkeyController
from valkey_operator.operator.world import World, caches
from valkey_operator.process import health, logs
from valkey_operator.settings.operator import OperatorSettings

MANAGER = "valkey-operator"


async def run(settings: OperatorSettings) -> None:
    way = access.find()
    async with Client(way) as unfenced:
        lease = Key(settings.namespace, MANAGER)
        leadership = Leadership(unfenced, lease, settings.identity, duration=settings.lease_seconds)
        async with Client(way, fence=leadership) as client:
            runtime = Runtime(client, leadership)
            recorder = Recorder(client, MANAGER, settings.identity)
            world = World(settings, client, caches(runtime, settings), Writer(client, MANAGER), recorder)
            runtime.beside(recorder.run)
            # Until somebody issues the operator a certificate, no sidecar can be asked.
            nodes = NodeController(world, LastSeen(), Sidecars(lambda: None, TRUST_DOMAIN))
            for made in (nodes, ValkeyController(world)):
                runtime.add(made.controller)
            async with health.opened({}, runtime.checks(), port=settings.health_port):
                await runtime.run()


def main() -> None:
    settings = OperatorSettings.from_environment()
    logs.configure("json", settings.log_level)
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()

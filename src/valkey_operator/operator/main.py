"""The operator's process: settings, caches, controllers, leadership, health."""

from __future__ import annotations

import asyncio

from valkey_operator.contract import mtls
from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.controller import Controller
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.lease import Leadership
from valkey_operator.kube.objects import Key
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.calls import Sidecars
from valkey_operator.operator.certificates import CertificateController
from valkey_operator.operator.cluster import ClusterController
from valkey_operator.operator.hearing import Hearing
from valkey_operator.operator.node import NodeController
from valkey_operator.operator.own_kinds import OwnKinds
from valkey_operator.operator.roots import RootController
from valkey_operator.operator.valkey import ValkeyController
from valkey_operator.operator.world import MANAGER, World
from valkey_operator.process import anew, health, heap, logs
from valkey_operator.settings.operator import OperatorSettings


async def run(settings: OperatorSettings) -> bool:
    """Until it is told to end: true. Or until it has lost the lead: false."""
    mtls.save_memory()
    way = access.find()
    async with Client(way) as unfenced:
        lease = Key(settings.namespace, MANAGER)
        leadership = Leadership(
            unfenced, lease, settings.identity, duration=settings.lease_seconds, place=settings.place
        )
        async with Client(way, fence=leadership) as client:
            runtime = Runtime(client, leadership)
            runtime.on_loss = anew.decide
            recorder = Recorder(client, MANAGER, settings.identity)
            world = World.of(settings, client, runtime, recorder, leadership.leads_for)
            runtime.beside(recorder.run)
            hearing = Hearing(world, leadership)
            sidecars = Sidecars(lambda: world.identity.credentials, settings.trust_domain, leadership)
            for work in (hearing.run, sidecars.run):
                runtime.beside(work)
            for controller in controllers(world, hearing, sidecars):
                runtime.add(controller)
            kinds = OwnKinds(unfenced, runtime.resources())
            ready = {"custom resources": kinds.trouble, **runtime.checks()}
            async with health.opened({}, ready, port=settings.health_port):
                await kinds.confirm()
                return await runtime.run()


def controllers(world: World, hearing: Hearing, sidecars: Sidecars) -> list[Controller]:
    """All of them, each woken by what it watches and by what sidecars say."""
    roots = RootController(world)
    certificates = CertificateController(world, roots)
    nodes, valkeys = NodeController(world, sidecars), ValkeyController(world, sidecars)
    clusters = ClusterController(world, sidecars, valkeys.memory, valkeys.sight)
    for wake in (certificates.wake, nodes.controller.wake):
        hearing.wakes(wake)
    for wake in (valkeys.wake, clusters.wake):
        hearing.wakes(wake, for_others=True)
    hearing.grant = valkeys.leases.answer
    made = (roots, certificates, nodes, valkeys, clusters)
    return [each.controller for each in made]


def main() -> None:
    settings = OperatorSettings.from_environment()
    logs.configure("json", settings.log_level)
    heap.keep_what_is_imported()
    # Another one leads by then. What was remembered of sidecars, leases and wishes is not true any more.
    if not asyncio.run(run(settings)):
        anew.begin()

"""Whom a change wakes that concerns certificates."""

from __future__ import annotations

import pytest

from valkey_operator.kube import access
from valkey_operator.kube.client import Client
from valkey_operator.kube.events import Recorder
from valkey_operator.kube.objects import Key, ManagedMetadata
from valkey_operator.kube.runtime import Runtime
from valkey_operator.operator.certificates import CertificateController
from valkey_operator.operator.roots import RootController
from valkey_operator.operator.seen import Custom
from valkey_operator.operator.world import World
from valkey_operator.settings.operator import OperatorSettings

SYSTEM = "valkey-system"
DEMO = Key("prod", "demo")


class Place:
    """Caches that a test fills, and the controller that looks at them."""

    def __init__(self) -> None:
        client = Client(access.Access("https://nobody.invalid"))
        settings = OperatorSettings(SYSTEM, "one", "image")
        recorder = Recorder(client, "test", "one")
        self.world = World.of(settings, client, Runtime(client), recorder, lambda: 0.0)
        self.controller = CertificateController(self.world, RootController(self.world)).controller

    async def woken(self) -> list[Key]:
        found = []
        while len(self.controller.queue):
            key, _ = await self.controller.queue.take()
            self.controller.queue.done(key)
            found.append(key)
        return found


def item(namespace: str, name: str, version: int = 1) -> Custom:
    return Custom(ManagedMetadata(name, namespace, uid="u", resource_version=str(version)))


@pytest.mark.parametrize("cache", ["valkeys", "clusters"])
async def test_a_deployment_that_changes_is_looked_at(cache: str) -> None:
    place = Place()
    store = getattr(place.world.caches, cache).store
    store.put(item(*DEMO))
    assert await place.woken() == [DEMO]


@pytest.mark.parametrize("cache", ["valkeys", "clusters"])
@pytest.mark.parametrize(
    ("namespace", "woken"), [(SYSTEM, [DEMO]), (DEMO.namespace, [DEMO]), ("elsewhere", [])]
)
async def test_defaults_that_change_wake_those_they_are_for(
    cache: str, namespace: str, woken: list[Key]
) -> None:
    place = Place()
    getattr(place.world.caches, cache).store.put(item(*DEMO))
    await place.woken()
    place.world.caches.defaults.store.put(item(namespace, "defaults"))
    assert await place.woken() == woken

"""Calls to sidecars in real pods, as whoever holds a certificate."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.e2e.conftest import PLACE, Place
from valkey_operator.contract.channel import CheckedChannel, opened
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import Credentials, Material
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.kube import access, streams
from valkey_operator.kube.client import Client
from valkey_operator.kube.objects import Key

PARTS = ("tls.crt", "tls.key", "ca.crt")


def content(place: Place, name: str, namespace: str = "") -> dict[str, bytes]:
    """What lies in a Secret."""
    found = Place(place.cluster, namespace or place.namespace).get("secret", name)["data"]
    return {part: base64.b64decode(text) for part, text in found.items()}


def shown_by(place: Place, secret: str, namespace: str = "") -> Material:
    found = content(place, secret, namespace)
    return Material(*(found[part] for part in PARTS))


def operators(place: Place) -> Material:
    return shown_by(place, "valkey-operator-mtls", PLACE)


@asynccontextmanager
async def forwarded(place: Place, pod: str, port: int = 9443) -> AsyncIterator[int]:
    """A port of this machine that leads through the API server to one of a pod."""
    failures: list[object] = []
    async with (
        Client(access.from_kubeconfig(str(place.cluster.kubeconfig))) as client,
        streams.port_forward(client, Key(place.namespace, pod), port, failures.append) as local,
    ):
        yield local


@asynccontextmanager
async def calling(place: Place, shown: Material, node: str = "one-0") -> AsyncIterator[NodeStub]:
    """The sidecar of a node of the Valkey `one`."""
    peer = Scope(place.namespace, "Valkey", "one").node(node)
    async with (
        forwarded(place, f"{node}-0") as port,
        opened("127.0.0.1", Credentials.from_bytes(shown), peer, port) as channel,
    ):
        assert isinstance(channel, CheckedChannel)
        yield NodeStub(channel)

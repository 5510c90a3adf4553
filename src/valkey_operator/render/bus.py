"""The port at which the servers of a cluster talk with each other."""

from __future__ import annotations

from zlib import crc32

from valkey_operator.api.tls import BUS_PORTS
from valkey_operator.model.deployment import Deployment


def bus_port(deployment: Deployment) -> int:
    """Not the same for every cluster. Servers look for their peers where those were; after the loss of a machine such
    an address may belong to a pod of another cluster, and since 8.1 they greet whom they find there as a new member:
    two clusters become one, and slots of theirs are lost."""
    name = f"{deployment.namespace}/{deployment.name}"
    return BUS_PORTS[crc32(name.encode()) % len(BUS_PORTS)]

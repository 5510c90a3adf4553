"""The operator without a cluster: who runs where is made up, all else is what a pod runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fuzz.programs import Place, start
from valkey_operator.contract import mtls
from valkey_operator.contract.identity import NodeIdentity, Scope
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator import heartbeats
from valkey_operator.operator.observations import Observations
from valkey_operator.process import health


class Lead:
    identity = leader = "operator"
    leads = True


def grant(_node: NodeIdentity, request: contract.LeaseRequest) -> contract.LeaseGrant:
    return contract.LeaseGrant(epoch=request.epoch, milliseconds=6000)


async def serve(place: Place) -> None:
    mtls.save_memory()
    scope, ports = Scope(*place["scope"]), place["ports"]

    def current_pod(key: Key) -> heartbeats.CurrentPod:
        return heartbeats.CurrentPod(scope.node(key.name), place["uid"])

    credentials = Credentials.from_folder(Path(place["identity"]))
    channel = heartbeats.opened(credentials, Lead(), current_pod, Observations(), grant, ports["channel"])
    async with channel, health.opened({}, {}, port=ports["health"]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    start(serve)

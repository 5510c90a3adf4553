"""Three nodes of a Valkey that the test itself has made, and commands as the operator would."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.calls import forwarded, operators
from tests.e2e.conftest import PLACE, Place
from valkey_operator.api import layers
from valkey_operator.contract.channel import Unanswered, answered, opened
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import Credentials
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.kube.errors import ApiError
from valkey_operator.model.deployment import Deployment
from valkey_operator.render.node import valkey_node
from valkey_operator.render.pod import OperatorPlace
from valkey_operator.render.users import RULES, SIDECAR, users_acl

NODES = ("three-0", "three-1", "three-2")
SPEC: dict[str, Any] = {
    "image": "valkey-operator/valkey:9.1",
    "imagePullPolicy": "Never",
    "replicas": 3,
    # So that its controller leaves alone what the test makes of it.
    "paused": True,
    "persistence": {"size": "64Mi", "storageClassName": "standard"},
}
OPERATOR = OperatorPlace("valkey-operator/operator:dev", PLACE)


class Three:
    """`three-0` is the primary of the first epoch."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._scope = Scope(place.namespace, "Valkey", "three")
        self._shown = Credentials.from_bytes(operators(place))

    def make(self, **persistence: Any) -> None:
        spec = {**SPEC, "persistence": {**SPEC["persistence"], **persistence}}
        self.place.apply("Valkey", "three", spec)
        self._put_users()
        uid = self.place.get("valkey", "three")["metadata"]["uid"]
        values = layers.effective("Valkey", spec).values
        wanted = Deployment("Valkey", "three", self.place.namespace, uid, values)
        for name in NODES:
            node = valkey_node(wanted, name, NODES[0], 1, OPERATOR, NODES)
            self._apply({"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyNode", **node})
        for name in NODES:
            self.place.kubectl("wait", "--for=create", f"pod/{name}-0", "--timeout=60s")
            self.is_ready(name)

    def is_ready(self, node: str) -> None:
        self.place.kubectl("wait", "--for=condition=Ready", f"pod/{node}-0", "--timeout=60s")

    def valkey(self, node: str, *words: str) -> str:
        return self.place.valkey(f"{node}-0", *words)

    def fill(self, first: int, last: int) -> None:
        """One key for each number, in every node when this returns."""
        for n in range(first, last):
            assert self.valkey(NODES[0], "SET", f"k{n}", str(n)) == "OK"
        assert self.valkey(NODES[0], "WAIT", "2", "10000") == "2"

    def size(self, node: str) -> int:
        return int(self.valkey(node, "DBSIZE"))

    async def observe(self, node: str) -> contract.Observation:
        async with self._calling(node) as sidecar:
            seen: contract.Observation = await answered(sidecar.Observe(contract.ObserveRequest()), 30)
            return seen

    async def order(self, node: str, epoch: int, **what: Any) -> contract.Outcome:
        uid = self.place.get("pod", f"{node}-0")["metadata"]["uid"]
        async with self._calling(node) as sidecar:
            order = contract.Order(pod_uid=uid, epoch=epoch, **what)
            outcome: contract.Outcome = await answered(sidecar.Act(order), 30)
            return outcome

    async def sees(
        self, node: str, claim: Callable[[contract.Observation], bool], patience: float = 60
    ) -> contract.Observation:
        """Waits until a sidecar says so."""
        ends, seen = time.monotonic() + patience, None
        while time.monotonic() < ends:
            try:
                seen = await self.observe(node)
            except (Unanswered, ApiError):
                continue
            if claim(seen):
                return seen
        raise AssertionError(f"not seen within {patience} s; {node} says {seen}")

    async def is_closed_by(self, rule: str, node: str) -> contract.Observation:
        return await self.sees(
            node, lambda seen: seen.gate.is_asked and seen.gate.waits_for.startswith(f"{rule}: ")
        )

    @asynccontextmanager
    async def _calling(self, node: str) -> AsyncIterator[NodeStub]:
        async with (
            forwarded(self.place, f"{node}-0") as port,
            opened("127.0.0.1", self._shown, self._scope.node(node), port) as channel,
        ):
            yield NodeStub(channel)

    def _put_users(self) -> None:
        passwords = dict.fromkeys(RULES, "only for this test")
        users = {"users.acl": users_acl(passwords).encode(), "sidecar-password": passwords[SIDECAR].encode()}
        self._put_secret("three-system-users", users)

    def _put_secret(self, name: str, content: dict[str, bytes]) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        self._apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})

    def _apply(self, wanted: dict[str, Any]) -> None:
        kubectl = self.place.cluster.kubectl
        kubectl("--namespace", self.place.namespace, "apply", "-f", "-", stdin=json.dumps(wanted))

"""The leader's memory of what each sidecar said last."""

from __future__ import annotations

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key


class Observations:
    """By node."""

    def __init__(self) -> None:
        self._last: dict[Key, contract.Observation] = {}

    def get(self, key: Key) -> contract.Observation | None:
        return self._last.get(key)

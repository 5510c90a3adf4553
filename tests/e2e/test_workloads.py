"""Nodes that are Deployments of Kubernetes: they are restarted one after the other, as StatefulSets are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Place, by_name
from tests.e2e.test_one_node import SPEC

# Nothing but the other server has the data while one is restarted.
IN_MEMORY = {**SPEC, "replicas": 2, "podManagementType": "deployment", "persistence": {"enabled": False}}
MORE = {"requests": {"memory": "48Mi"}, "limits": {"memory": "96Mi"}}


class Pods:
    """Whoever looks sees how many of them are missing."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.first = set(self._found())
        self.fewest = len(self.first)

    def _found(self) -> dict[str, dict[str, Any]]:
        items = json.loads(self._place.kubectl("get", "pods", "--output=json"))["items"]
        return {each["metadata"]["uid"]: each for each in items}

    def _serving(self) -> int:
        found = self._found().values()
        return sum(
            "deletionTimestamp" not in each["metadata"]
            and by_name(each["status"].get("containerStatuses", [])).get("valkey", {}).get("ready", False)
            for each in found
        )

    def are_all_new(self) -> bool:
        self.fewest = min(self.fewest, self._serving())
        found = self._found()
        return len(found) == len(self.first) and not self.first & set(found) and self._serving() == len(found)

    def same(self) -> bool:
        return self.first == set(self._found())

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self._found().values()]


def primary(place: Place) -> str:
    """Its pod."""
    node = place.get("valkey", "one")["status"]["primary"]
    return place.kubectl("get", "pods", f"--selector=valkey.io/node={node}", "--output=name").strip()


def is_well(place: Place) -> bool:
    found = place.get("valkey", "one")
    status = found.get("status", {})
    seen = status.get("state"), status.get("observedGeneration")
    return seen == ("Ready", found["metadata"]["generation"])


def wish(place: Place, **spec: Any) -> None:
    patch = json.dumps({"spec": spec})
    place.kubectl("patch", "valkey", "one", "--type=merge", f"--patch={patch}")


@pytest.mark.parametrize("what", [{"config": {"databases": "20"}}, {"terminationGracePeriodSeconds": 90}])
def test_deployments_of_kubernetes_are_restarted_one_after_the_other(
    place: Place, what: dict[str, Any]
) -> None:
    place.apply("Valkey", "one", IN_MEMORY)
    place.eventually(lambda: is_well(place))
    assert place.valkey(primary(place), "SET", "kept", "1") == "OK"
    pods = Pods(place)
    wish(place, labels={"team": "shop"}, resources=MORE)
    place.eventually(
        lambda: all("team" in place.get("pod", name)["metadata"]["labels"] for name in pods.names())
    )
    place.eventually(lambda: is_well(place))
    assert pods.same()
    wish(place, **what)
    place.eventually(pods.are_all_new, 120)
    place.eventually(lambda: is_well(place))
    assert pods.fewest == 1
    assert place.valkey(primary(place), "GET", "kept") == "1"

"""A case counts as struck only if something does go wrong in it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

import pytest

from devcluster.faults import Faults
from tests.chaos import deployed
from tests.chaos.deployed import Misfortune
from tests.chaos.test_replicated import Instance, switchover
from tests.e2e.conftest import Place


class Asked(Place):
    """Grants every wish at once, and remembers them."""

    def __init__(self) -> None:
        self.wishes: list[Any] = []
        self.item: dict[str, Any] = {
            "metadata": {"generation": 1},
            "spec": {"replicas": 3},
            "status": {
                "state": "Ready", "observedGeneration": 1, "readyReplicas": 3, "primary": "cache-0", "primaryEpoch": 1,
            },
        }  # fmt: skip

    def get(self, kind: str, name: str) -> dict[str, Any]:  # noqa: ARG002 - there is one
        return self.item

    def kubectl(self, *arguments: str, timeout: float = 120) -> str:  # noqa: ARG002
        if arguments[0] == "patch":
            spec = json.loads(arguments[-1].partition("=")[2])["spec"]
            self.wishes.append(spec)
            self.item["spec"] = {**self.item["spec"], **spec}
        if arguments[0] == "annotate":
            primary, _, request = arguments[-1].partition("=")[2].partition("/")
            self.wishes.append(primary)
            status = self.item["status"]
            done = {"id": request, "result": "Done"}
            status |= {"primary": primary, "primaryEpoch": status["primaryEpoch"] + 1, "lastSwitchover": done}
        return ""


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setattr(deployed, "SOON", 0.01)
    return Instance(Asked(), cast("Faults", None), 1)


def wishes(instance: Instance) -> list[Any]:
    assert isinstance(instance.place, Asked)
    return instance.place.wishes


def test_twelve_seeds_meet_every_misfortune_twice() -> None:
    assert Counter(map(Misfortune.of, range(12))) == dict.fromkeys(Misfortune, 2)


async def test_a_wish_is_taken_back_and_set_again(instance: Instance) -> None:
    async with instance.struck(Misfortune.REVERSED):
        await instance.patch({"replicas": 1, "config": {"hz": "20"}})
    asked = {"replicas": 1, "config": {"hz": "20"}}
    assert wishes(instance) == [asked, {"replicas": 3, "config": None}, asked]


async def test_a_switchover_is_taken_back_and_set_again(instance: Instance) -> None:
    async with instance.struck(Misfortune.REVERSED):
        await switchover(instance)
    assert wishes(instance) == ["cache-1", "cache-0", "cache-1"]


async def test_beside_what_cannot_be_taken_back_another_wish_comes_and_goes(instance: Instance) -> None:
    async with instance.struck(Misfortune.REVERSED), instance.beside():
        await instance.patch({"persistence": {"size": "96Mi"}}, can_go_back=False)
    assert wishes(instance) == [{"persistence": {"size": "96Mi"}}, {"replicas": 2}, {"replicas": 3}]


async def test_without_a_change_of_mind_nothing_is_taken_back(instance: Instance) -> None:
    async with instance.struck(Misfortune.NONE), instance.beside():
        await instance.patch({"replicas": 1})
    assert wishes(instance) == [{"replicas": 1}]


async def test_work_in_which_nothing_was_taken_back_does_not_count_as_struck(instance: Instance) -> None:
    with pytest.raises(AssertionError, match="nothing was taken back"):
        async with instance.struck(Misfortune.REVERSED):
            await instance.patch({"persistence": {"size": "96Mi"}}, can_go_back=False)

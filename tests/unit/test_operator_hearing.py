"""Who is woken by what a sidecar says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.kube.objects import Key
from valkey_operator.operator.hearing import Hearing
from valkey_operator.operator.heartbeats import Leadership
from valkey_operator.operator.observations import Observations
from valkey_operator.operator.world import World

KEY = Key("prod", "grid-0-0")


class Place:
    """An operator that hears of one node."""

    def __init__(self) -> None:
        self.observations, self.woken = Observations(), list[str]()
        nothing: Any = SimpleNamespace(on_change=lambda _: None)
        # The node, where it is more than a name; and the Events that were made of it.
        self.node: Any = None
        self.events: list[tuple[str, str]] = []
        nothing.get = lambda _key: self.node
        caches = SimpleNamespace(nodes=SimpleNamespace(store=nothing))
        world = SimpleNamespace(observations=self.observations, caches=caches, tell=self._tell)
        hearing = Hearing(cast(World, world), cast(Leadership, None))
        hearing.wakes(lambda _: self.woken.append("node"))
        hearing.wakes(lambda _: self.woken.append("cluster"), for_others=True)
        self._said = contract.Observation(pod_uid="one", sequence=1)

    def _tell(self, _about: Any, reason: str, note: str) -> None:
        self.events.append((reason, note))

    def says(self, *events: contract.Event, **changes: Any) -> list[str]:
        self._said.sequence += 1
        self._said.MergeFrom(contract.Observation(**changes))
        copy = contract.Observation()
        copy.CopyFrom(self._said)
        self.woken.clear()
        assert not self.observations.take(KEY, copy, events)
        return self.woken


def member(name: str, **more: Any) -> contract.Server:
    return contract.Server(cluster=contract.ClusterView(nodes=[contract.ClusterNode(id=name, **more)]))


def test_news_of_itself_wake_everybody_and_news_of_others_the_topology_alone() -> None:
    place = Place()
    assert place.says() == ["node", "cluster"]
    assert place.says() == []
    assert place.says(server=member("another")) == ["cluster"]
    assert place.says(server=member("third", is_failed=True)) == ["cluster"]
    assert place.says() == []
    assert place.says(taken_over=contract.TakenOver(former="grid-0-1", epoch=7)) == ["node", "cluster"]
    assert place.says() == []
    assert place.says(not_ready="the server is loading its data") == ["node", "cluster"]
    own = contract.ClusterView(node_id="itself", state="ok")
    assert place.says(server=contract.Server(cluster=own)) == ["node", "cluster"]
    assert place.says() == []


def test_an_event_of_a_newer_sidecar_without_a_name_here_wakes_everybody_too() -> None:
    place = Place()
    place.says()
    unknown = contract.Event(message="something new")
    unknown.MergeFromString(b"\x08\xe7\x07")  # kind: 999
    assert unknown.kind == 999
    assert place.says(unknown) == ["node", "cluster"]


def test_an_empty_start_is_worth_an_event_only_where_a_server_served_before() -> None:
    place = Place()
    empty = contract.Event(
        kind=contract.Event.KIND_STARTED_EMPTY, message="no member has any data: starts empty"
    )
    place.node = SimpleNamespace(metadata=None, status={})
    place.says(empty)
    assert place.events == []
    place.node = SimpleNamespace(metadata=None, status={"valkeyVersion": "9.1.2"})
    place.says(empty)
    assert place.events == [("StartedEmpty", "no member has any data: starts empty")]

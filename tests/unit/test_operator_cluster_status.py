"""The status of a ValkeyCluster over several looks: what is counted, and how a request is answered once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.test_decide_sharded import cluster, name, with_node
from valkey_operator.api.deployments import ValkeyClusterStatus
from valkey_operator.api.reasons import Reason
from valkey_operator.api.requests import ALLOW_TAKEOVER, SWITCHOVER
from valkey_operator.decide.actions import Doing
from valkey_operator.decide.sharded import Plan, plan
from valkey_operator.decide.support import Refusal
from valkey_operator.kube.objects import ManagedMetadata
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.sharded import ClusterWish
from valkey_operator.operator.cluster_status import status
from valkey_operator.operator.instance_report import refused_status
from valkey_operator.operator.instance_seen import switchover_request
from valkey_operator.operator.seen import Custom

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
DEPLOYMENT = Deployment("ValkeyCluster", "g", "prod", "uid", {})


def item(annotation: str = "", generation: int = 3, **known: Any) -> Custom:
    marks = {SWITCHOVER: annotation} if annotation else {}
    metadata = ManagedMetadata(name="g", namespace="prod", generation=generation, annotations=marks)
    return Custom(metadata, {}, known)


def shown(seen: Custom, found: Plan, seconds_left: float | None = None) -> dict[str, Any]:
    after = status(seen, DEPLOYMENT, found, [], NOW, seconds_left)
    ValkeyClusterStatus.model_validate(after)
    return after


def test_how_far_it_is_and_when_it_will_end() -> None:
    scaling = plan(cluster(shards=4, wish=ClusterWish(4, 2)))
    told = shown(item(), scaling, 90.0)["operation"]
    assert (told["kind"], told["done"], told["total"]) == ("Scaling", 0, 4096)
    assert (told["startedAt"], told["eta"]) == ("2026-11-15T12:00:00Z", "2026-11-15T12:01:30Z")
    assert "eta" not in shown(item(), scaling)["operation"]


def test_what_was_counted_stays_while_a_node_is_removed_in_between() -> None:
    found = plan(cluster())
    removing = replace(found, report=replace(found.report, operation=Doing("Scaling", "g-4-0 is removed")))
    before = {"kind": "Scaling", "done": 100, "total": 200, "startedAt": "2026-11-15T11:00:00Z"}
    same = shown(item(observedGeneration=3, operation=before), removing)["operation"]
    assert (same["done"], same["total"], same["startedAt"]) == (100, 200, "2026-11-15T11:00:00Z")
    other = shown(item(observedGeneration=2, operation=before), removing)["operation"]
    assert "total" not in other, "another wish is counted anew"


def test_an_allowance_that_has_served_is_to_be_taken_away() -> None:
    known = {"allowancesUsed": {"takeover": [1]}}
    seen = Custom(ManagedMetadata("g", "prod", annotations={ALLOW_TAKEOVER: "1"}), {}, known)
    after = shown(seen, plan(cluster()))
    assert after["message"].endswith(
        "; valkey.io/allow-takeover is used up for shard 1: take it away; set anew, it counts anew"
    )
    taken_away = shown(Custom(ManagedMetadata("g", "prod"), {}, known), plan(cluster()))
    assert ("allowancesUsed" in taken_away, "allow-takeover" in taken_away["message"]) == (False, False)


def test_the_epoch_and_the_pause_of_a_failover_are_told_when_the_new_primary_is_in_office() -> None:
    last = {"shard": 1, "from": name(1, 1), "to": name(1, 0), "planned": True}
    found = plan(cluster())
    [epoch] = {each.epoch for each in found.report.shards if each.index == 1}
    assert epoch
    told = status(item(lastFailover=last), DEPLOYMENT, found, [], NOW, pause=40)["lastFailover"]
    assert told == {**last, "epoch": epoch, "writePauseMs": 40}
    again = status(item(lastFailover=told), DEPLOYMENT, found, [], NOW, pause=99)["lastFailover"]
    assert again == told, "it is said once"
    begun = {**last, "to": name(1, 1)}
    assert status(item(lastFailover=begun), DEPLOYMENT, found, [], NOW, pause=40)["lastFailover"] == begun
    assert "lastFailover" not in status(item(), DEPLOYMENT, found, [], NOW)


def wished(to: str, **more: Any) -> ClusterWish:
    return ClusterWish(3, 2, switchover=to, request="id-1", **more)


@pytest.mark.parametrize(
    ("to", "result", "message"),
    [
        (name(1, 0), "Done", f"{name(1, 0)} is primary already"),
        ("g-9-9", "Refused", "a_replica_takes_over: there is no such node"),
    ],
)
def test_a_request_that_changes_nothing_is_answered_once(to: str, result: str, message: str) -> None:
    after = shown(item(f"{to}/id-1"), plan(cluster(wish=wished(to))))
    assert after["lastSwitchover"] == {"id": "id-1", "result": result, "message": message}
    assert switchover_request(item(f"{to}/id-1", lastSwitchover=after["lastSwitchover"])) is None


def test_a_request_that_came_while_another_was_looked_at_is_not_answered_with_it() -> None:
    found = plan(cluster(wish=wished("g-9-9")))
    assert "lastSwitchover" not in shown(item(f"{name(1, 1)}/id-2"), found)


def test_one_that_is_held_up_is_refused_after_half_a_minute() -> None:
    to = name(1, 1)

    def answer(asked_for: float) -> dict[str, Any] | None:
        seen = with_node(cluster(wish=wished(to, asked_for=asked_for)), name(1, 0), offset=10**8)
        return shown(item(f"{to}/id-1"), plan(seen)).get("lastSwitchover")

    assert answer(20.0) is None
    assert answer(31.0) == {
        "id": "id-1",
        "result": "Refused",
        "message": f"replica_is_caught_up_before_switchover: {to} is not in sync",
    }


def test_one_that_was_taken_up_is_done_though_who_did_it_was_killed() -> None:
    taken_up = {"id": "id-1", "result": "UnderWay"}
    asked = item(f"{name(1, 0)}/id-1", lastSwitchover=taken_up)
    after = shown(asked, plan(cluster(wish=ClusterWish(3, 2, switchover=name(1, 0)))))
    assert after["lastSwitchover"] == {**taken_up, "result": "Done", "message": f"{name(1, 0)} is primary"}
    waits = item(f"{name(1, 1)}/id-1", lastSwitchover=taken_up)
    assert shown(waits, plan(cluster()))["lastSwitchover"] == taken_up


def test_a_shard_says_in_which_zones_its_nodes_are() -> None:
    zones = {name(0, 0): "north", name(0, 1): "south", name(1, 1): "south"}
    shards = status(item(), DEPLOYMENT, plan(cluster()), [], NOW, zones=zones)["shards"]
    assert [each.get("zone") for each in shards] == ["north", None, None]
    assert [each.get("replicaZones") for each in shards] == [["south"], ["south"], None]


def test_a_refused_wish_is_told_and_nothing_that_is_known_is_forgotten() -> None:
    seen = item(formed=True)
    known = shown(seen, plan(cluster()))
    after = refused_status(seen, known, Refusal(Reason.INVALID_SPEC, "no such thing"), NOW)
    ValkeyClusterStatus.model_validate(after)
    assert (after["state"], after["reason"], after["message"]) == ("Failed", "InvalidSpec", "no such thing")
    told = {each["type"]: (each["status"], each["message"]) for each in after["conditions"]}
    assert told["Ready"] == ("False", "no such thing")
    assert told["Degraded"] == ("True", "no such thing")
    assert told["ConfigApplied"] == ("False", "no such thing")
    assert set(told) >= {each["type"] for each in known["conditions"]}
    same = set(known) - {"state", "reason", "message", "conditions"}
    assert {"formed", "shards", "readyShards"} <= same
    assert {name: after[name] for name in same} == {name: known[name] for name in same}

"""How a request for another primary of a Valkey is answered in its status, and what comes of one that was taken up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.test_decide_instance import A, B, planned, three
from valkey_operator.api.deployments import ValkeyStatus
from valkey_operator.api.requests import SWITCHOVER
from valkey_operator.decide.actions import RecordPrimary, Why
from valkey_operator.kube.objects import ManagedMetadata
from valkey_operator.model.deployment import Deployment
from valkey_operator.model.instance import Wish
from valkey_operator.operator.instance_report import status
from valkey_operator.operator.instance_seen import switchover_request
from valkey_operator.operator.instance_steps import switchover_after
from valkey_operator.operator.seen import Custom

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DEPLOYMENT = Deployment("Valkey", "v", "prod", "uid", {})
UNDER_WAY = {"id": "id-1", "result": "UnderWay", "epoch": 2}


def item(annotation: str, **known: Any) -> Custom:
    return Custom(
        ManagedMetadata(name="v", namespace="prod", annotations={SWITCHOVER: annotation}), {}, known
    )


def shown(seen: Custom, wish: Wish) -> dict[str, Any]:
    after = status(seen, DEPLOYMENT, planned(three(wish=wish)), [], NOW)
    ValkeyStatus.model_validate(after)
    return after


@pytest.mark.parametrize(("to", "result"), [(A, "Done"), ("v-9", "Refused")])
def test_a_request_that_changes_nothing_is_answered_once(to: str, result: str) -> None:
    last = shown(item(f"{to}/id-1"), Wish(3, switchover=to, request="id-1"))["lastSwitchover"]
    assert (last["id"], last["result"]) == ("id-1", result)
    assert switchover_request(item(f"{to}/id-1", lastSwitchover=last)) is None


def test_a_request_that_came_while_another_was_looked_at_is_not_answered_with_it() -> None:
    assert "lastSwitchover" not in shown(item(f"{B}/id-2"), Wish(3, switchover="v-9", request="id-1"))


def test_one_that_is_recorded_is_under_way() -> None:
    recorded = RecordPrimary(2, B, Why.SWITCHOVER, True, A)
    assert switchover_after(item(f"{B}/id-1"), recorded) == {"lastSwitchover": UNDER_WAY}


def test_one_that_did_not_come_about_has_failed_and_is_not_tried_again() -> None:
    under_way = item(f"{B}/id-1", lastSwitchover=UNDER_WAY)
    last = switchover_after(under_way, RecordPrimary(3, A, Why.HANDED_BACK, True, B))["lastSwitchover"]
    assert last == {
        **UNDER_WAY,
        "result": "Failed",
        "message": "v-0 is to be primary (HandedBack): a handover did not come about, and the former primary keeps the "
        "office",
    }
    assert switchover_request(item(f"{B}/id-1", lastSwitchover=last)) is None


def test_a_failover_while_nobody_asks_says_nothing_of_requests() -> None:
    died = RecordPrimary(3, B, Why.SERVER_DIED, False, A)
    assert switchover_after(item(""), died) == {}
    assert switchover_after(item(f"{B}/id-1", lastSwitchover={**UNDER_WAY, "result": "Done"}), died) == {}

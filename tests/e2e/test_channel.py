"""The operator's way to a sidecar, in a real pod: who is let in, what is seen, what is ordered."""

from __future__ import annotations

import pytest

from tests.e2e.calls import calling, operators, shown_by
from tests.e2e.conftest import Place
from tests.e2e.test_one_node import POD, SPEC
from valkey_operator.contract.channel import Unanswered, answered
from valkey_operator.contract.v1 import sidecar_pb2 as contract


async def test_the_operator_sees_and_commands_a_node_and_nobody_else_does(place: Place) -> None:
    place.apply("Valkey", "one", SPEC)
    place.apply("Valkey", "other", SPEC)
    place.is_ready("one")
    uid = place.get("pod", POD)["metadata"]["uid"]
    async with calling(place, operators(place)) as node:
        seen = await answered(node.Observe(contract.ObserveRequest(pod_uid=uid)), 30)
        assert (seen.node, seen.pod_uid, seen.not_ready) == ("one-0", uid, "")
        assert seen.server.role == contract.ROLE_PRIMARY
        assert seen.server.version.startswith("9.1")
        assert seen.gate.opened_by == "a_lone_primary_may_start"
        wish = contract.SetConfig(directives={"maxmemory-policy": "allkeys-lru"})
        order = contract.Order(pod_uid=uid, epoch=1, set_config=wish)
        outcome = await answered(node.Act(order), 30)
        assert outcome.result == contract.RESULT_DONE, outcome.message
    assert "allkeys-lru" in place.valkey(POD, "CONFIG", "GET", "maxmemory-policy")
    place.is_ready("other")
    for stolen in ("other-0-mtls", "one-0-mtls"):
        async with calling(place, shown_by(place, stolen)) as node:
            with pytest.raises(Unanswered, match="may not call Act"):
                await answered(node.Act(contract.Order(pod_uid=uid, shut_down=contract.ShutDown())), 30)
    assert place.valkey(POD, "PING") == "PONG"

"""Which values a deployment is looked after by while its wish is refused, also by an operator that has just started."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from valkey_operator.api import layers
from valkey_operator.kube.objects import ManagedMetadata, ManagedObject, OwnerReference
from valkey_operator.model.deployment import Deployment
from valkey_operator.operator.accepted import Accepted
from valkey_operator.operator.seen import Claim
from valkey_operator.render import marks, service

GOOD = Deployment("Valkey", "pair", "here", "u-1", layers.effective("Valkey", {"replicas": 2}, []).values)
BAD = replace(GOOD, values={**GOOD.values, "config": {"dir": "/elsewhere"}, "replicas": 3})


def caches(*services: ManagedObject, claims: tuple[Claim, ...] = ()) -> Any:
    """Nothing but these is there."""
    empty = SimpleNamespace(store={})
    kept = SimpleNamespace(store={each.key: each for each in claims})
    found = SimpleNamespace(
        store={each.key: each for each in services}, resource=SimpleNamespace(kind="Service")
    )
    return SimpleNamespace(services=found, secrets=empty, budgets=empty, nodes=empty, claims=kept)


def written(deployment: Deployment, **annotations: str) -> ManagedObject:
    """Its headless Service as the API server has it."""
    made = service.headless_service(deployment)["metadata"]
    owner = OwnerReference(
        api_version="valkey.io/v1alpha1",
        kind=deployment.kind,
        name=deployment.name,
        uid=deployment.uid,
        controller=True,
    )
    metadata = ManagedMetadata(
        name=made["name"], namespace=made["namespace"], resource_version="1", owner_references=(owner,),
        annotations={**made["annotations"], **annotations},
    )  # fmt: skip
    return ManagedObject(metadata)


def test_the_wishes_before_a_refused_one_go_on() -> None:
    accepted = Accepted(caches())
    assert accepted.judged(GOOD) == (GOOD, None)
    looked_after, refused = accepted.judged(BAD)
    assert looked_after is GOOD
    assert refused is not None


def test_an_operator_that_has_just_started_reads_them() -> None:
    looked_after, refused = Accepted(caches(written(GOOD))).judged(BAD)
    assert looked_after == GOOD
    assert refused is not None


@pytest.mark.parametrize(
    "there",
    [
        pytest.param((), id="nothing was ever made"),
        pytest.param((written(replace(GOOD, uid="u-0")),), id="of one that was deleted"),
        pytest.param((written(BAD),), id="what this version would refuse"),
        pytest.param((written(GOOD, **{marks.ACCEPTED: "{"}),), id="changed by hand"),
        pytest.param((written(GOOD, **{marks.ACCEPTED: "[1]"}),), id="changed by hand into something else"),
    ],
)
def test_what_is_not_known_to_have_been_accepted_is_not_acted_upon(there: tuple[ManagedObject, ...]) -> None:
    looked_after, refused = Accepted(caches(*there)).judged(BAD)
    assert looked_after is None
    assert refused is not None


def test_a_wish_to_be_left_alone_counts_also_in_a_refused_one() -> None:
    paused = replace(BAD, values={**BAD.values, "paused": True})
    assert Accepted(caches(written(GOOD))).judged(paused)[0] is None


def test_wishes_too_long_for_an_annotation_are_not_written_down() -> None:
    long = replace(GOOD, values={**GOOD.values, "labels": {"long": "x" * service.MOST_WRITTEN}})
    assert marks.ACCEPTED not in service.headless_service(long)["metadata"]["annotations"]


@pytest.mark.parametrize(("of", "is_taken"), [("pair", True), ("other", False)])
def test_a_volume_that_keeps_the_data_of_another_deployment_is_not_taken(of: str, is_taken: bool) -> None:
    metadata = ManagedMetadata(
        name="pair-1-data", namespace="here", resource_version="1", labels={marks.CLUSTER: of}
    )
    looked_after, refused = Accepted(caches(claims=(Claim(metadata),))).judged(GOOD)
    assert (looked_after is GOOD) is is_taken
    assert is_taken or (refused is not None and "keeps the data of other" in refused.message)


def test_what_is_required_later_leaves_nobody_alone() -> None:
    required = replace(GOOD, required={"tls": "defaults of namespace here"})
    looked_after, refused = Accepted(caches(written(GOOD))).judged(required)
    assert looked_after == GOOD
    assert refused is not None
    assert Accepted(caches()).judged(required)[0] is None


def test_keys_that_an_earlier_version_let_through_leave_nobody_alone() -> None:
    own = {"valkey.io/node": "x", "team.valkey.io/owner": "us", "team": "us"}
    before = replace(GOOD, values={**GOOD.values, "labels": own, "service": {"annotations": own}})
    looked_after, refused = Accepted(caches(written(before))).judged(before)
    assert refused is not None
    assert looked_after is not None
    assert looked_after.value("labels") == looked_after.value("service.annotations") == {"team": "us"}


def test_directives_that_an_earlier_version_let_through_leave_nobody_alone() -> None:
    config = {
        "min-slaves-to-write": "1", "min-replicas-max-lag": 7, "slave-read-only": "yes", "databases": 0, "hz": 20,
        "cluster-replica-no-failover": True, "loadmodule": "", "maxmemory": "75%",
    }  # fmt: skip
    before = replace(GOOD, values={**GOOD.values, "config": config})
    looked_after, refused = Accepted(caches(written(before))).judged(before)
    assert refused is not None
    assert "min-slaves-to-write is the operator's: use replication.minReplicasToWrite" in refused.message
    assert looked_after is not None
    assert looked_after.value("config") == {"hz": 20, "replica-read-only": "yes"}
    assert looked_after.value("replication.minReplicasToWrite") == 1
    assert looked_after.value("replication.minReplicasMaxLag") == 7


def test_a_port_of_the_metrics_that_was_let_through_leaves_nobody_alone() -> None:
    before = replace(GOOD, values={**GOOD.values, "exporter": {"enabled": True, "port": 19121}})
    looked_after, refused = Accepted(caches(written(before))).judged(before)
    assert refused is not None
    assert looked_after == before


@pytest.mark.parametrize(
    ("config", "least", "lag"),
    [
        ({"min-replicas-to-write": 1000}, 100, 10),
        ({"min-replicas-to-write": 1, "min-slaves-max-lag": "0"}, 0, 10),
        ({"min-replicas-max-lag": 0, "min-replicas-to-write": 1}, 0, 10),
        ({"min-slaves-to-write": "-1", "min-slaves-max-lag": 10**12}, None, 10),
        ({"min-slaves-max-lag": 100_000}, None, 86400),
    ],
)
def test_what_was_let_through_is_brought_into_what_its_field_takes(
    config: dict[str, Any], least: int | None, lag: int
) -> None:
    before = replace(GOOD, values={**GOOD.values, "config": config})
    looked_after, _refused = Accepted(caches(written(before))).judged(before)
    assert looked_after is not None
    assert looked_after.value("config") == {}
    assert looked_after.value("replication.minReplicasToWrite") == least
    assert looked_after.value("replication.minReplicasMaxLag") == lag

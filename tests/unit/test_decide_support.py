"""What the operator refuses to act on, and in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from valkey_operator.api import layers
from valkey_operator.api.reasons import Reason
from valkey_operator.decide.support import refusal
from valkey_operator.model.deployment import Deployment


def deployment(**spec: Any) -> Deployment:
    return Deployment("Valkey", "demo", "prod", "uid", layers.effective("Valkey", spec).values)


def test_a_plain_one_is_taken() -> None:
    assert refusal(deployment()) is None
    assert refusal(deployment(replicas=1)) is None


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"tls": {"enabled": True}}, "spec.tls"),
        ({"auth": {"password": {"secret": {"name": "a", "key": "b"}}}}, "spec.auth"),
    ],
)
def test_what_cannot_be_done_yet_is_said_and_not_ignored(spec: dict[str, Any], named: str) -> None:
    refused = refusal(deployment(**spec))
    assert refused is not None
    assert refused.reason is Reason.NOT_YET
    assert named in refused.message
    assert "nothing was changed" in refused.message


def test_values_that_cannot_work_are_named_with_their_field() -> None:
    refused = refusal(deployment(config={"no-such-directive": "1"}))
    assert refused is not None
    assert refused.reason is Reason.INVALID_SPEC
    assert "spec.config" in refused.message


def _under(defaults: list[layers.Layer], kind: str = "Valkey", **spec: Any) -> Deployment:
    values = layers.effective(kind, spec, defaults).values
    return Deployment(kind, "demo", "prod", "uid", values, layers.required(defaults))


def _requires(**what: bool) -> layers.Layer:
    return layers.Layer("defaults of namespace prod", {"require": what})


def test_what_is_wrong_with_a_default_is_not_looked_for_in_the_spec() -> None:
    lent = {"labels.valkey.io/team": "defaults of namespace prod", "label": "defaults of nobody"}
    refused = refusal(replace(deployment(labels={"valkey.io/team": "a"}, replicas=-1), lent=lent))
    assert refused is not None
    assert "spec.replicas: " in refused.message
    assert "labels.valkey.io/team, which comes from the defaults of namespace prod: " in refused.message
    assert "spec.labels" not in refused.message


def test_a_deployment_without_what_is_required_is_refused_and_told_what_to_do() -> None:
    refused = refusal(_under([_requires(tls=True, auth=True)]))
    assert refused is not None
    assert refused.reason is Reason.NOT_AS_REQUIRED
    tls, auth = refused.message.split("; spec.")
    assert tls == (
        "spec.tls: the defaults of namespace prod require TLS, and there is none; set tls.enabled or tls.policyRef, "
        "which this version cannot do yet: until then only defaults without require.tls let it be"
    )
    assert auth.startswith(
        "auth: the defaults of namespace prod require a password or users, and there is none; set auth.password"
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"tls": {"enabled": True}},
        {"tls": {"policyRef": {"name": "p"}}},
    ],
)
def test_a_deployment_with_tls_is_not_refused_for_the_want_of_it(spec: dict[str, Any]) -> None:
    refused = refusal(_under([_requires(tls=True)], **spec))
    assert refused is not None
    assert refused.reason is Reason.NOT_YET  # as everywhere in this version


SECRET = {"name": "a", "key": "b"}
USERS = [{"name": "app", "permissions": "+@all"}]


@pytest.mark.parametrize(
    ("auth", "is_there"),
    [
        ({"aclRef": {"name": "p"}}, True),
        ({"password": {"secret": SECRET}}, True),
        ({"acl": {"users": USERS}}, True),
        ({"acl": {"configSecretRef": SECRET}}, True),
        ({"acl": {"enabled": False, "users": USERS}}, False),
        ({"acl": {"enabled": True, "users": []}}, False),
        ({"acl": {}}, False),
        ({"rotationOverlap": "1h"}, False),
    ],
)
def test_who_may_log_in_without_a_password_is_not_as_required(auth: dict[str, Any], is_there: bool) -> None:
    refused = refusal(_under([_requires(auth=True)], auth=auth))
    assert refused is not None
    assert (refused.reason is Reason.NOT_YET) == is_there


def test_what_is_not_required_is_not_asked_for() -> None:
    assert refusal(_under([_requires(tls=False, auth=False)])) is None
    assert refusal(_under([layers.Layer("defaults of namespace prod", {})])) is None


def test_no_namespace_takes_back_what_the_operators_requires() -> None:
    everywhere = layers.Layer("defaults of namespace valkey-system", {"require": {"tls": True}})
    refused = refusal(_under([everywhere, _requires(tls=False)]))
    assert refused is not None
    assert "the defaults of namespace valkey-system require TLS" in refused.message


def test_defaults_that_give_what_they_require_are_enough() -> None:
    given = layers.Layer("defaults of namespace prod", {"require": {"tls": True}, "tls": {"enabled": True}})
    refused = refusal(_under([given]))
    assert refused is not None
    assert refused.reason is Reason.NOT_YET


@pytest.mark.parametrize(
    ("kind", "field"),
    [("ValkeyCluster", "spec.tls"), ("Sentinel", "spec.tls"), ("ValkeyPool", "spec.template.tls")],
)
def test_a_requirement_is_for_every_kind(kind: str, field: str) -> None:
    refused = refusal(_under([_requires(tls=True)], kind))
    assert refused is not None
    assert refused.message.startswith(f"{field}: ")


def test_who_runs_already_is_looked_after_though_it_never_has_enough_replicas() -> None:
    never = deployment(replicas=1, replication={"minReplicasToWrite": 1})
    refused = refusal(never)
    assert refused is not None
    assert "no write would ever be accepted" in refused.message
    assert refusal(never, runs_already=True) is None


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            {"podManagementType": "deployment"},
            "spec.podManagementType: it is deployment and was statefulset at creation",
        ),
        (
            {"persistence": {"enabled": False}},
            "spec.persistence.enabled: it is false and was true at creation",
        ),
        (
            {"persistence": {"storageClassName": "fast"}},
            "spec.persistence.storageClassName: it is fast and was not set at creation",
        ),
    ],
)
def test_what_was_given_at_creation_and_is_asked_for_otherwise_is_refused(
    spec: dict[str, Any], says: str
) -> None:
    at_creation = layers.pinned(layers.effective("Valkey", {}).values)
    values = layers.effective("Valkey", spec, [], at_creation).values
    refused = refusal(Deployment("Valkey", "demo", "prod", "uid", values, {}, at_creation))
    assert refused is not None
    assert refused.reason is Reason.INVALID_SPEC
    assert says in refused.message
    same = replace(deployment(), pinned=at_creation)
    assert refusal(same) is None

"""Identities between operator and sidecars: one way to write each, and nothing else is one."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valkey_operator.api.certificates import DeploymentReference
from valkey_operator.contract.identity import (
    KINDS,
    Identity,
    NodeIdentity,
    NotAnIdentity,
    OperatorIdentity,
    Scope,
    from_certificate,
    from_names,
    parse,
)

NODE = NodeIdentity("prod", "ValkeyCluster", "cache", "cache-0-1")
NODE_TEXT = "spiffe://valkey.io/ns/prod/ValkeyCluster/cache/node/cache-0-1"
OPERATOR = OperatorIdentity("valkey-system")
OPERATOR_TEXT = "spiffe://valkey.io/ns/valkey-system/operator"

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
domains = st.lists(names, min_size=1, max_size=3).map(".".join)
nodes = st.builds(NodeIdentity, names, st.sampled_from(sorted(KINDS)), names, names, domains)
operators = st.builds(OperatorIdentity, names, domains)
identities: st.SearchStrategy[Identity] = nodes | operators


@pytest.mark.parametrize(("identity", "text"), [(NODE, NODE_TEXT), (OPERATOR, OPERATOR_TEXT)])
def test_an_identity_is_written_as_documented(identity: Identity, text: str) -> None:
    assert str(identity) == text
    assert parse(text) == identity


@given(identities)
def test_every_identity_is_read_back_as_itself(identity: Identity) -> None:
    assert parse(str(identity)) == identity


@given(identities, identities)
def test_two_identities_never_look_alike(one: Identity, other: Identity) -> None:
    assert (one == other) == (str(one) == str(other))


@given(st.text() | st.text(alphabet="spife:/.valkeyonr%?#@\x00-NSt1").map("spiffe://".__add__))
def test_what_is_read_is_written_the_same_way(text: str) -> None:
    with suppress(NotAnIdentity):
        assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://",
        "http://valkey.io/ns/a/operator",
        "SPIFFE://valkey.io/ns/a/operator",
        "spiffe:///ns/a/operator",
        "spiffe://valkey.io/ns/a/operator/",
        "spiffe://valkey.io//ns/a/operator",
        "spiffe://valkey.io/ns//operator",
        "spiffe://valkey.io/ns/a/operator?x=1",
        "spiffe://valkey.io/ns/a/operator#x",
        "spiffe://valkey.io/ns/a/operator\n",
        "spiffe://valkey.io/ns/a/operator\x00",
        "spiffe://valkey.io/ns/a/operator/../../b/operator",
        "spiffe://valkey.io/ns/../operator",
        "spiffe://valkey.io/ns/%61/operator",
        "spiffe://valkey.io/ns/A/operator",
        "spiffe://valkey.io/ns/а/operator",
        "spiffe://valkey.io/ns/a/Operator",
        "spiffe://Valkey.io/ns/a/operator",
        "spiffe://valkey.io:443/ns/a/operator",
        "spiffe://me@valkey.io/ns/a/operator",
        "spiffe://valkey.io./ns/a/operator",
        "spiffe://valkey.io/ns/a/valkeycluster/c/node/n",
        "spiffe://valkey.io/ns/a/Pod/c/node/n",
        "spiffe://valkey.io/ns/a/Valkey/c/node/",
        "spiffe://valkey.io/ns/a/Valkey/c/node/-n",
        "spiffe://valkey.io/ns/a/Valkey/c",
        "spiffe://valkey.io/ns/a/Valkey/c/node/n/operator",
        f"spiffe://valkey.io/ns/{'a' * 64}/operator",
        f"spiffe://{'a.' * 200}io/ns/a/operator",
        f"{OPERATOR_TEXT},{OPERATOR_TEXT}",
        f"{OPERATOR_TEXT} ",
        "spiffe://valkey.io/" + "a" * 4000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(NotAnIdentity):
        parse(text)


def test_a_refusal_shows_foreign_text_short_and_without_control_characters() -> None:
    with pytest.raises(NotAnIdentity) as caught:
        parse("spiffe://\x1b[2J\n" + "x" * 400)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_an_identity_that_cannot_be_written_cannot_be_made() -> None:
    with pytest.raises(NotAnIdentity, match="no name of a namespace"):
        OperatorIdentity("a/operator")
    with pytest.raises(NotAnIdentity, match="no kind of deployment"):
        NodeIdentity("a", "operator", "b", "c")


def test_the_kinds_are_those_of_the_api() -> None:
    literal = get_args(DeploymentReference.model_fields["kind"].annotation)[0]
    assert set(get_args(literal)) == KINDS


@pytest.mark.parametrize(
    ("uris", "sentence"),
    [
        ([], "has no URI name"),
        ([NODE_TEXT, OPERATOR_TEXT], "has 2 URI names"),
        ([NODE_TEXT] * 2, "2 URI names"),
    ],
)
def test_exactly_one_name_says_who_it_is(uris: list[str], sentence: str) -> None:
    with pytest.raises(NotAnIdentity, match=sentence):
        from_names(uris)


def test_a_node_is_a_sibling_only_within_its_deployment() -> None:
    assert NODE.is_sibling_of(NODE.scope.node("cache-0-0"))
    assert not NODE.is_sibling_of(NODE)
    assert not NODE.is_sibling_of(OPERATOR)
    assert not NODE.is_sibling_of(Scope("dev", "ValkeyCluster", "cache").node("cache-0-0"))
    assert not NODE.is_sibling_of(Scope("prod", "Valkey", "cache").node("cache-0-0"))


@given(identities)
def test_the_subject_of_an_identity_is_accepted(identity: Identity) -> None:
    subject = [*identity.subject, ("commonName", "a label")]
    assert from_certificate([str(identity)], subject) == identity


@given(nodes, identities)
def test_the_subject_of_another_deployment_is_refused(holder: NodeIdentity, claimed: Identity) -> None:
    if isinstance(claimed, NodeIdentity) and claimed.scope == holder.scope:
        return
    with pytest.raises(NotAnIdentity, match="subject"):
        from_certificate([str(claimed)], holder.subject)


def test_no_more_may_stand_in_the_subject_than_belongs_there() -> None:
    forged = [*NODE.subject, ("organizationalUnitName", "operator")]
    with pytest.raises(NotAnIdentity, match="subject"):
        from_certificate([NODE_TEXT], forged)

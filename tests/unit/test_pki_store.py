"""What lies in the Secrets of certificates, and what is written into them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.pki import DAY, NODE, NOW, Issuing
from valkey_operator.pki.authority import Pair
from valkey_operator.pki.inspection import Wanted, see, see_all
from valkey_operator.pki.rotation import Action, AddTrust, DropTrust, ForgetRoot, IssueLeaf, IssueRoot
from valkey_operator.pki.store import (
    Content,
    Root,
    bundle,
    contained,
    leaf_rewritten,
    lost_roots,
    roots_in,
    roots_rewritten,
    signer,
)

LIFE = timedelta(days=3650)
ISSUING = Issuing()
OTHER = Issuing(NOW + DAY)


def root_secret(issuing: Issuing = ISSUING) -> dict[str, bytes]:
    return {"tls.crt": issuing.root.certificate, "tls.key": issuing.root.key}


def leaf_secret(pair: Pair, *roots: Root) -> dict[str, bytes]:
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": bundle(roots)}


def only_root(issuing: Issuing = ISSUING) -> Root:
    (root,) = roots_in(root_secret(issuing), NOW + 2 * DAY)
    return root


def trusted(content: Content) -> set[str]:
    return {each.thumbprint for each in see_all(content["ca.crt"])}


def test_a_root_is_seen_with_what_it_signs() -> None:
    root = only_root()
    assert root.held.fault is None
    assert root.thumbprint == see(ISSUING.root.certificate).thumbprint == root.held.root
    found = contained(leaf_secret(ISSUING.node(), root), Wanted(NOW, bundle([root]), NODE), [root])
    assert found.held is not None
    assert (found.held.root, found.held.fault, found.trust) == (
        root.thumbprint,
        None,
        frozenset({root.thumbprint}),
    )


def test_a_new_root_sets_the_old_one_aside_and_both_can_sign() -> None:
    after = roots_rewritten(root_secret(), (), [IssueRoot("due")], NOW + DAY, LIFE)
    old, new = roots_in(after, NOW + DAY)
    assert old.thumbprint == only_root().thumbprint
    assert [old.held.fault, new.held.fault] == [None, None]
    for root in (old, new):
        assert see(signer(after, root.thumbprint).certificate).thumbprint == root.thumbprint
    forgotten = roots_rewritten(after, (), [ForgetRoot(old.thumbprint, "unused")], NOW + DAY, LIFE)
    assert roots_in(forgotten, NOW + DAY) == (new,)
    assert set(forgotten) == {"tls.crt", "tls.key"}


def test_a_root_whose_key_is_gone_is_known_and_cannot_sign() -> None:
    (root,) = roots_in({"tls.crt": ISSUING.root.certificate}, NOW)
    assert root.held.fault == "the Secret lacks tls.key"
    after = roots_rewritten({"tls.crt": ISSUING.root.certificate}, (), [IssueRoot("lost")], NOW, LIFE)
    old, new = roots_in(after, NOW)
    assert old.thumbprint == root.thumbprint
    assert old.held.fault
    assert new.held.fault is None


def test_a_root_that_is_lost_is_found_among_what_somebody_trusts() -> None:
    root = only_root()
    (found,) = lost_roots({"ca.crt": bundle([only_root(OTHER), root])}, {root.thumbprint})
    assert (found.thumbprint, found.key_id) == (root.thumbprint, root.key_id)
    assert found.held.fault
    assert lost_roots({"ca.crt": b"nothing"}, {root.thumbprint}) == ()
    after = roots_rewritten({}, [found], [IssueRoot("lost")], NOW, LIFE)
    assert roots_in(after, NOW)[0].thumbprint == root.thumbprint


def test_a_root_that_is_not_there_cannot_sign() -> None:
    with pytest.raises(LookupError, match="not in its Secret"):
        signer(root_secret(), "ab" * 32)


def test_trust_is_added_and_dropped_without_touching_the_leaf() -> None:
    first, second = only_root(), only_root(OTHER)
    before = leaf_secret(ISSUING.node(), first)
    both = leaf_rewritten(before, [AddTrust("cache-0-0", (second.thumbprint,), "")], [first, second], None)
    assert trusted(both) == {first.thumbprint, second.thumbprint}
    assert (both["tls.crt"], both["tls.key"]) == (before["tls.crt"], before["tls.key"])
    one = leaf_rewritten(both, [DropTrust("cache-0-0", (first.thumbprint,), "")], [first, second], None)
    assert trusted(one) == {second.thumbprint}


def test_an_empty_secret_gets_everything_at_once() -> None:
    root, leaf = only_root(), ISSUING.node()
    actions: list[Action] = [
        AddTrust("cache-0-0", (root.thumbprint,), ""),
        IssueLeaf("cache-0-0", "issuer", "none yet"),
    ]
    assert leaf_rewritten({}, actions, [root], leaf) == leaf_secret(leaf, root)


def test_what_is_no_certificate_is_nothing() -> None:
    assert roots_in({"tls.crt": b"what", "tls.key": b"ever"}, NOW) == ()
    wanted = Wanted(NOW, bundle([only_root()]), NODE)
    assert contained({"tls.crt": b"what"}, wanted, [only_root()]).held is None

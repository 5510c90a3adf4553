"""Which leaves of a deployment are in use, and which were replaced: the lists of a ValkeyCertificateBinding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from valkey_operator.model.times import read, written
from valkey_operator.pki.rotation import Replaced, choose_forgotten
from valkey_operator.pki.trust import Held

# More would tell nobody anything, and a status has a size.
LONGEST_MEMORY = 64
Entry = dict[str, Any]


@dataclass(frozen=True)
class Binding:
    """What the status lists."""

    active: list[Entry]
    deprecated: list[Entry]


def entry(purpose: str, bundle: str, secret: str, leaf: Held) -> Entry:
    return {
        "purpose": purpose,
        "bundleRef": bundle,
        "secretName": secret,
        "thumbprint": leaf.thumbprint,
        "issuedAt": written(leaf.issued_at),
        "expiresAt": written(leaf.not_after),
    }


def bind(before: Mapping[str, Any], active: Iterable[Entry], shown: frozenset[str], now: datetime) -> Binding:
    """`shown` are the leaves that processes say they show."""
    now_active = {each["thumbprint"]: each for each in active}
    since = {each["secretName"]: read(each["issuedAt"]) for each in now_active.values()}
    old = [*(before.get("deprecated") or []), *(before.get("active") or [])]
    replaced = {each["thumbprint"]: each for each in old if each["thumbprint"] not in now_active}
    # A Secret that is gone with its node was replaced by nothing, just now.
    facts = [_replaced(each, since.get(each["secretName"], now)) for each in replaced.values()]
    forgotten = choose_forgotten(facts, shown, now)
    kept = [each for thumbprint, each in replaced.items() if thumbprint not in forgotten]
    return Binding(list(now_active.values()), kept[-LONGEST_MEMORY:])


def _replaced(each: Entry, at: datetime) -> Replaced:
    return Replaced(each["thumbprint"], at, read(each["expiresAt"]))

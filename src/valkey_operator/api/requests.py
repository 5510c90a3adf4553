"""What people ask of a deployment once, by an annotation: the names, and how it is written and read."""

from __future__ import annotations

import secrets
from typing import NamedTuple

SWITCHOVER = "valkey.io/switchover"
# Of a ValkeyCluster: shards, by number, separated by commas. Each is good for one time (`status.allowancesUsed`).
ALLOW_TAKEOVER = "valkey.io/allow-takeover"
ALLOW_DATA_LOSS = "valkey.io/allow-data-loss"
ANY = "any"
# On a ValkeyCluster: the number of shards to which slots are not moved any further. Another wish makes it void.
STOP_RESHARDING = "valkey.io/stop-resharding"


def shards_named(annotation: str) -> frozenset[int]:
    """What is no number names no shard."""
    parts = (part.strip() for part in annotation.split(","))
    return frozenset(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 9)


class SwitchoverRequest(NamedTuple):
    """Another primary, please. Each has an id of its own, and is answered once: in `status.lastSwitchover`."""

    id: str
    # Empty: whoever is best.
    to: str = ""

    def __str__(self) -> str:
        return f"{self.to or ANY}/{self.id}"

    @classmethod
    def new(cls, to: str = "") -> SwitchoverRequest:
        return cls(secrets.token_hex(8), to)

    @classmethod
    def read(cls, annotation: str) -> SwitchoverRequest | None:
        """None for what is no request: nothing, or what somebody wrote by hand without an id."""
        to, _, request = annotation.partition("/")
        if not to or not request or len(request) > 64:
            return None
        return cls(request, "" if to == ANY else to)

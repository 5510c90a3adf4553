"""How far replicas are behind, as their primaries say it.

Told coarsely: a replica says once a second what it has, so on a busy primary the exact figure never stands still.
"""

from __future__ import annotations

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.decide.sight import SMALL_LAG

STEP = 4


def behind(seen: contract.Observation) -> dict[str, int]:
    """By node, in bytes: those that are linked to this primary and further behind than a switchover waits for."""
    link = seen.server.replication
    lags = {
        # Servers announce themselves to their primary as `<node>.<namespace>.svc`.
        each.address.partition(".")[0]: told(link.offset - each.offset)
        for each in link.replicas
        if each.state == "online"
    }
    return {node: lag for node, lag in lags.items() if lag}


def told(lag: int) -> int:
    """4 MiB, 16 MiB, 64 MiB and so on: at least so much. Less than the first is nothing."""
    found = SMALL_LAG
    while found * STEP <= lag:
        found *= STEP
    return found if lag >= SMALL_LAG else 0

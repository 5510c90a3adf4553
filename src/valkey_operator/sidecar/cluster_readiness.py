"""Whether a server of a cluster is ready: at first only in a whole cluster, later while nothing is wrong with it."""

from __future__ import annotations

from valkey_operator.model.cluster import SLOTS, ClusterView


class ClusterReadiness:
    """Of one pod. That another shard is down is no reason to take this one away from its clients."""

    def __init__(self) -> None:
        self._was_ready = False

    def why_not(self, view: ClusterView | None) -> str:
        if view is None:
            return "the server does not say how its cluster is"
        if not view.is_ok:
            return (
                "the server is in no cluster yet"
                if view.is_alone
                else "the server sees no majority of its cluster"
            )
        if self._was_ready:
            return ""
        owned = sum(len(member.slots) for member in view.by_id.values())
        if owned < SLOTS:
            return f"{SLOTS - owned} slots of the cluster have no owner yet"
        self._was_ready = True
        return ""

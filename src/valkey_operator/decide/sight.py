"""What can be said of a node from what was seen: who is in office, who follows, who may be trusted with the data.

Whoever cannot be seen is not gone; each claim here is made of what somebody said, never of silence.
"""

from __future__ import annotations

from valkey_operator.model.instance import SeenInstance, SeenNode

# Bytes a replica may be behind when writes are paused for it.
SMALL_LAG = 4 * 1024 * 1024
# A pod for which no machine was found for so long is not waited for.
UNPLACED = 20.0


def members(seen: SeenInstance) -> list[SeenNode]:
    """All that hold the same data, whether they stay or not."""
    return [node for node in seen.nodes if not node.is_being_deleted]


def others(seen: SeenInstance, *names: str) -> list[SeenNode]:
    return [node for node in members(seen) if node.name not in names]


def is_in_office(node: SeenNode) -> bool:
    server = node.server
    return server is not None and server.answers and server.is_primary


def is_seen_out_of_office(node: SeenNode) -> bool:
    """It said so itself: its server follows somebody, or none runs."""
    if node.said is None or node.may_have_a_twin:
        return False
    server = node.server
    return server is None or (server.answers and server.is_replica)


def has_no_server(node: SeenNode) -> bool:
    return node.said is not None and node.said.server is None


def is_proven_dead(node: SeenNode) -> bool:
    """No server of this node runs: its sidecar says so, or its end was seen."""
    return not node.may_have_a_twin and (has_no_server(node) or (node.said is None and node.was_seen_dying))


def is_able(node: SeenNode) -> bool:
    """Its server runs, answers, and holds whatever it has."""
    server = node.server
    return (
        server is not None
        and server.answers
        and not server.is_loading
        and not server.is_syncing
        and not _is_leaving(node)
    )


def is_in_sync(node: SeenNode, primary: str) -> bool:
    server = node.server
    return (
        server is not None
        and is_able(node)
        and server.is_replica
        and server.follows == primary
        and server.link_is_up
    )


def is_caught_up(node: SeenNode, primary: SeenNode) -> bool:
    mine, its = node.server, primary.server
    if mine is None or its is None or not is_in_sync(node, primary.name):
        return False
    return mine.history == its.history and its.offset - mine.offset <= SMALL_LAG


def offset(node: SeenNode) -> int:
    return node.server.offset if node.server is not None else 0


def never_ran(node: SeenNode) -> bool:
    """Nothing of it can hold data: no volume was ever bound, and its pod found no machine for long."""
    pod = node.pod
    return not node.has_volume and pod is not None and not pod.is_placed and pod.unplaced_for >= UNPLACED


def is_accounted_for(node: SeenNode) -> bool:
    """What it holds is known."""
    return node.said is not None or never_ran(node)


def holds_data(node: SeenNode) -> bool:
    """In its server or, where none runs, on its disk."""
    if node.said is None:
        return False
    return node.server.has_data if node.server is not None else node.said.disk.has_data


def has_full_volume(node: SeenNode) -> bool:
    return node.said is not None and node.said.volume_is_full


def index_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def _is_leaving(node: SeenNode) -> bool:
    return node.is_being_deleted or (node.pod is not None and node.pod.is_being_deleted)


def is_away(node: SeenNode, primary: str) -> bool:
    """It does not do its part: its pod is not there or not ready, or it is a replica that is not in sync."""
    if node.pod is None or not node.pod.is_ready or _is_leaving(node):
        return True
    return not (is_in_office(node) if node.name == primary else is_in_sync(node, primary))

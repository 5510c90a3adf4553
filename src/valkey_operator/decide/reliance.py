"""On whom the primary counts: it stops writing when neither the operator nor each of these can be heard."""

from __future__ import annotations

from valkey_operator.decide import sight
from valkey_operator.model.instance import SeenInstance, SeenNode


def the_primary_does_without_it(seen: SeenInstance, node: SeenNode, primary: SeenNode | None) -> str:
    """Before a replica is stopped; an operator that ends just then must not leave a primary that waits for its word."""
    if primary is None or node.name == primary.name or not sight.is_in_office(primary):
        return ""
    has_asked = seen.lease.last_request is not None
    if has_asked and node.name not in seen.lease.relied_on and node.name not in seen.promotable:
        return ""
    return f"{primary.name} has yet to renew its lease without {node.name}"

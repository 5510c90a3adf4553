"""The PodDisruptionBudget of a deployment: who may be evicted, and how many at once."""

from __future__ import annotations

from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import marks


def disruption_budget(deployment: Deployment, nodes: int) -> dict[str, Any] | None:
    """One pod at a time; taking `marks.GUARDED` off a pod lets that pod go. One that is there and not wanted is to go.

    `nodes` there are now, which may be more than is asked for: as long as they have not left they hold data. None for a
    lone pod: it is saved and let go, and a budget would hold it while it is not ready.
    """
    pods = max(nodes, deployment.value("replicas", 1) * deployment.value("shards", 1))
    if deployment.value("disruption.mode") == "None" or pods < 2:
        return None
    selector = {"matchLabels": {marks.CLUSTER: deployment.name, marks.GUARDED: "yes"}}
    metadata = marks.metadata(deployment, deployment.name, "disruption")
    # Not `maxUnavailable`: a pod that is gone and does not come back would not count against it (seen).
    return {"metadata": metadata, "spec": {"minAvailable": pods - 1, "selector": selector}}


def status(deployment: Deployment) -> dict[str, str]:
    """As `status.disruption` says it: what is in force, where something else may have been asked for."""
    if disruption_budget(deployment, nodes=0) is None:
        return {"mode": "None", "message": "any pod may be evicted"}
    is_guarded = deployment.value("disruption.mode") != "Budget"
    not_yet = "; Guarded acts as Budget until it is built" if is_guarded else ""
    return {"mode": "Budget", "message": f"one pod at a time may be evicted{not_yet}"}

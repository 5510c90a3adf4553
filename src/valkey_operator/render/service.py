"""The Services of a deployment: the primary, its replicas for reads, all pods by name, and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import exporter, marks

Part = dict[str, Any]

PORT = 6379
HEADLESS = "None"
# Together a little less than all annotations of an object may be.
MOST_WRITTEN, MOST_NOTED = 150_000, 80_000


def services(deployment: Deployment, primary: str, last_good: str = "") -> list[Part]:
    """All that this deployment asks for; those of `unwanted_services` are to go."""
    is_cluster = deployment.kind == "ValkeyCluster"
    clients = cluster_service(deployment) if is_cluster else primary_service(deployment, primary)
    made = [clients, headless_service(deployment, last_good)]
    if deployment.value("readService.enabled"):
        made.append(read_service(deployment))
    if exporter.is_wanted(deployment):
        made.append(metrics_service(deployment))
    return made


def unwanted_services(deployment: Deployment) -> list[str]:
    """Names of those that may be there from before, when they were still asked for."""
    wanted = {
        read_name(deployment): bool(deployment.value("readService.enabled")),
        exporter.service_name(deployment): exporter.is_wanted(deployment),
    }
    return [name for name, is_wanted in wanted.items() if not is_wanted]


def primary_service(deployment: Deployment, primary: str) -> Part:
    """Moved by one write, of its selector: measured, no gap and no overlap. Moving a label takes two."""
    service = _for_clients(deployment, deployment.name, {marks.NODE: primary})
    service["metadata"]["annotations"][marks.LEADS_TO] = primary
    return service


def cluster_service(deployment: Deployment) -> Part:
    """Every server that is ready: whoever is asked tells a client where its key is."""
    return _for_clients(deployment, deployment.name, marks.pods(deployment))


def read_service(deployment: Deployment) -> Part:
    """Replicas only, never the primary: with none it leads nowhere, for who reads there must not load the primary.

    A new pod is in it as soon as the operator has seen that its server follows, and has said so by the label.
    """
    selector = {**marks.pods(deployment), marks.ROLE: marks.REPLICA}
    return _for_clients(deployment, read_name(deployment), selector)


def headless_service(deployment: Deployment, last_good: str = "") -> Part:
    """The addresses of all pods that are ready, for clients that look for them by themselves.

    What it was made from is written beside it: an operator that starts while the wish of the day is refused goes on by
    that. And the spec with which everything was well last.
    """
    metadata = marks.metadata(deployment, headless_name(deployment), "service")
    if len(values := as_written(deployment.values)) <= MOST_WRITTEN:
        metadata["annotations"][marks.ACCEPTED] = values
    if 0 < len(last_good) <= MOST_NOTED:
        metadata["annotations"][marks.LAST_GOOD] = last_good
    spec = {"clusterIP": HEADLESS, "selector": marks.pods(deployment), "ports": [_port("valkey", PORT)]}
    return {"metadata": metadata, "spec": spec}


def as_written(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def metrics_service(deployment: Deployment) -> Part:
    """A server that loads is not ready, and worth looking at."""
    metadata = marks.metadata(deployment, exporter.service_name(deployment), "metrics")
    spec = {
        "clusterIP": HEADLESS,
        "publishNotReadyAddresses": True,
        "selector": marks.pods(deployment),
        "ports": [_port(exporter.PORT_NAME, exporter.port(deployment))],
    }
    return {"metadata": metadata, "spec": spec}


def headless_name(deployment: Deployment) -> str:
    return f"{deployment.name}-headless"


def read_name(deployment: Deployment) -> str:
    return f"{deployment.name}-read"


def host(deployment: Deployment, service: str) -> str:
    """As pods anywhere in the cluster reach it, whatever the cluster's own domain is."""
    return f"{service}.{deployment.namespace}.svc"


def _for_clients(deployment: Deployment, name: str, selector: dict[str, str]) -> Part:
    metadata = marks.metadata(deployment, name, "service")
    metadata["annotations"] |= deployment.value("service.annotations", {})
    spec = {
        "type": deployment.value("service.type", "ClusterIP"),
        "selector": selector,
        "ports": [_port("valkey", PORT)],
    }
    return {"metadata": metadata, "spec": spec}


def _port(name: str, number: int) -> Part:
    return {"name": name, "port": number, "targetPort": name}

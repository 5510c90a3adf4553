"""The pod of one server: the sidecar first, then the server behind its gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from valkey_operator.contract import heartbeat
from valkey_operator.contract.identity import TRUST_DOMAIN
from valkey_operator.model.deployment import Deployment
from valkey_operator.render import exporter, marks, users
from valkey_operator.render.bus import bus_port
from valkey_operator.render.scripts import ENTRY_POINT, HOOK, SUPERVISOR

Part = dict[str, Any]

SERVER = "valkey"
SIDECAR = "sidecar"
PROBE_PORT = 8080
CHANNEL_PORT = 9443
SERVER_PORT = 6379
# The handover's own limit is 25 s, and a save of many gigabytes takes its time.
GRACE_SECONDS = 120
CONTAINER_SECURITY: Part = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SIDECAR_RESOURCES: Part = {
    "requests": {"cpu": "10m", "memory": "48Mi"},
    "limits": {"memory": "128Mi"},
}
MOUNTS: list[Part] = [
    {"name": "run", "mountPath": "/run/valkey"},
    {"name": "data", "mountPath": "/data"},
]
SIDECAR_MOUNTS: list[Part] = [
    *MOUNTS,
    {"name": "config", "mountPath": "/etc/valkey-operator/config", "readOnly": True},
    {"name": "users", "mountPath": "/etc/valkey-operator/users", "readOnly": True},
    {"name": "identity", "mountPath": "/etc/valkey-operator/identity", "readOnly": True},
]

# Soft, so that a small cluster takes all of them all the same: first those with the same data, then those with the same
# number in their shards, or a machine might take with it more primaries than the others may replace.
APART = {"kubernetes.io/hostname": 100, "topology.kubernetes.io/zone": 50}
NUMBERS_APART = {"kubernetes.io/hostname": 20, "topology.kubernetes.io/zone": 10}


@dataclass(frozen=True)
class OperatorPlace:
    """Where a sidecar comes from, and to whom it reports."""

    image: str
    namespace: str
    trust_domain: str = TRUST_DOMAIN

    @property
    def address(self) -> str:
        """Of the Service in the operator's chart."""
        return f"valkey-operator.{self.namespace}.svc:{heartbeat.PORT}"


def template(deployment: Deployment, node: str, operator: OperatorPlace) -> Part:
    """In the core API's own shape, for a StatefulSet or a Deployment."""
    labels = {
        **marks.labels(deployment, marks.SERVER, node),
        **_place(deployment, node),
        marks.GUARDED: "yes",
    }
    annotations = {
        **marks.theirs(deployment, "annotations"), marks.CUSTOM_RESOURCE: deployment.name,
        "kubectl.kubernetes.io/default-container": SERVER,
    }  # fmt: skip
    spec: Part = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # So that the sidecar can hold the server's process: its end is proof, a silent socket is not.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": deployment.value("terminationGracePeriodSeconds", GRACE_SECONDS),
        "securityContext": dict(deployment.value("securityContext", {})),
        "containers": [_sidecar(deployment, node, operator), *_containers(deployment)],
        "volumes": _volumes(deployment, node),
    }
    for name in ("nodeSelector", "tolerations", "priorityClassName"):
        if deployment.value(name):
            spec[name] = deployment.value(name)
    spread = _spread(deployment, node)
    if spread:
        spec["topologySpreadConstraints"] = spread
    affinity = _affinity(deployment, node)
    if affinity:
        spec["affinity"] = affinity
    secrets = deployment.value("imagePullSecrets", [])
    if secrets:
        spec["imagePullSecrets"] = secrets
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _place(deployment: Deployment, node: str) -> dict[str, str]:
    """A node of a cluster is called after its shard and its number there."""
    if deployment.kind != "ValkeyCluster":
        return {}
    _, shard, number = node.rsplit("-", 2)
    return {marks.SHARD: shard, marks.NUMBER: number}


def _spread(deployment: Deployment, node: str) -> list[Part]:
    """Kubernetes takes one without a selector for one of no pods, and spreads nothing: meant are those with the same
    data."""
    place = {key: value for key, value in _place(deployment, node).items() if key != marks.NUMBER}
    same = {"labelSelector": {"matchLabels": {**marks.pods(deployment), **place}}}
    return [{**same, **wished} for wished in deployment.value("topologySpreadConstraints", [])]


def _affinity(deployment: Deployment, node: str) -> Part:
    """What people wish; and, unless they have wishes of their own about that, those apart that replace each other."""
    wished = dict(deployment.value("affinity", {}))
    if "podAntiAffinity" in wished or deployment.value("topologySpreadConstraints"):
        return wished
    place = _place(deployment, node)
    number = {marks.NUMBER: place.pop(marks.NUMBER)} if place else {}
    terms = _away_from(deployment, place, APART)
    if number:
        terms += _away_from(deployment, number, NUMBERS_APART)
    return {**wished, "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _away_from(deployment: Deployment, others: Mapping[str, str], weights: Mapping[str, int]) -> list[Part]:
    selector = {"matchLabels": {**marks.pods(deployment), **others}}
    return [
        {"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": key}}
        for key, weight in weights.items()
    ]


def _containers(deployment: Deployment) -> list[Part]:
    """Beside the sidecar, which is started first: it is about ready when the server's container is."""
    if not exporter.is_wanted(deployment):
        return [_server(deployment)]
    return [_server(deployment), exporter.container(deployment, CONTAINER_SECURITY)]


def _ports(deployment: Deployment) -> dict[str, int]:
    bus = {"bus": bus_port(deployment)} if deployment.kind == "ValkeyCluster" else {}
    return {SERVER: SERVER_PORT, **bus}


def _server(deployment: Deployment) -> Part:
    return {
        "name": SERVER,
        "image": deployment.value("image"),
        "imagePullPolicy": deployment.value("imagePullPolicy"),
        # Kubernetes reads $$ in a command as $.
        "command": ["/bin/sh", "-c", ENTRY_POINT.replace("$$", "$$$$")],
        "ports": [{"name": name, "containerPort": port} for name, port in _ports(deployment).items()],
        # What a server said that does not start; its entry point ends once for that.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", HOOK]}}},
        # While a server starts, the sidecar answers when there is something to say, or after four seconds.
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": PROBE_PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "resources": deployment.value("resources", {}),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": MOUNTS,
    }


def _sidecar(deployment: Deployment, node: str, operator: OperatorPlace) -> Part:
    return {
        "name": SIDECAR,
        "image": deployment.value("sidecar.image", operator.image),
        "imagePullPolicy": deployment.value("imagePullPolicy"),
        # Beside the server's container, and not an init container before it: the kubelet would begin the server's only
        # after its next look around, a second later. The gate keeps the order.
        "command": ["/bin/sh", "-c", SUPERVISOR.replace("$$", "$$$$")],
        "env": [
            {"name": "KIND", "value": deployment.kind},
            {"name": "DEPLOYMENT", "value": deployment.name},
            {"name": "NODE", "value": node},
            {"name": "OPERATOR_ADDRESS", "value": operator.address},
            {"name": "OPERATOR_NAMESPACE", "value": operator.namespace},
            {"name": "TRUST_DOMAIN", "value": operator.trust_domain},
            _field("NAMESPACE", "metadata.namespace"),
            _field("POD_UID", "metadata.uid"),
            _field("POD_IP", "status.podIP"),
        ],
        "ports": [
            {"name": "probes", "containerPort": PROBE_PORT},
            {"name": "channel", "containerPort": CHANNEL_PORT},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/live", "port": PROBE_PORT},
            "periodSeconds": 10,
            "failureThreshold": 6,
            "timeoutSeconds": 5,
            # One that hangs is not waited for.
            "terminationGracePeriodSeconds": 1,
        },
        "resources": deployment.value("sidecar.resources", SIDECAR_RESOURCES),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": SIDECAR_MOUNTS,
    }


def claim_name(node: str) -> str:
    return f"{node}-data"


def _volumes(deployment: Deployment, node: str) -> list[Part]:
    data: Part = {"name": "data", "emptyDir": {}}
    if deployment.value("persistence.enabled"):
        data = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name(node)}}
    own = [exporter.volume(deployment)] if exporter.is_wanted(deployment) else []
    return [
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        data,
        {"name": "config", "configMap": {"name": f"{node}-config"}},
        {"name": "users", "secret": {"secretName": users.secret_name(deployment.name)}},
        # There from the first version on: turning something on later must need no new template.
        {"name": "identity", "secret": {"secretName": f"{node}-mtls", "optional": True}},
        *own,
    ]


def _field(name: str, path: str) -> Part:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

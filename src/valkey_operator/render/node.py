"""A ValkeyNode, and from a ValkeyNode everything that one server needs: workload, Service, claim, configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from valkey_operator.model.deployment import Deployment
from valkey_operator.render import marks, pod
from valkey_operator.render.server_config import valkey_conf

Part = dict[str, Any]
MARKS = ("labels", "annotations")


def valkey_node(
    deployment: Deployment,
    node: str,
    primary: str,
    epoch: int,
    operator: pod.OperatorPlace,
    members: Sequence[str],
) -> Part:
    """What the topology wishes of one node; the node's own controller makes it so.

    `members` are all nodes that hold the same data, itself included: its gate asks the others.
    """
    config: Part = {
        "epoch": epoch,
        "members": sorted(members),
        "files": {"valkey.conf": valkey_conf(deployment)},
    }
    if primary != node:
        config["replicaOf"] = primary
    spec: Part = {
        "type": "valkey",
        "podManagementType": deployment.value("podManagementType"),
        "podTemplate": pod.template(deployment, node, operator),
        "persistence": _persistence(deployment),
        "valkeyConfig": config,
    }
    return {"metadata": marks.metadata(deployment, node, "node", node), "spec": spec}


def _persistence(deployment: Deployment) -> Part:
    if not deployment.value("persistence.enabled"):
        return {"enabled": False}
    wanted = {
        "enabled": True,
        "size": deployment.value("persistence.size"),
        "reclaimPolicy": deployment.value("persistence.reclaimPolicy", "Retain"),
    }
    storage_class = deployment.value("persistence.storageClassName")
    return {**wanted, "storageClassName": storage_class} if storage_class else wanted


def identity_secret(node: str) -> str:
    """The Secret with the sidecar's certificate, which its pod mounts."""
    return f"{node}-mtls"


def authority_secret(deployment: str) -> str:
    """The Secret with what signs the certificates of a deployment's sidecars."""
    return f"{deployment}-mtls-ca"


# Container and field.
IN_PLACE = ((pod.SERVER, "resources"), (pod.SIDECAR, "image"))


def fingerprint(spec: Mapping[str, Any]) -> str:
    """Of everything in a pod that only a new one can have; what the server may use, and the sidecar's image, can change
    in place."""
    lasting = [
        {name: value for name, value in each.items() if (each["name"], name) not in IN_PLACE}
        for each in spec["containers"]
    ]
    content = json.dumps({**spec, "containers": lasting}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class NodeObjects:
    """From one ValkeyNode, as it is stored."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self._metadata = node["metadata"]
        self._spec = node["spec"]
        self.name: str = self._metadata["name"]
        self._owner = {
            "apiVersion": node["apiVersion"],
            "kind": node["kind"],
            "name": self.name,
            "uid": self._metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self._owners = [owner for owner in self._metadata.get("ownerReferences", ()) if owner["controller"]]

    def config_map(self, most_memory: int | None = None) -> Part:
        """With `most_memory` no more than that: a pod that is still to grow must not be filled beyond it."""
        config = self._spec.get("valkeyConfig", {})
        record = {
            "epoch": config.get("epoch", 0),
            "members": config.get("members", [self.name]),
            "primary": config.get("replicaOf", self.name),
        }
        data = {**config.get("files", {}), "record.json": json.dumps(record, sort_keys=True)}
        if most_memory is not None:
            data["valkey.conf"] = f"{data['valkey.conf']}maxmemory {most_memory}\n"
        return {"metadata": self._marked(f"{self.name}-config"), "data": data}

    def service(self) -> Part:
        """Stable name and address of this one server; it publishes not-ready addresses, for its peers."""
        named = {pod.SERVER: pod.SERVER_PORT, "channel": pod.CHANNEL_PORT}
        ports = [{"name": name, "port": port, "targetPort": port} for name, port in named.items()]
        spec = {"selector": {marks.NODE: self.name}, "ports": ports, "publishNotReadyAddresses": True}
        return {"metadata": self._marked(self.name), "spec": spec}

    def claim(self, size: str = "") -> Part | None:
        """Without an owner: what holds data is not deleted by accident; only where it is asked for, with the
        deployment."""
        wanted = self._spec.get("persistence", {})
        if not wanted.get("enabled"):
            return None
        metadata = self._marked(pod.claim_name(self.name))
        if wanted.get("reclaimPolicy") == "Delete":
            metadata["ownerReferences"] = self._owners
        else:
            del metadata["ownerReferences"]
        spec: Part = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size or wanted["size"]}},
        }
        if wanted.get("storageClassName"):
            spec["storageClassName"] = wanted["storageClassName"]
        return {"metadata": metadata, "spec": spec}

    def stateful_set(self) -> Part:
        selector = {"matchLabels": {marks.NODE: self.name}}
        spec = {
            "replicas": 1,
            "serviceName": self.name,
            "selector": selector,
            "updateStrategy": {"type": "OnDelete"},
            "podManagementPolicy": "Parallel",
            "template": self.template(),
        }
        return {"metadata": self._marked(self.name), "spec": spec}

    def deployment(self, *, is_held: bool, replaces: str = "") -> Part:
        """Held, it replaces nothing by itself. It does when it is let go, and always then: its template names the pod
        that is to be replaced."""
        selector = {"matchLabels": {marks.NODE: self.name}}
        noted = {marks.REPLACES: replaces} if replaces else {}
        template, metadata = self.template(), self._marked(self.name)
        spec = {
            "replicas": 1,
            "selector": selector,
            "strategy": {"type": "Recreate"},
            "paused": is_held,
            "template": {**template, "metadata": _noting(template["metadata"], noted)},
        }
        return {"metadata": _noting(metadata, noted), "spec": spec}

    def identity_metadata(self) -> Part:
        return self._marked(identity_secret(self.name))

    def template(self) -> Part:
        """Marked with its own fingerprint, so that a pod tells what it was made from."""
        wanted = self._spec["podTemplate"]
        metadata = wanted.get("metadata", {})
        annotations = {**metadata.get("annotations", {}), marks.TEMPLATE: fingerprint(wanted["spec"])}
        return {**wanted, "metadata": {**metadata, "annotations": annotations}}

    def _marked(self, name: str) -> Part:
        kept = {mark: self._metadata[mark] for mark in MARKS if self._metadata.get(mark)}
        own = {key: value for key, value in kept.get("annotations", {}).items() if key != "valkey.io/applied"}
        marked = {**kept, "annotations": own, "ownerReferences": [self._owner]}
        return {"name": name, "namespace": self._metadata["namespace"], **marked}


def _noting(metadata: Mapping[str, Any], noted: Mapping[str, str]) -> Part:
    return {**metadata, "annotations": {**metadata.get("annotations", {}), **noted}}

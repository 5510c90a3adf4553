"""Bare Valkey servers on a cluster, and how a test talks to them."""

from __future__ import annotations

import json
import socket
from typing import Any

from devcluster.cluster import Cluster

IMAGE = "valkey-operator/valkey:9.1"
PING = """
import socket, sys
with socket.create_connection((sys.argv[1], 6379), timeout=2) as server:
    server.sendall(b"PING\\r\\n")
    sys.exit(0 if server.recv(7) == b"+PONG\\r\\n" else "no PONG")
"""

_CONTAINER = f"""
      - name: valkey
        image: {IMAGE}
        imagePullPolicy: IfNotPresent
        resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {{drop: [ALL]}}
          readOnlyRootFilesystem: true
        readinessProbe: {{exec: {{command: [valkey-cli, ping]}}, periodSeconds: 1, timeoutSeconds: 5}}
        volumeMounts: [{{name: data, mountPath: /data}}]"""
_POD = """
      terminationGracePeriodSeconds: 5
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}"""


def stateful_set(name: str, replicas: int, storage_class: str | None = None, size: str = "64Mi") -> str:
    """A StatefulSet of servers, one zone each, with a headless Service and a volume each if asked for."""
    volumes = "\n      volumes: [{name: data, emptyDir: {}}]" if storage_class is None else ""
    claims = f"""
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec:
      storageClassName: {storage_class}
      accessModes: [ReadWriteOnce]
      resources: {{requests: {{storage: {size}}}}}"""
    return f"""\
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{clusterIP: None, selector: {{app: {name}}}, ports: [{{port: 6379}}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: {name}}}
spec:
  serviceName: {name}
  replicas: {replicas}
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:{_POD}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {{matchLabels: {{app: {name}}}}}
      containers:{_CONTAINER}{volumes}{claims if storage_class else ""}
"""


def pod(name: str, node: str | None = None) -> str:
    """One server without a volume, on a node of our choice."""
    place = f"\n      nodeSelector: {{kubernetes.io/hostname: {node}}}" if node else ""
    spec = f"{_POD}{place}\n      containers:{_CONTAINER}\n      volumes: [{{name: data, emptyDir: {{}}}}]"
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:"
        f"{spec.replace(chr(10) + '    ', chr(10))}\n"
    )


def apply(cluster: Cluster, namespace: str, manifest: str) -> None:
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=manifest)


def run_set(cluster: Cluster, namespace: str, name: str, manifest: str) -> None:
    """Apply a StatefulSet and wait until all its pods are Ready."""
    apply(cluster, namespace, manifest)
    cluster.kubectl("rollout", "status", "-n", namespace, f"statefulset/{name}", "--timeout=90s")


def wait_ready(cluster: Cluster, namespace: str, label: str, seconds: int = 90) -> None:
    cluster.kubectl("wait", "--namespace", namespace, "pod", "--selector", f"app={label}",
                    "--for=condition=Ready", f"--timeout={seconds}s")  # fmt: skip


def start(cluster: Cluster, namespace: str, name: str, node: str | None = None) -> str:
    """Start one server and return its address."""
    apply(cluster, namespace, pod(name, node))
    wait_ready(cluster, namespace, name)
    return address(cluster, namespace, name)


def get(cluster: Cluster, namespace: str, *what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", "-n", namespace, *what, "-o", "json"))
    return found


def address(cluster: Cluster, namespace: str, name: str) -> str:
    return str(get(cluster, namespace, "pod", name)["status"]["podIP"])


def valkey(cluster: Cluster, namespace: str, name: str, *command: str) -> str:
    """What the server in this pod answers to a command."""
    return cluster.kubectl(
        "exec", "-n", namespace, name, "-c", "valkey", "--", "valkey-cli", *command
    ).strip()


def answers(host: str, port: int = 6379, timeout: float = 2) -> bool:
    """Whether a client on the host gets a PONG there."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as server:
            server.sendall(b"PING\r\n")
            return server.recv(7) == b"+PONG\r\n"
    except OSError:
        return False

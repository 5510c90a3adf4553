"""Finds the processes and the network of a pod from outside, without asking the API server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from devcluster.binaries import Binaries
from devcluster.images import ctr
from devcluster.node import Node
from devcluster.places import Record
from devcluster.problem import Problem

SHELLS = ("sh", "dash", "bash", "ash", "busybox")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True)
class PodName:
    """A pod, written `NAMESPACE/NAME` or `NAME`; `@NODE` behind it tells two of one name apart."""

    namespace: str
    name: str
    node: str | None = None

    @classmethod
    def parse(cls, text: str) -> PodName:
        whole, _, node = text.partition("@")
        namespace, _, name = whole.rpartition("/")
        if not _NAME.fullmatch(name) or (namespace and not _NAME.fullmatch(namespace)):
            raise Problem(f"{text!r} is no pod; write NAMESPACE/NAME, or NAME for one in `default`")
        return cls(namespace or "default", name, node or None)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Running:
    """A container's first process, as the machine sees it."""

    node: Node
    container: str
    pid: int

    @property
    def server_pid(self) -> int:
        """The one that serves: where a shell only starts it and waits, its child."""
        if Path(f"/proc/{self.pid}/comm").read_text().strip() not in SHELLS:
            return self.pid
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0]) if children else self.pid

    @property
    def network(self) -> Path:
        return Path(f"/proc/{self.pid}/ns/net")


def server(record: Record, binaries: Binaries, pod: PodName, container: str | None = None) -> Running:
    """The pod's server process: the container asked for, else `valkey`, else the only one."""
    running = _containers(record, binaries, pod, kind="container")
    found = {item.container: item for item in running}
    if not found:
        raise Problem(f"pod {pod} has no running container on any node of cluster {record.name}")
    wanted = container or ("valkey" if "valkey" in found else None)
    if wanted is None and len(found) == 1:
        return next(iter(found.values()))
    if wanted not in found:
        raise Problem(f"say which container of {pod} is meant: {', '.join(sorted(found))} are running")
    return found[wanted]


def sandbox(record: Record, binaries: Binaries, pod: PodName) -> Running:
    """The process that holds the pod's network namespace."""
    found = _containers(record, binaries, pod, kind="sandbox")
    if not found:
        raise Problem(f"pod {pod} runs on no node of cluster {record.name}")
    return found[0]


def _containers(record: Record, binaries: Binaries, pod: PodName, kind: str) -> list[Running]:
    found: list[Running] = []
    for number in record.node_numbers:
        node = Node(record, number)
        if not node.socket.exists() or pod.node not in (None, node.name):
            continue
        labels = {"io.kubernetes.pod.namespace": pod.namespace, "io.kubernetes.pod.name": pod.name,
                  "io.cri-containerd.kind": kind}  # fmt: skip
        query = ",".join(f'labels."{key}"=={value}' for key, value in labels.items())
        ids = ctr(node, binaries, "containers", "list", "--quiet", query).split()
        running = _tasks(node, binaries) if ids else {}
        found += [
            Running(node, _container_name(node, binaries, key), running[key]) for key in ids if key in running
        ]
    nodes = sorted({item.node.name for item in found})
    if len(nodes) > 1:
        raise Problem(f"{pod} runs on {' and '.join(nodes)} at once; say which one: {pod}@{nodes[0]}")
    return found


def _tasks(node: Node, binaries: Binaries) -> dict[str, int]:
    rows = [row.split() for row in ctr(node, binaries, "tasks", "list").splitlines()[1:]]
    return {key: int(pid) for key, pid, status in rows if status in ("RUNNING", "PAUSED")}


def _container_name(node: Node, binaries: Binaries, key: str) -> str:
    labels = json.loads(ctr(node, binaries, "containers", "info", key))["Labels"]
    return str(labels.get("io.kubernetes.container.name", ""))

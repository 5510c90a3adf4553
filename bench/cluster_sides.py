"""Whose clusters are measured: ours, as `make up` installs them; and, if asked for, the official operator's.

The other one is built from its source and runs beside a devcluster of its own, for its kinds have the names of ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster import image_build
from devcluster.cluster import EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.places import default_name
from devcluster.progress import Progress
from devcluster.provider import checkout

IMAGE = "valkey-operator/valkey:9.1"
STORED = {"size": "64Mi", "storageClassName": "standard"}
OURS = {"imagePullPolicy": "Never"}
# The image does not run as root, and the other operator leaves the owner of volumes to its user.
THEIRS = {"exporter": {"enabled": False}, "podSecurityContext": {"fsGroup": 10001}}


@dataclass
class Side:
    """One operator: where its clusters run, and how they are asked for."""

    name: str
    cluster: EmbeddedCluster
    # Besides what both understand.
    extra: dict[str, Any]
    # How many pods of a shard its `replicas` leaves out.
    uncounted: int
    # What makes every pod start anew, and the same with several shards at once if it can.
    change: dict[str, Any]
    wide_change: dict[str, Any] = field(default_factory=dict)

    def manifest(self, name: str, shards: int, pods: int = 2) -> dict[str, Any]:
        spec = {"image": IMAGE, "persistence": STORED, "shards": shards, "replicas": pods - self.uncounted}
        head = {"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "metadata": {"name": name}}
        return {**head, "spec": {**spec, **self.extra}}

    def apply(self, namespace: str, *objects: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cluster.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=json.dumps(items))


def ours() -> Side:
    change: dict[str, Any] = {"config": {"databases": "20"}}
    wide: dict[str, Any] = {"config": {"databases": "30"}, "update": {"maxParallelShards": 3}}
    return Side("ours", EmbeddedCluster(default_name(checkout())), OURS, 0, change, wide)


@contextlib.contextmanager
def peer(source: Path) -> Iterator[Side]:
    """The official operator, as a process of this machine: nothing slows it but the machine."""
    cluster = EmbeddedCluster(f"{default_name(checkout())}-peer")
    recipe = image_build.recipes(checkout() / "images")[IMAGE]
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "manager"
        subprocess.run(["go", "build", "-o", program, "./cmd"], cwd=source, check=True)
        try:
            cluster.up(Wish(), Progress())
            cluster.load(image_build.build([recipe], Progress()))
            cluster.kubectl("apply", "--server-side", "-f", source / "config" / "crd" / "bases")
            with _running(program, cluster.kubeconfig, Path(place) / "log"):
                yield Side("peer", cluster, THEIRS, 1, {"terminationGracePeriodSeconds": 61})
        finally:
            cluster.down(Progress())


@contextlib.contextmanager
def _running(program: Path, kubeconfig: Path, log: Path) -> Iterator[None]:
    command = [str(program), "--health-probe-bind-address=0"]
    with log.open("w") as opened:
        process = subprocess.Popen(
            command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=opened, stderr=opened
        )
        try:
            yield
        finally:
            if process.poll() is not None:
                print(log.read_text()[-2000:])
            process.send_signal(signal.SIGTERM)
            process.wait(30)

"""Figures of deployments: how soon they serve, what a sidecar costs, what the operator does at rest.

Needs the cluster of this checkout with the operator in it (`make up`). Prints one JSON line per figure; times stand
beside bare servers of the same image, started by StatefulSets in the same run.

    python -m bench.one_node [--runs N] [ready] [three] [cluster] [six] [sidecar] [idle]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ground import hash_half_a_gigabyte, show, timed
from devcluster import cgroups, pods
from devcluster.cluster import EmbeddedCluster
from devcluster.places import default_name
from devcluster.pods import PodName
from devcluster.provider import checkout

SIX = 6
MANY = 50
AT_REST = 300.0
IMAGE = "valkey-operator/valkey:9.1"
SIDECAR = "valkey-operator/operator:dev"
OPERATORS = "valkey-system"
STORED = {"size": "64Mi", "storageClassName": "standard"}


class Bench:
    """The cluster, and what every figure needs of it."""

    def __init__(self, runs: int = 5) -> None:
        self.runs = runs
        self.cluster = EmbeddedCluster(default_name(checkout()))
        self._number = 0

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl(*arguments, stdin=stdin, timeout=600)

    @contextmanager
    def namespace(self) -> Iterator[str]:
        self._number += 1
        name = f"bench-{time.time_ns() % 10**9}-{self._number}"
        self.kubectl("create", "namespace", name)
        try:
            yield name
        finally:
            # First what is in it: a namespace that is deleted with pods in it waits for half of their grace period.
            self.kubectl("--namespace", name, "delete", "valkeys,valkeyclusters,statefulsets", "--all")
            self.kubectl("--namespace", name, "wait", "pods", "--all", "--for=delete", "--timeout=120s")
            self.kubectl("delete", "namespace", name, "--wait=false")

    def apply(self, namespace: str, *objects: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=json.dumps(items))

    def wait_for_pods(self, namespace: str, count: int) -> None:
        """Not by name: bare ones and ours are called differently."""
        while len(self.kubectl("get", "pods", "--namespace", namespace, "--output=name").split()) < count:
            time.sleep(0.05)
        ready = ("--for=condition=Ready", "--timeout=300s", "pods", "--all")
        self.kubectl("wait", "--namespace", namespace, *ready)

    def leader(self) -> str:
        lease = ("get", "lease", "valkey-operator", "--output=jsonpath={.spec.holderIdentity}")
        return self.kubectl("--namespace", OPERATORS, *lease).partition("_")[0]

    def pid(self, namespace: str, pod: str, container: str) -> int:
        cluster = self.cluster
        return pods.server(cluster.record, cluster.binaries, PodName(namespace, pod), container).server_pid


def main() -> None:
    figures: dict[str, Callable[[Bench], None]] = {
        "ready": measure_ready,
        "three": measure_three,
        "cluster": measure_cluster,
        "six": measure_six,
        "sidecar": measure_sidecar,
        "idle": measure_idle,
    }
    words = argparse.ArgumentParser(prog="python -m bench.one_node")
    words.add_argument("--runs", type=int, default=5)
    words.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(figures))
    given = words.parse_args()
    if unknown := set(given.figures) - set(figures):
        words.error(f"{', '.join(sorted(unknown))}: no such figure; there are {', '.join(figures)}")
    bench = Bench(given.runs)
    for name in given.figures or figures:
        figures[name](bench)


def valkey(name: str, **more: Any) -> dict[str, Any]:
    spec = {"image": IMAGE, "imagePullPolicy": "Never", "replicas": 1, "persistence": STORED, **more}
    head = {"apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "metadata": {"name": name}}
    return {**head, "spec": spec}


def bare(name: str) -> dict[str, Any]:
    """What somebody would write by hand: a server with a volume, probed every second."""
    labels = {"app": name}
    probe = {"tcpSocket": {"port": 6379}, "periodSeconds": 1}
    server = {
        "name": "valkey",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["valkey-server", "--dir", "/data", "--protected-mode", "no"],
        "readinessProbe": probe,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORED["storageClassName"],
            "resources": {"requests": {"storage": STORED["size"]}},
        },
    }
    spec = {
        "replicas": 1,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [server]}},
        "volumeClaimTemplates": [claim],
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def bare_of_two(name: str) -> dict[str, Any]:
    """With a second container beside it, as ours have, in which nothing is done."""
    made = bare(name)
    idle = {"name": "idle", "image": SIDECAR, "imagePullPolicy": "Never", "command": ["sleep", "infinity"]}
    template = made["spec"]["template"]["spec"]
    template["containers"].append(idle)
    template["terminationGracePeriodSeconds"] = 1
    return made


def cluster(name: str) -> dict[str, Any]:
    return {**valkey(name, shards=3, replicas=2), "kind": "ValkeyCluster"}


def measure_ready(bench: Bench) -> None:
    """From the manifest to `Ready` in the status."""
    baseline = timed(hash_half_a_gigabyte)
    times = [_until_ready(bench, valkey("one")) for _ in range(bench.runs)]
    runs = [round(value, 2) for value in times]
    show("one_ready_s", round(statistics.median(times), 2), baseline_s=round(baseline, 2), runs=runs)


def measure_three(bench: Bench) -> None:
    """A primary and two replicas in sync, beside as many bare servers that do not know each other."""
    _beside_bare(bench, "three_ready_s", valkey("three", replicas=3), 3)


def measure_cluster(bench: Bench) -> None:
    """Three shards of two with all slots and all replicas in sync, beside six bare servers."""
    _beside_bare(bench, "cluster_ready_s", cluster("grid"), SIX)


def _beside_bare(bench: Bench, figure: str, wanted: dict[str, Any], pods: int) -> None:
    ours, others = [], []
    for _ in range(bench.runs):
        with bench.namespace() as namespace:
            begun = time.monotonic()
            bench.apply(namespace, *(bare(f"v{number}") for number in range(pods)))
            bench.wait_for_pods(namespace, pods)
            others.append(time.monotonic() - begun)
        ours.append(_until_ready(bench, wanted))
    medians = [round(statistics.median(times), 2) for times in (ours, others)]
    runs = {"bare": [round(value, 2) for value in others], "ours": [round(value, 2) for value in ours]}
    show(figure, medians[0], bare=medians[1], ratio=round(medians[0] / medians[1], 2), runs=runs)


def _until_ready(bench: Bench, wanted: dict[str, Any]) -> float:
    with bench.namespace() as namespace:
        begun = time.monotonic()
        bench.apply(namespace, wanted)
        what = f"{wanted['kind'].lower()}/{wanted['metadata']['name']}"
        wait = ("wait", "--for=jsonpath={.status.state}=Ready", what, "--timeout=120s")
        bench.kubectl("--namespace", namespace, *wait)
        return time.monotonic() - begun


def measure_six(bench: Bench) -> None:
    """Six at once, ours beside bare ones, in turns."""
    found: dict[str, list[float]] = {"bare": [], "ours": []}
    makers = {"bare": bare, "ours": valkey}
    for _ in range(bench.runs):
        for name, make in makers.items():
            with bench.namespace() as namespace:
                begun = time.monotonic()
                bench.apply(namespace, *(make(f"v{number}") for number in range(SIX)))
                bench.wait_for_pods(namespace, SIX)
                found[name].append(time.monotonic() - begun)
    medians = {name: round(statistics.median(times), 2) for name, times in found.items()}
    runs = {name: [round(value, 2) for value in times] for name, times in found.items()}
    show(
        "six_ready_s",
        medians["ours"],
        bare=medians["bare"],
        ratio=medians["ours"] / medians["bare"],
        runs=runs,
    )


def measure_sidecar(bench: Bench) -> None:
    """After a minute of rest, over a minute of rest."""
    with bench.namespace() as namespace:
        bench.apply(namespace, valkey("one"))
        bench.wait_for_pods(namespace, 1)
        time.sleep(60)
        pid = bench.pid(namespace, "one-0-0", "sidecar")
        before = cpu_seconds(pid)
        time.sleep(60)
        used = (cpu_seconds(pid) - before) / 60 * 1000
        show("sidecar_rss_mib", resident_mib(pid))
        show("sidecar_working_set_mib", working_set_mib(pid))
        show("sidecar_idle_millicores", round(used, 2))


def measure_idle(bench: Bench) -> None:
    """Many nodes at rest: what the operator writes, and what it holds."""
    with bench.namespace() as namespace:
        begun = time.monotonic()
        bench.apply(
            namespace, *(valkey(f"v{number}", persistence={"enabled": False}) for number in range(MANY))
        )
        bench.wait_for_pods(namespace, MANY)
        show("many_ready_s", round(time.monotonic() - begun, 1), nodes=MANY)
        time.sleep(60)
        audit = bench.cluster.audit
        pid = bench.pid(OPERATORS, bench.leader(), "operator")
        before = cpu_seconds(pid)
        time.sleep(AT_REST)
        ours = [each for each in audit.requests() if each.user.endswith(":valkey-operator") and each.is_write]
        writes = [f"{each.verb} {each.resource} {each.name}" for each in ours if each.resource != "leases"]
        show("idle_writes", len(writes), nodes=MANY, seconds=AT_REST, which=writes[:10])
        show("idle_lease_renewals", len(ours) - len(writes))
        show("operator_rss_mib", resident_mib(pid), nodes=MANY)
        show("operator_working_set_mib", working_set_mib(pid), nodes=MANY)
        show("operator_idle_millicores", round((cpu_seconds(pid) - before) / AT_REST * 1000, 2), nodes=MANY)


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise ValueError(f"process {pid} has no memory")


def working_set_mib(pid: int) -> float:
    """Of its container. Pages of libraries count for whoever read them first on that machine."""
    path = Path(f"/proc/{pid}/cgroup").read_text().splitlines()[0].split(":", 2)[2]
    return round(cgroups.working_set_bytes(path.removeprefix("/")) / (1 << 20), 1)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    main()

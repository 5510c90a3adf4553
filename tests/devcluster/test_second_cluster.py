"""A second cluster beside the first: apart in everything, joined by pod addresses; crash, recovery, end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import cgroups, network
from devcluster.cluster import EmbeddedCluster
from devcluster.command import CommandFailed
from devcluster.embedded import Wish, ready_nodes
from devcluster.image_build import recipes
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.progress import Progress
from devcluster.provider import checkout
from devcluster.waiting import until
from tests.devcluster.servers import (
    IMAGE,
    address,
    answers,
    apply,
    get,
    start,
    stateful_set,
    valkey,
    wait_ready,
)


@pytest.fixture(scope="module")
def second(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """One node, with metrics-server, beside the session's cluster."""
    if not isinstance(cluster, EmbeddedCluster):
        pytest.skip("needs the embedded cluster")
    other = EmbeddedCluster(f"{cluster.name[:25]}-two")
    other.down(Progress())
    other.up(Wish(nodes=1, metrics=True), Progress())
    other.load([recipes(checkout() / "images")[IMAGE].archive])
    yield other
    other.down(Progress())


def test_pods_of_two_clusters_reach_each_other(
    embedded_cluster: EmbeddedCluster, second: EmbeddedCluster, namespace: str
) -> None:
    here = start(embedded_cluster, namespace, "here")
    there = start(second, "default", "there")
    assert answers(here)
    assert answers(there)
    assert valkey(embedded_cluster, namespace, "here", "-h", there, "ping") == "PONG"
    assert valkey(second, "default", "there", "-h", here, "ping") == "PONG"


def test_the_two_clusters_know_nothing_of_each_other(
    embedded_cluster: EmbeddedCluster, second: EmbeddedCluster
) -> None:
    assert ready_nodes(second.api) == {"node1"}
    assert len(ready_nodes(embedded_cluster.api)) == embedded_cluster.record.nodes
    with embedded_cluster.faults.stop("api"):
        assert second.api.is_ready()


def test_metrics_server_tells_what_a_node_uses(second: EmbeddedCluster) -> None:
    def usage() -> str:
        result = subprocess.run(
            [second.kubectl.program, f"--kubeconfig={second.kubeconfig}", "top", "node", "--no-headers"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return result.stdout

    assert until(usage, "a figure of metrics-server", 120, 1).startswith("node1")


def test_a_running_cluster_refuses_another_shape(second: EmbeddedCluster) -> None:
    with pytest.raises(Problem, match="exists with nodes 1, not 3; end it first"):
        second.up(Wish(nodes=3), Progress())


def test_everything_killed_comes_back_with_its_data(second: EmbeddedCluster) -> None:
    apply(second, "default", stateful_set("kept", 1, "standard"))
    second.kubectl("rollout", "status", "statefulset/kept", "--timeout=90s")
    assert valkey(second, "default", "kept-0", "set", "k", "survives") == "OK"
    assert valkey(second, "default", "kept-0", "save") == "OK"
    second.faults.fill("data-kept-0")
    second.faults.cut("node1", direction="in", peer="192.0.2.1")
    second.faults.stop("api")
    victims = cgroups.pids(second.record.group)
    assert len(victims) > 10
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not cgroups.pids(second.record.group), "the end of all processes", 20)
    assert not second.is_up
    second.up(Wish(), Progress())
    assert second.faults.active() == []

    def restarts() -> int:
        return int(get(second, "default", "pod", "kept-0")["status"]["containerStatuses"][0]["restartCount"])

    until(lambda: restarts() >= 1, "the return of the pod", 60, 0.5)
    second.kubectl("wait", "pod/kept-0", "--for=condition=Ready", "--timeout=60s")
    assert valkey(second, "default", "kept-0", "get", "k") == "survives"
    assert valkey(second, "default", "kept-0", "save") == "OK"
    assert answers(address(second, "default", "kept-0"))


def test_a_dead_kubelet_is_started_again_without_touching_the_pods(second: EmbeddedCluster) -> None:
    server = start(second, "default", "undisturbed")
    valkey(second, "default", "undisturbed", "set", "k", "in memory")
    processes = Processes(second.record)
    processes.kill("node1/kubelet")
    processes.kill("node1/containerd")
    second.up(Wish(), Progress())
    assert answers(server)
    wait_ready(second, "default", "undisturbed")
    assert until(lambda: _reads_k(second), "an exec through the new kubelet", 30) == "in memory"


def _reads_k(cluster: EmbeddedCluster) -> str | None:
    try:
        return valkey(cluster, "default", "undisturbed", "get", "k")
    except CommandFailed:
        return None


def test_the_same_name_in_another_state_folder_is_another_cluster(
    second: EmbeddedCluster, state: Path
) -> None:
    elsewhere = {**os.environ, "DEVCLUSTER_STATE": str(state), "PROVIDER": "embedded"}
    command = [sys.executable, "-m", "devcluster.cli"]
    named = ["--name", second.name]
    try:
        subprocess.run([*command, "up", *named, "--nodes", "1"], env=elsewhere, check=True, timeout=120)
        assert second.api.is_ready()
    finally:
        subprocess.run([*command, "down", *named], env=elsewhere, check=True, timeout=60)
    assert second.api.is_ready()
    assert not (state / second.name).exists()


def test_down_leaves_nothing(second: EmbeddedCluster) -> None:
    """Last in this module, and with a fault under way and a volume in use."""
    folder, group, link = second.record.folder, second.record.group, network.link(second.record)
    assert _traces(folder, group, link), "the search itself finds nothing even on a running cluster"
    sockets = _shim_sockets(folder)
    assert sockets
    second.faults.cut("node1")
    assert second.down(Progress())
    assert _traces(folder, group, link) == []
    assert [socket for socket in sockets if socket.exists()] == []
    assert not second.down(Progress())


def _shim_sockets(folder: Path) -> list[Path]:
    """containerd puts these outside the folders it was given."""
    found = [
        json.loads(file.read_text())["address"] for file in folder.glob("*/state/*.task/*/*/bootstrap.json")
    ]
    return [Path(address.removeprefix("unix://")) for address in found]


def _traces(folder: Path, group: str, link: str) -> list[str]:
    """Everything on the machine that bears the cluster's name or lies in its folder."""
    found = [str(path) for pattern in (group, f"*/{group}") for path in Path("/sys/fs/cgroup").glob(pattern)]
    found += [str(path) for path in Path("/run/netns").glob(f"{group}.*")]
    found += [str(path) for path in Path("/var/lib/cni/results").glob(f"{group}.*")]
    found += [
        str(path)
        for path in Path("/var/log/containers").glob("*")
        if path.is_symlink() and str(path.readlink()).startswith(f"{folder}/")
    ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if f"{folder}/" in line]
    found += [f"link {link}"] if Path(f"/sys/class/net/{link}").exists() else []
    found += [
        str(file)
        for file in Path("/sys/block").glob("loop*/loop/backing_file")
        if file.read_text().startswith(f"{folder}/")
    ]
    found += [str(folder)] if folder.exists() else []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [words.replace("\0", " ")] if f"{folder}/" in words else []
    return found


def test_a_fresh_start_drops_the_data(second: EmbeddedCluster) -> None:
    """After the end above: made twice anew, once with something in it."""
    second.up(Wish(nodes=1), Progress())
    second.kubectl("create", "namespace", "old")
    second.up(Wish(nodes=1, fresh=True), Progress())
    listed = {item["metadata"]["name"] for item in get(second, "default", "namespaces")["items"]}
    assert "old" not in listed

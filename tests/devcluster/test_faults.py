"""Every fault does what it says, is listed while it lasts, and heals."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from devcluster.api import Api, ApiError, Unreachable
from devcluster.cluster import EmbeddedCluster
from devcluster.command import CommandFailed
from devcluster.embedded import ready_nodes
from devcluster.faults import Faults
from devcluster.problem import Problem
from devcluster.waiting import until
from tests.devcluster.servers import PING, answers, apply, get, start, stateful_set, valkey

# kube-controller-manager's own grace is 50 s, and its look-around takes 5 s.
GRACE = 90
ASK_DNS = """
import subprocess
import sys
import time
from collections.abc import Callable
from devcluster.dns import resolve
server, questions, timeout = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
name = "kubernetes.default.svc.cluster.local"
print(sum(resolve(name, server, timeout) is not None for _ in range(questions)))
"""


def _restarts(cluster: EmbeddedCluster, namespace: str, pod: str) -> int:
    return int(get(cluster, namespace, "pod", pod)["status"]["containerStatuses"][0]["restartCount"])


def test_a_killed_server_is_started_again_by_the_kubelet(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    address = start(embedded_cluster, namespace, "victim")
    valkey(embedded_cluster, namespace, "victim", "set", "k", "only in memory")
    faults.kill(f"{namespace}/victim")
    until(lambda: _restarts(embedded_cluster, namespace, "victim") == 1, "the restart", 60, 0.2)
    until(lambda: answers(address), "an answer after the restart", 30)
    assert valkey(embedded_cluster, namespace, "victim", "get", "k") == ""
    assert faults.active() == []


def test_a_paused_server_is_silent_until_healed_and_forgets_nothing(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    address = start(embedded_cluster, namespace, "frozen")
    valkey(embedded_cluster, namespace, "frozen", "set", "k", "v")
    with faults.pause(f"{namespace}/frozen") as fault:
        assert not answers(address, timeout=1)
        assert [active.id for active in faults.active()] == [fault.id]
    assert answers(address)
    assert valkey(embedded_cluster, namespace, "frozen", "get", "k") == "v"


def test_healing_a_pause_never_touches_a_later_process(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    start(embedded_cluster, namespace, "gone")
    fault = faults.pause(f"{namespace}/gone")
    faults.kill(f"{namespace}/gone")
    until(lambda: _restarts(embedded_cluster, namespace, "gone") == 1, "the restart", 60, 0.2)
    faults.heal(fault)
    assert faults.active() == []


def test_a_cut_pod_is_unreachable_but_runs_on(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    address = start(embedded_cluster, namespace, "alone")
    with faults.cut(f"{namespace}/alone"):
        assert not answers(address, timeout=1)
    assert answers(address)
    assert _restarts(embedded_cluster, namespace, "alone") == 0


def test_a_pod_cut_one_way_hears_but_cannot_answer(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    server = start(embedded_cluster, namespace, "mute", "node1")
    start(embedded_cluster, namespace, "caller", "node2")
    # A connection opened before the cut: what is sent on it arrives, although no answer comes back.
    talk = f"exec 3<>/dev/tcp/{server}/6379; echo open; read -r; echo SET heard yes >&3; read -r"
    kubectl = [embedded_cluster.kubectl.program, f"--kubeconfig={embedded_cluster.kubeconfig}"]
    command = [*kubectl, "exec", "-i", "-n", namespace, "caller", "--", "bash", "-c", talk]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdin is not None
        assert caller.stdout is not None
        assert caller.stdout.readline() == "open\n"
        with faults.cut(f"{namespace}/mute", direction="out"):
            assert not answers(server, timeout=1)
            caller.stdin.write("now\n")
            caller.stdin.flush()
            heard = ("get", "heard")
            until(
                lambda: valkey(embedded_cluster, namespace, "mute", *heard) == "yes", "the write arriving", 20
            )
    assert answers(server)


def test_a_pod_cut_from_one_peer_still_talks_to_others(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    server = start(embedded_cluster, namespace, "server", "node1")
    start(embedded_cluster, namespace, "peer", "node2")
    ping = ["exec", "-n", namespace, "peer", "--", "timeout", "2", "valkey-cli", "-h", server, "ping"]
    assert embedded_cluster.kubectl(*ping).strip() == "PONG"
    with faults.cut(f"{namespace}/server", peer=f"{namespace}/peer"):
        assert answers(server)
        with pytest.raises(CommandFailed):
            embedded_cluster.kubectl(*ping)
    assert embedded_cluster.kubectl(*ping).strip() == "PONG"


def test_packet_loss_loses_some_and_heals(embedded_cluster: EmbeddedCluster, faults: Faults) -> None:
    def answered(questions: int, timeout: float) -> int:
        arguments = [embedded_cluster.record.addresses.dns, str(questions), str(timeout)]
        return int(embedded_cluster.run_in("node3", sys.executable, "-c", ASK_DNS, *arguments))

    with faults.lose("node3", 50, direction="in"):
        assert 20 < answered(100, timeout=0.1) < 80
    assert answered(20, timeout=2) == 20


def test_delay_works_or_says_that_the_kernel_cannot(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    address = start(embedded_cluster, namespace, "slow")
    try:
        fault = faults.delay(f"{namespace}/slow", 50)
    except Problem as problem:
        assert "netem" in str(problem)  # noqa: PT017 - either outcome is right, by the kernel
        assert faults.active() == []
    else:
        began = time.monotonic()
        assert answers(address)
        assert time.monotonic() - began > 0.05
        faults.heal(fault)


@pytest.mark.slow  # the control plane takes its time to notice
def test_a_node_cut_wholly_turns_not_ready_while_a_client_on_it_reaches_its_server(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    server = start(embedded_cluster, namespace, "inside", "node2")
    api = embedded_cluster.api
    with faults.cut("node2"):
        until(lambda: "node2" not in ready_nodes(api), "node2 turning NotReady", GRACE, 0.5)
        embedded_cluster.run_in("node2", sys.executable, "-c", PING, server)
        assert not answers(server, timeout=1)
        assert {"node1", "node3"} <= ready_nodes(api)
    until(lambda: "node2" in ready_nodes(api), "node2 coming back", 60, 0.2)
    assert answers(server)
    assert _restarts(embedded_cluster, namespace, "inside") == 0


@pytest.mark.slow  # the control plane takes its time to notice
def test_a_stopped_node_loses_its_pods_processes_and_comes_back(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    apply(embedded_cluster, namespace, stateful_set("powered", 3, "standard"))
    rollout = ["rollout", "status", "-n", namespace, "statefulset/powered", "--timeout=90s"]
    embedded_cluster.kubectl(*rollout)
    placed = {
        item["spec"]["nodeName"]: item["metadata"]["name"]
        for item in get(embedded_cluster, namespace, "pods")["items"]
    }
    pod, api = placed["node3"], embedded_cluster.api
    assert valkey(embedded_cluster, namespace, pod, "set", "k", "kept") == "OK"
    assert valkey(embedded_cluster, namespace, pod, "save") == "OK"
    address = get(embedded_cluster, namespace, "pod", pod)["status"]["podIP"]
    with faults.stop_node("node3"):
        assert not answers(address, timeout=1)
        until(lambda: "node3" not in ready_nodes(api), "node3 turning NotReady", GRACE, 0.5)
    until(lambda: "node3" in ready_nodes(api), "node3 coming back", 60, 0.2)
    until(lambda: _restarts(embedded_cluster, namespace, pod) >= 1, "the restart of its pod", 60, 0.5)
    embedded_cluster.kubectl(*rollout)
    assert valkey(embedded_cluster, namespace, pod, "get", "k") == "kept"


def test_a_stopped_or_frozen_api_server_leaves_servers_alone_and_comes_back(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    address = start(embedded_cluster, namespace, "bystander")
    api = embedded_cluster.api
    with faults.stop("api"):
        assert not api.is_ready()
        assert answers(address)
    assert api.is_ready()
    with faults.freeze("api"), pytest.raises(Unreachable):
        api.get("/api/v1/nodes", timeout=1)
    until(api.is_ready, "an answer of the thawed API server", 30)
    assert _restarts(embedded_cluster, namespace, "bystander") == 0


def test_a_stopped_or_frozen_etcd_keeps_what_was_written(
    embedded_cluster: EmbeddedCluster, faults: Faults, namespace: str
) -> None:
    embedded_cluster.kubectl("create", "configmap", "-n", namespace, "written")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with faults.stop("etcd"), pytest.raises((ApiError, Unreachable)):
        embedded_cluster.api.post(path, {"metadata": {"name": "never"}})
    with faults.freeze("etcd"), pytest.raises(Unreachable):
        embedded_cluster.api.get(path, timeout=1)
    until(embedded_cluster.api.is_ready, "an answer after etcd thawed", 60)
    assert get(embedded_cluster, namespace, "configmap", "written")["metadata"]["name"] == "written"


def test_after_compaction_an_old_watch_is_gone(embedded_cluster: EmbeddedCluster, faults: Faults) -> None:
    api: Api = embedded_cluster.api
    path = "/api/v1/configmaps"
    old = api.get(path)["metadata"]["resourceVersion"]
    embedded_cluster.kubectl("create", "configmap", "moves-the-revision-on")
    embedded_cluster.kubectl("delete", "configmap", "moves-the-revision-on")
    assert _watch_answer(api, path, old) is None
    faults.compact()
    assert _watch_answer(api, path, old) == 410


def _watch_answer(api: Api, path: str, version: str) -> int | None:
    """The error code with which a watch from this revision starts, or None when it is served."""
    for event in api.events(f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=2"):
        return int(event["object"]["code"]) if event["type"] == "ERROR" else None
    return None


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (lambda f: f.cut("default/nobody"), "runs on no node"),
        (lambda f: f.kill("default/nobody"), "no running container"),
        (lambda f: f.cut("Node 1"), "write NAMESPACE/NAME"),
        (lambda f: f.stop_node("node9"), "has no node 'node9'; it has node1, node2, node3"),
        (lambda f: f.stop("scheduler"), "choose one of api, etcd"),
        (lambda f: f.lose("node1", 100), "less than 100 percent"),
        (lambda f: f.cut("node1", direction="sideways"), "a direction is one of both, in, out"),
        (lambda f: f.fill("default/nothing"), "not found"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_and_changes_nothing(
    faults: Faults, order: Callable[[Faults], object], said: str
) -> None:
    with pytest.raises(Problem, match=said):
        order(faults)
    assert faults.active() == []

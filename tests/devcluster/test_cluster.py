"""The cluster is a Kubernetes: pods, zones, DNS, Services, exec, logs, port-forward, drain, audit."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from devcluster import cgroups
from devcluster.audit import AuditLog
from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.command import CommandFailed
from devcluster.dns import resolve
from devcluster.processes import Processes
from devcluster.waiting import until
from tests.devcluster.servers import address, answers, get, run_set, start, stateful_set, valkey


def test_three_servers_spread_over_three_nodes_and_zones(cluster: Cluster, namespace: str) -> None:
    run_set(cluster, namespace, "spread", stateful_set("spread", 3))
    nodes = {item["spec"]["nodeName"] for item in get(cluster, namespace, "pods")["items"]}
    listed = get(cluster, namespace, "nodes")["items"]
    zones = {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for node in listed
        if node["metadata"]["name"] in nodes
    }
    assert len(nodes) == len(zones) == 3


def test_pods_and_services_are_reached_from_host_and_pods(cluster: Cluster, namespace: str) -> None:
    server = start(cluster, namespace, "server")
    start(cluster, namespace, "client")
    cluster.kubectl("expose", "-n", namespace, "pod", "server", "--port=6379", "--type=NodePort")
    service = get(cluster, namespace, "service", "server")["spec"]
    host = get(cluster, namespace, "pod", "client")["status"]["hostIP"]
    port = service["ports"][0]["nodePort"]
    assert answers(server), "the host does not reach the pod"
    until(lambda: answers(service["clusterIP"]), "an answer of the Service to the host", 20)
    until(lambda: answers(host, port), "an answer of the NodePort to the host", 20)
    for name in (f"server.{namespace}.svc.cluster.local", "server", service["clusterIP"], server):
        assert valkey(cluster, namespace, "client", "-h", name, "ping") == "PONG", name


def test_dns_gives_each_pod_of_a_set_a_name(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    run_set(embedded_cluster, namespace, "named", stateful_set("named", 2))
    other = f"named-1.named.{namespace}.svc.cluster.local"
    dns = embedded_cluster.record.addresses.dns
    there = until(lambda: resolve(other, dns), "the name of the pod resolving", 20)
    assert there == address(embedded_cluster, namespace, "named-1")
    assert valkey(embedded_cluster, namespace, "named-0", "-h", other, "ping") == "PONG"


def test_logs_and_port_forward_and_a_failing_exec(cluster: Cluster, namespace: str) -> None:
    start(cluster, namespace, "server")
    assert "Ready to accept connections" in cluster.kubectl("logs", "-n", namespace, "server")
    with pytest.raises(CommandFailed) as failed:
        cluster.kubectl("exec", "-n", namespace, "server", "--", "bash", "-c", "exit 7")
    assert failed.value.code == 7
    command = [cluster.kubectl.program, f"--kubeconfig={cluster.kubeconfig}"]
    forward = [*command, "port-forward", "-n", namespace, "pod/server", ":6379"]
    with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            port = int(forwarding.stdout.readline().split(":")[1].split()[0])
            assert answers("127.0.0.1", port)
        finally:
            forwarding.terminate()


def test_a_pod_cannot_reach_beyond_the_machine(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    start(embedded_cluster, namespace, "server")
    default_routes = [
        embedded_cluster.run_in(place, "ip", "route", "show", "default")
        for place in ("control", *embedded_cluster.node_names)
    ]
    assert default_routes == [""] * len(default_routes)
    with pytest.raises(CommandFailed) as failed:
        embedded_cluster.kubectl(
            "exec", "-n", namespace, "server", "--", "bash", "-c", "echo >/dev/tcp/192.0.2.200/80"
        )
    assert "unreachable" in failed.value.said


def test_drain_moves_a_set_to_other_nodes(cluster: Cluster, namespace: str) -> None:
    run_set(cluster, namespace, "moved", stateful_set("moved", 1))
    before = get(cluster, namespace, "pod", "moved-0")["spec"]["nodeName"]
    options = ["--delete-emptydir-data", "--force", "--timeout=60s", "--pod-selector=app=moved"]
    cluster.kubectl("drain", before, *options)
    try:
        cluster.kubectl("rollout", "status", "-n", namespace, "statefulset/moved", "--timeout=60s")
        assert get(cluster, namespace, "pod", "moved-0")["spec"]["nodeName"] != before
    finally:
        cluster.kubectl("uncordon", before)


def test_the_audit_log_tells_who_wrote_what(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    log: AuditLog = embedded_cluster.audit
    embedded_cluster.kubectl("create", "configmap", "-n", namespace, "seen")

    def ours() -> list[tuple[str, str, str]]:
        seen = [request for request in log.requests() if request.namespace == namespace and request.is_write]
        return [(request.user, request.verb, request.resource) for request in seen]

    expected = ("kubernetes-admin", "create", "configmaps")
    until(lambda: expected in ours(), "the write appearing in the audit log", 20)


def test_a_scheduler_that_ends_by_itself_is_started_again(embedded_cluster: EmbeddedCluster) -> None:
    """As a static pod is: an API server that comes back can confuse it, and then it ends."""

    def scheduler() -> set[int]:
        inside = cgroups.pids(Processes(embedded_cluster.record).cgroup("control/scheduler"))
        return {pid for pid in inside if Path(f"/proc/{pid}/comm").read_text().strip() == "kube-scheduler"}

    [first] = scheduler()
    os.kill(first, signal.SIGTERM)
    until(lambda: bool(scheduler() - {first}), "another scheduler", 20)


def leftovers(cluster: Cluster) -> list[str]:
    """Namespaces that are being deleted, and volumes that nobody claims any more."""
    phases = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.status.phase}{'\\n'}{end}"
    listed = cluster.kubectl("get", "namespaces,persistentvolumes", f"--output={phases}").splitlines()
    return [line for line in listed if line.split()[1] not in ("Active", "Bound")]


def test_the_parts_of_the_ground_write_nothing_when_nothing_happens(
    embedded_cluster: EmbeddedCluster,
) -> None:
    """What later tests of "no write at idle" lean on."""
    until(lambda: not leftovers(embedded_cluster), "the end of what earlier tests have left", 120, 1)
    log = embedded_cluster.audit

    def kubelets_renewed() -> bool:
        return sum(r.user.startswith("system:node:") and r.resource == "leases" for r in log.requests()) >= 6

    until(kubelets_renewed, "some idle time", 60, 1)
    assert [r for r in log.requests() if r.user.startswith("devcluster:") and r.is_write] == []


def test_processes_of_a_pod_are_reaped_when_they_share_a_pid_namespace(
    cluster: Cluster, namespace: str
) -> None:
    """The pause process is everybody's parent there; orphans must not pile up as zombies."""
    shared = stateful_set("shared", 1).replace(
        "    spec:\n", "    spec:\n      shareProcessNamespace: true\n", 1
    )
    run_set(cluster, namespace, "shared", shared)
    orphan = (
        '(sleep 0.1 &) ; sleep 0.5; for s in /proc/[0-9]*/stat; do read -r line <$s && echo "$line"; done'
    )
    processes = cluster.kubectl("exec", "-n", namespace, "shared-0", "--", "bash", "-c", orphan)
    states = [line.rpartition(")")[2].split()[0] for line in processes.splitlines() if ")" in line]
    assert len(states) >= 2
    assert "Z" not in states


def test_address_of_a_pod_lies_in_the_range_of_its_node(
    embedded_cluster: EmbeddedCluster, namespace: str
) -> None:
    start(embedded_cluster, namespace, "server", "node2")
    expected = embedded_cluster.record.addresses.node_pods(2).rpartition(".")[0]
    assert address(embedded_cluster, namespace, "server").startswith(expected + ".")


def test_the_exporter_image_tells_a_servers_metrics(cluster: Cluster, namespace: str) -> None:
    server = start(cluster, namespace, "server")
    run = ["run", "exporter", "--image=valkey-operator/exporter:1", "--restart=Never", "--port=9121"]
    cluster.kubectl(*run, "-n", namespace, "--", f"--redis.addr={server}:6379")
    cluster.kubectl("wait", "-n", namespace, "pod/exporter", "--for=condition=Ready", "--timeout=60s")
    url = f"http://{address(cluster, namespace, 'exporter')}:9121/metrics"

    def page() -> str:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            return ""

    assert "redis_up 1" in until(page, "an answer of the exporter", 20)

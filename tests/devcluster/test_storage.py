"""Volumes have a real size, follow their pods, grow while in use, and go or stay as their class says."""

from __future__ import annotations

import json

import pytest

from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.command import CommandFailed
from devcluster.faults import Faults
from devcluster.storage import REFUSE_GROWTH
from devcluster.waiting import until
from tests.devcluster.servers import get, run_set, stateful_set, valkey


def _run_set(cluster: Cluster, namespace: str, storage_class: str, size: str = "64Mi") -> None:
    run_set(cluster, namespace, "stored", stateful_set("stored", 1, storage_class, size))


def _megabytes(cluster: Cluster, namespace: str) -> int:
    shown = cluster.kubectl("exec", "-n", namespace, "stored-0", "--", "df", "--block-size=1M", "/data")
    return int(shown.splitlines()[1].split()[1])


def _end_set(cluster: Cluster, namespace: str) -> str:
    """Delete the set and its claim; returns the volume's name."""
    volume = get(cluster, namespace, "pvc", "data-stored-0")["spec"]["volumeName"]
    cluster.kubectl("delete", "-n", namespace, "statefulset", "stored", "--timeout=60s")
    cluster.kubectl("wait", "-n", namespace, "pod/stored-0", "--for=delete", "--timeout=60s")
    cluster.kubectl("delete", "-n", namespace, "pvc", "data-stored-0", "--timeout=60s")
    return str(volume)


def test_a_volume_follows_its_pod_to_another_node(cluster: Cluster, namespace: str) -> None:
    _run_set(cluster, namespace, "standard")
    assert valkey(cluster, namespace, "stored-0", "set", "k", "kept") == "OK"
    assert valkey(cluster, namespace, "stored-0", "save") == "OK"
    before = get(cluster, namespace, "pod", "stored-0")["spec"]["nodeName"]
    cluster.kubectl("cordon", before)
    try:
        cluster.kubectl("delete", "pod", "-n", namespace, "stored-0")
        cluster.kubectl("rollout", "status", "-n", namespace, "statefulset/stored", "--timeout=60s")
    finally:
        cluster.kubectl("uncordon", before)
    assert get(cluster, namespace, "pod", "stored-0")["spec"]["nodeName"] != before
    assert valkey(cluster, namespace, "stored-0", "get", "k") == "kept"


def test_a_volume_grows_while_its_server_runs(cluster: Cluster, namespace: str) -> None:
    _run_set(cluster, namespace, "standard", "64Mi")
    small = _megabytes(cluster, namespace)
    patch = json.dumps({"spec": {"resources": {"requests": {"storage": "256Mi"}}}})
    cluster.kubectl("patch", "-n", namespace, "pvc", "data-stored-0", "--patch", patch)
    until(
        lambda: get(cluster, namespace, "pvc", "data-stored-0")["status"]["capacity"]["storage"] == "256Mi",
        "the claim showing its new size", 30, 0.2,
    )  # fmt: skip
    assert small < 64
    assert 200 < _megabytes(cluster, namespace) <= 256
    status = get(cluster, namespace, "pod", "stored-0")["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert not get(cluster, namespace, "pvc", "data-stored-0")["status"].get("conditions")


def test_a_volume_whose_growth_is_refused_says_so_and_grows_later(cluster: Cluster, namespace: str) -> None:
    _run_set(cluster, namespace, "standard", "64Mi")
    cluster.kubectl("annotate", "-n", namespace, "pvc", "data-stored-0", f"{REFUSE_GROWTH}=yes")
    patch = json.dumps({"spec": {"resources": {"requests": {"storage": "96Mi"}}}})
    cluster.kubectl("patch", "-n", namespace, "pvc", "data-stored-0", "--patch", patch)

    def complaints() -> list[str]:
        return [
            event["message"]
            for event in get(cluster, namespace, "events")["items"]
            if event["reason"] == "VolumeFailed"
        ]

    assert "is refused" in until(complaints, "the refusal as an event", 20, 0.2)[0]
    assert get(cluster, namespace, "pvc", "data-stored-0")["status"]["capacity"]["storage"] == "64Mi"
    cluster.kubectl("annotate", "-n", namespace, "pvc", "data-stored-0", f"{REFUSE_GROWTH}-")
    until(
        lambda: get(cluster, namespace, "pvc", "data-stored-0")["status"]["capacity"]["storage"] == "96Mi",
        "the claim showing its new size", 30, 0.2,
    )  # fmt: skip
    assert len(complaints()) == 1


def test_a_pinned_volume_keeps_its_pod_on_its_node_and_refuses_to_grow(
    cluster: Cluster, namespace: str
) -> None:
    _run_set(cluster, namespace, "pinned")
    claim = get(cluster, namespace, "pvc", "data-stored-0")
    volume = get(cluster, namespace, "pv", claim["spec"]["volumeName"])
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    node = get(cluster, namespace, "pod", "stored-0")["spec"]["nodeName"]
    assert terms[0]["matchExpressions"][0]["values"] == [node]
    patch = json.dumps({"spec": {"resources": {"requests": {"storage": "256Mi"}}}})
    with pytest.raises(CommandFailed, match="must support resize"):
        cluster.kubectl("patch", "-n", namespace, "pvc", "data-stored-0", "--patch", patch)


def test_a_deleted_claim_takes_its_volume_along(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    _run_set(embedded_cluster, namespace, "standard")
    volume = _end_set(embedded_cluster, namespace)
    files = embedded_cluster.record.folder / "volumes"
    until(lambda: not list(files.glob(f"{volume}*")), "the removal of the volume's file", 30)
    left = {item["metadata"]["name"] for item in get(embedded_cluster, namespace, "pv")["items"]}
    assert volume not in left


def test_a_retained_volume_outlives_its_claim(embedded_cluster: EmbeddedCluster, namespace: str) -> None:
    _run_set(embedded_cluster, namespace, "retained")
    volume = _end_set(embedded_cluster, namespace)
    until(
        lambda: get(embedded_cluster, namespace, "pv", volume)["status"]["phase"] == "Released",
        "the release of the volume", 30, 0.2,
    )  # fmt: skip
    assert (embedded_cluster.record.folder / "volumes" / f"{volume}.xfs").exists()
    # Asked for now: hand it to the class that deletes, and it goes.
    policy = json.dumps({"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
    embedded_cluster.kubectl("patch", "pv", volume, "--patch", policy)
    until(
        lambda: not (embedded_cluster.record.folder / "volumes" / f"{volume}.xfs").exists(),
        "the removal of the volume's file", 30,
    )  # fmt: skip


def test_a_full_volume_refuses_writes_until_healed(cluster: Cluster, faults: Faults, namespace: str) -> None:
    _run_set(cluster, namespace, "standard")
    valkey(cluster, namespace, "stored-0", "set", "k", "x" * 1000)
    with faults.fill(f"{namespace}/data-stored-0"):
        with pytest.raises(CommandFailed, match="No space left"):
            cluster.kubectl(
                "exec",
                "-n",
                namespace,
                "stored-0",
                "--",
                "dd",
                "if=/dev/zero",
                "of=/data/more",
                "bs=1M",
                "count=1",
            )
        assert "ERR" in valkey(cluster, namespace, "stored-0", "save")
    assert valkey(cluster, namespace, "stored-0", "save") == "OK"


def test_a_server_that_is_not_root_owns_its_volume(cluster: Cluster, namespace: str) -> None:
    _run_set(cluster, namespace, "standard")
    shown = cluster.kubectl("exec", "-n", namespace, "stored-0", "--", "ls", "-ldn", "/data")
    assert shown.split()[3] == "10001"

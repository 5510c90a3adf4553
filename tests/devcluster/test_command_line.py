"""The command as people type it, on the session's cluster; and the provider that takes a cluster as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devcluster import cli, image_build
from devcluster.cluster import EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.existing import ExistingCluster
from devcluster.pause import archive
from devcluster.problem import Problem
from devcluster.progress import Progress
from devcluster.provider import checkout, choose
from devcluster.waiting import until
from tests.devcluster.servers import start


@pytest.fixture
def name(embedded_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DEVCLUSTER_NAME", embedded_cluster.name)
    monkeypatch.setenv("PROVIDER", "embedded")
    return embedded_cluster.name


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(list(arguments)) == 0
    return capsys.readouterr().out


def test_status_shows_places_and_faults(
    name: str, embedded_cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with embedded_cluster.faults.lose("node1", 1):
        shown = printed(capsys, "status")
    lines = shown.splitlines()
    assert lines[0] == f"cluster {name}, Kubernetes {embedded_cluster.record.kubernetes}"
    assert lines[2].split()[:2] == ["control", "up"]
    assert [line.split()[:2] for line in lines[3:6]] == [[f"node{n}", "Ready"] for n in (1, 2, 3)]
    assert lines[-1].strip().endswith("loss node1 direction=both percent=1")
    assert name in printed(capsys, "status", "--all")


def test_up_again_changes_nothing(name: str, embedded_cluster: EmbeddedCluster) -> None:
    before = (embedded_cluster.record, sorted((embedded_cluster.record.folder / "run").iterdir()))
    pids = [file.read_text() for file in before[1]]
    embedded_cluster.up(Wish(), Progress())
    assert [file.read_text() for file in before[1]] == pids
    assert name == embedded_cluster.record.name


def test_images_are_loaded_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name
    assert printed(capsys, "load", "all") == "every node has them already\n"


@pytest.mark.parametrize("version", ["8.0", "8.1", "9.1"])
def test_an_image_is_small_and_carries_the_version_it_says(
    embedded_cluster: EmbeddedCluster, namespace: str, version: str
) -> None:
    image = f"valkey-operator/valkey:{version}"
    assert image_build.recipes(checkout() / "images")[image].archive.stat().st_size < 60e6
    options = [f"--image={image}", "--restart=Never", "--command", "--", "valkey-server", "--version"]
    embedded_cluster.kubectl("run", "-n", namespace, "v", *options)
    embedded_cluster.kubectl(
        "wait", "-n", namespace, "pod/v", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"
    )
    assert f"v={version}." in embedded_cluster.kubectl("logs", "-n", namespace, "v")


def test_kubeconfig_logs_and_shell(
    name: str, embedded_cluster: EmbeddedCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    assert name
    assert cli.run(["kubeconfig"]) == 0
    assert Path(capfd.readouterr().out.strip()).read_text() == embedded_cluster.kubeconfig.read_text()
    assert cli.run(["logs"]) == 0
    listed = capfd.readouterr().out.split()
    assert {"control/apiserver", "node1/kubelet", "control/storage"} <= set(listed)
    assert cli.run(["logs", "control/dns"]) == 0
    assert "CoreDNS" in capfd.readouterr().out
    with pytest.raises(Problem, match="has no log; there are control/"):
        cli.run(["logs", "control/nothing"])
    assert cli.run(["shell", "node1", "--", "ip", "-brief", "address", "show", "dev", "eth0"]) == 0
    assert embedded_cluster.record.addresses.node(1) in capfd.readouterr().out
    assert cli.run(["shell", "--", "kubectl", "get", "nodes", "--no-headers"]) == 0
    assert capfd.readouterr().out.count(" Ready ") == 3
    assert cli.run(["shell", "control", "--", "sh", "-c", 'echo "$1"', "--", "second"]) == 0
    assert capfd.readouterr().out == "second\n"


def test_faults_by_hand(name: str, namespace: str, embedded_cluster: EmbeddedCluster,
                        capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    assert name
    start(embedded_cluster, namespace, "target")
    assert "pause" in printed(capsys, "fault", "pause", f"{namespace}/target")
    assert "cut" in printed(capsys, "fault", "cut", f"{namespace}/target", "--direction", "in")
    listed = printed(capsys, "fault", "list").splitlines()
    assert [line.split()[1] for line in listed] == ["pause", "cut"]
    with pytest.raises(Problem, match="there is no fault f99"):
        cli.run(["fault", "heal", "f99"])
    assert printed(capsys, "fault", "heal").count("healed") == 2
    assert printed(capsys, "fault", "list") == "none\n"


def test_an_existing_cluster_is_used_and_never_ended(
    embedded_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROVIDER", "existing")
    monkeypatch.setenv("KUBECONFIG", str(embedded_cluster.kubeconfig))
    monkeypatch.setenv("PATH", embedded_cluster.binaries.path, prepend=":")
    existing = choose()
    assert isinstance(existing, ExistingCluster)
    existing.up(Wish(), Progress())
    assert existing.is_up
    assert existing.status().count(" Ready ") == 3
    archives = [recipe.archive for recipe in image_build.recipes(checkout() / "images").values()]
    # A kubelet tells twice a minute which images it has.
    until(lambda: not existing.load(archives), "word from the kubelets of their images", 120)
    absent = archive("docker.io/library/absent:1", tmp_path / "absent.tar")
    assert existing.load([absent]) == [
        "docker.io/library/absent:1 is not on node1, node2, node3: push it where they pull from"
    ]
    with pytest.raises(Problem, match="taken as it is"):
        existing.up(Wish(nodes=2), Progress())
    assert not existing.down(Progress())
    assert embedded_cluster.is_up


def test_an_existing_cluster_that_is_not_named_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(Problem, match="needs KUBECONFIG to name"):
        _ = choose("existing").kubeconfig
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")
    with pytest.raises(Problem, match="which is not a file"):
        _ = choose("existing").kubeconfig


def test_the_command_ends_with_a_failure_when_it_failed() -> None:
    done = subprocess.run(
        ["devcluster", "logs", "--provider", "kind"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "devcluster: this works only on the embedded cluster, not with provider kind\n"

"""`kubectl valkey` as people type it, against a real API server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import Cluster
from tests.apiserver.conftest import manifest
from valkey_operator import __version__


@pytest.fixture
def plugin(crds: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """kubectl with the plugin on its PATH and the cluster as its context."""
    folder = Path(crds.kubectl.program).parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(crds.kubeconfig))
    return crds


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", "valkey", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def apply(cluster: Cluster, namespace: str, document: dict[str, object]) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(document))


def test_kubectl_finds_the_plugin(plugin: Cluster) -> None:
    assert plugin.provider
    assert run("version").stdout == f"kubectl-valkey {__version__}, API valkey.io/v1alpha1\n"
    shown = run("--help").stdout
    assert "effective" in shown
    assert "Show the values in force for a deployment, and where each one comes from." in " ".join(
        shown.split()
    )


def test_effective_tells_where_each_value_comes_from(plugin: Cluster, namespace: str) -> None:
    apply(plugin, namespace, manifest("ValkeyClusterDefaults", {"persistence": {"size": "7Gi"}}, "defaults"))
    apply(plugin, namespace, manifest("Valkey", {"replicas": 2, "config": {"timeout": 30}}, "shown"))
    rows = {
        line.split()[0]: line.split()[1:]
        for line in run("effective", "valkey", "shown", "-n", namespace).stdout.splitlines()
    }
    assert rows["FIELD"] == ["VALUE", "FROM"]
    assert rows["replicas"] == ["2", "spec"]
    assert rows["persistence.size"] == ["7Gi", "defaults", "of", namespace]
    assert rows["persistence.reclaimPolicy"] == ["Retain", "built-in"]
    few = run("effective", "valkey", "shown", "-n", namespace, "--set-only").stdout
    assert "built-in" not in few


def test_effective_says_what_only_validation_sees(plugin: Cluster, namespace: str) -> None:
    apply(plugin, namespace, manifest("Valkey", {"config": {"dir": "/elsewhere"}}, "wrong"))
    shown = run("effective", "valkey", "wrong", "-n", namespace).stdout
    assert shown.splitlines()[-1] == "wrong: spec.config.dir: dir is the operator's: data is in /data"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["effective", "valkey", "nobody"], "kubectl valkey: there is no Valkey nobody in this namespace"),
        (
            ["effective", "deployment", "x"],
            "'deployment' is no deployment; choose one of valkeycluster, valkey",
        ),
        (
            ["effective", "valkey", "x", "--context", "gone"],
            "kubectl valkey: the kubeconfig has no context 'gone'; it has: ",
        ),
        (
            ["effective", "valkey", "x", "--kubeconfig", "/nowhere"],
            "kubectl valkey: there is no kubeconfig at /nowhere; set KUBECONFIG or name a file",
        ),
    ],
)
def test_a_wrong_question_gets_one_sentence(plugin: Cluster, arguments: list[str], said: str) -> None:
    assert plugin.provider
    done = run(*arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_context_says_which_namespace_is_meant(plugin: Cluster, namespace: str, tmp_path: Path) -> None:
    apply(plugin, namespace, manifest("Valkey", {"replicas": 2}, "there"))
    file = tmp_path / "config"
    file.write_bytes(plugin.kubeconfig.read_bytes())
    current = plugin.kubectl("config", "current-context").strip()
    change = ["config", "set-context", "other", f"--namespace={namespace}"]
    known = plugin.kubectl("config", "get-contexts", current, "--no-headers").split()
    subprocess.run(
        ["kubectl", "--kubeconfig", file, *change, f"--cluster={known[-2]}", f"--user={known[-1]}"],
        check=True,
    )
    asked = ["effective", "valkey", "there", "--kubeconfig", str(file)]
    assert run(*asked).returncode == 1
    assert "replicas" in run(*asked, "--context", "other").stdout


def test_a_missing_right_is_named(plugin: Cluster, namespace: str, tmp_path: Path) -> None:
    token = plugin.kubectl("create", "token", "default", "-n", namespace).strip()
    content = yaml.safe_load(plugin.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    done = run("effective", "valkey", "x", "-n", namespace, "--kubeconfig", str(tmp_path / "config"))
    assert done.returncode == 1
    assert f'User "system:serviceaccount:{namespace}:default" cannot get resource "valkeys"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_completion_proposes_commands_kinds_and_names(
    plugin: Cluster, namespace: str, tmp_path: Path
) -> None:
    apply(plugin, namespace, manifest("Valkey", {}, "found"))
    script = tmp_path / "kubectl_complete-valkey"
    script.write_text(run("completion").stdout)
    script.chmod(0o755)
    proposals = subprocess.run([script, "effective", "v"], capture_output=True, text=True, check=True).stdout
    assert proposals.splitlines() == ["valkeycluster", "valkey", "valkeypool", "sentinel", ":4"]
    assert subprocess.run([script, ""], capture_output=True, text=True, check=True).stdout.startswith(
        "effective\n"
    )

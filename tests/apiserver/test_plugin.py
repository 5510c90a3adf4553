"""`kubectl valkey` as people type it, against a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import waiting
from devcluster.cluster import Cluster
from tests.apiserver.conftest import manifest
from valkey_operator import __version__
from valkey_operator.api.requests import STOP_RESHARDING, SWITCHOVER, SwitchoverRequest


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
        (
            ["effective", "valkey", "nobody"],
            "kubectl valkey: there is no Valkey nobody in the namespace default",
        ),
        (["status", "nobody"], "there is no Valkey or ValkeyCluster nobody in the namespace default"),
        (["switchover", "nobody"], "there is no Valkey or ValkeyCluster nobody in the namespace default"),
        (["reshard", "nobody"], "kubectl valkey: there is no ValkeyCluster nobody in the namespace default"),
        (["cancel", "nobody"], "kubectl valkey: there is no ValkeyCluster nobody in the namespace default"),
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
        "status\n"
    )


STATUS = {
    "state": "Ready", "message": "all servers are healthy", "observedGeneration": 1, "primary": "demo-0",
    "primaryEpoch": 1, "readyReplicas": 2, "nodes": [{"name": "demo-0", "role": "primary", "ready": True}],
}  # fmt: skip


def report(cluster: Cluster, namespace: str, kind: str, name: str, status: dict[str, Any]) -> None:
    """As the operator would."""
    change = json.dumps({"status": status})
    cluster.kubectl(
        "patch", kind, name, "-n", namespace, "--subresource=status", "--type=merge", "-p", change
    )


@pytest.fixture
def demo(plugin: Cluster, namespace: str, no_operator: None) -> str:  # noqa: ARG001 - it would act
    """The namespace of a Valkey of two servers, with nobody who looks after it."""
    apply(plugin, namespace, manifest("Valkey", {"replicas": 2}, "demo"))
    uid = plugin.kubectl("get", "valkey", "demo", "-n", namespace, "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "name": "demo", "uid": uid}
    for index, role in enumerate(("primary", "replica")):
        node = manifest("ValkeyNode", {"type": "valkey"}, f"demo-{index}")
        node["metadata"] |= {"labels": {"valkey.io/cluster": "demo"}, "ownerReferences": [owner]}
        apply(plugin, namespace, node)
        report(plugin, namespace, "valkeynode", f"demo-{index}", {"ready": True, "observedRole": role})
    report(plugin, namespace, "valkey", "demo", STATUS)
    return namespace


def tell(cluster: Cluster, namespace: str, controller: str, note: str) -> None:
    """An Event."""
    event: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": f"demo.{controller}", "namespace": namespace},
        "eventTime": "2026-11-15T09:00:00.000000Z", "type": "Normal", "reason": "Told", "action": "Tell",
        "regarding": {
            "apiVersion": "valkey.io/v1alpha1", "kind": "Valkey", "name": "demo", "namespace": namespace,
        },
        "note": note, "reportingController": controller, "reportingInstance": "x",
    }  # fmt: skip
    apply(cluster, namespace, event)


def test_status_shows_a_valkey_with_its_nodes_and_events(plugin: Cluster, demo: str) -> None:
    tell(plugin, demo, "valkey-operator", "this is ours")
    tell(plugin, demo, "somebody-else", "this is not")
    done = run("status", "demo", "-n", demo)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Valkey {demo}/demo: Ready\n  all servers are healthy\n")
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith("  demo-")] == [
        ["demo-0", "primary", "yes"],
        ["demo-1", "replica", "yes"],
    ]
    assert "Told demo: this is ours" in done.stdout
    assert "this is not" not in done.stdout
    assert "\x1b" not in done.stdout


def test_status_as_json_and_by_its_exit_code(plugin: Cluster, demo: str) -> None:
    report(plugin, demo, "valkey", "demo", {"state": "Degraded"})
    done = run("status", "demo", "-n", demo, "--output=json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["well"] is False
    assert [node["metadata"]["name"] for node in found["nodes"]] == ["demo-0", "demo-1"]


def test_who_may_not_list_events_sees_the_rest(plugin: Cluster, demo: str, tmp_path: Path) -> None:
    plugin.kubectl(
        "create", "role", "looks", "-n", demo, "--verb=get,list",
        "--resource=valkeys.valkey.io,valkeynodes.valkey.io,valkeycertificatebindings.valkey.io",
    )  # fmt: skip
    plugin.kubectl(
        "create", "rolebinding", "looks", "-n", demo, "--role=looks", f"--serviceaccount={demo}:default"
    )
    content = yaml.safe_load(plugin.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": plugin.kubectl("create", "token", "default", "-n", demo).strip()}
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    done = run("status", "demo", "-n", demo, "--kubeconfig", str(tmp_path / "config"))
    assert done.returncode == 0, done.stderr
    assert "Events are not yours to read." in done.stdout
    refused = run("switchover", "demo", "-n", demo, "--kubeconfig", str(tmp_path / "config"))
    assert refused.returncode == 1
    assert 'cannot patch resource "valkeys"' in refused.stderr


def begin(*arguments: str) -> subprocess.Popen[str]:
    command = ["kubectl", "valkey", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def request(cluster: Cluster, namespace: str) -> SwitchoverRequest | None:
    found = json.loads(cluster.kubectl("get", "valkey", "demo", "-n", namespace, "--output=json"))
    return SwitchoverRequest.read(found["metadata"].get("annotations", {}).get(SWITCHOVER, ""))


def asked(cluster: Cluster, namespace: str) -> SwitchoverRequest:
    """The request, as soon as it is there."""
    found = waiting.until(lambda: request(cluster, namespace), "a request", 30)
    assert isinstance(found, SwitchoverRequest)
    return found


def test_switchover_waits_for_the_operators_answer(plugin: Cluster, demo: str) -> None:
    waits = begin("switchover", "demo", "--to=demo-1", "-n", demo)
    seen = asked(plugin, demo)
    assert seen.to == "demo-1"
    answer: dict[str, Any] = {"id": seen.id, "result": "UnderWay"}
    step = {"kind": "Switchover", "step": "writes are paused"}
    report(plugin, demo, "valkey", "demo", {"lastSwitchover": answer, "operation": step})
    change = {
        "at": "2026-11-15T09:00:00Z", "from": "demo-0", "to": "demo-1", "planned": True,
        "reason": "Switchover", "epoch": 2, "writePauseMs": 212,
    }  # fmt: skip
    answer |= {"result": "Done", "epoch": 2}
    report(
        plugin, demo, "valkey", "demo",
        {"lastSwitchover": answer, "operation": None, "primary": "demo-1", "lastFailover": change},
    )  # fmt: skip
    said, told = waits.communicate(timeout=30)
    assert waits.returncode == 0, told
    assert said == "demo-1 is the primary now, epoch 2; writes were paused for 212 ms\n"
    assert told == "writes are paused\n"
    again = run("switchover", "demo", "--to=demo-1", "-n", demo)
    assert (again.returncode, again.stdout) == (0, "demo-1 is the primary already\n")


def test_a_refused_switchover_names_the_guard(plugin: Cluster, demo: str) -> None:
    waits = begin("switchover", "demo", "-n", demo)
    seen = asked(plugin, demo)
    assert seen.to == ""
    answer = {"id": seen.id, "result": "Refused", "message": "replica_is_caught_up: demo-1 is 12 MB behind"}
    report(plugin, demo, "valkey", "demo", {"lastSwitchover": answer})
    _, told = waits.communicate(timeout=30)
    assert waits.returncode == 1
    assert told == (
        "kubectl valkey: refused, nothing was changed: replica_is_caught_up: demo-1 is 12 MB behind\n"
    )


def test_a_switchover_that_nobody_takes_up_is_withdrawn(plugin: Cluster, demo: str) -> None:
    done = run("switchover", "demo", "-n", demo, "--timeout=1")
    assert done.returncode == 1
    assert done.stderr == ("kubectl valkey: no operator has answered within 1 s; the request was withdrawn\n")
    assert request(plugin, demo) is None


def test_a_switchover_that_takes_long_is_said_to_be_under_way(plugin: Cluster, demo: str) -> None:
    waits = begin("switchover", "demo", "-n", demo, "--timeout=3")
    answer = {"id": asked(plugin, demo).id, "result": "UnderWay"}
    report(plugin, demo, "valkey", "demo", {"lastSwitchover": answer})
    _, told = waits.communicate(timeout=30)
    assert waits.returncode == 1
    assert told.startswith("kubectl valkey: the switchover is still under way after 3 s; ")


def test_a_switchover_is_withdrawn_by_who_interrupts_it(plugin: Cluster, demo: str) -> None:
    waits = begin("switchover", "demo", "-n", demo)
    asked(plugin, demo)
    waits.send_signal(signal.SIGINT)
    waits.communicate(timeout=30)
    assert waits.returncode == 130
    assert request(plugin, demo) is None


EVEN = ("0-5461", "5462-10922", "10923-16383")
STOPPED = {"action": "move slots", "refusedBy": "a_person_stopped_it", "why": "a person has stopped it"}


def shards(*slots: str) -> list[dict[str, Any]]:
    return [
        {"shardIndex": index, "primary": f"grid-{index}-0", "slots": owned, "ready": True}
        for index, owned in enumerate(slots)
    ]


@pytest.fixture
def grid(plugin: Cluster, namespace: str, no_operator: None) -> str:  # noqa: ARG001 - it would act
    """The namespace of a ValkeyCluster of three shards of two, with nobody who looks after it."""
    apply(plugin, namespace, manifest("ValkeyCluster", {"shards": 3, "replicas": 2}, "grid"))
    uid = plugin.kubectl("get", "valkeycluster", "grid", "-n", namespace, "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "name": "grid", "uid": uid}
    node = manifest("ValkeyNode", {"type": "valkey"}, "grid-1-1")
    node["metadata"] |= {"labels": {"valkey.io/cluster": "grid"}, "ownerReferences": [owner]}
    apply(plugin, namespace, node)
    status = {"state": "Ready", "observedGeneration": 1, "formed": True, "shards": shards(*EVEN)}
    report(plugin, namespace, "valkeycluster", "grid", status)
    return namespace


def of_grid(cluster: Cluster, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        cluster.kubectl("get", "valkeycluster", "grid", "-n", namespace, "--output=json")
    )
    return found


def stop_of(cluster: Cluster, namespace: str) -> str:
    found: dict[str, str] = of_grid(cluster, namespace)["metadata"].get("annotations", {})
    return found.get(STOP_RESHARDING, "")


def test_a_planned_resharding_is_shown_and_changes_nothing(plugin: Cluster, grid: str) -> None:
    before = of_grid(plugin, grid)
    done = run("reshard", "grid", "--plan", "--shards=4", "-n", grid)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "4096 slots move; nothing was changed."
    found = json.loads(run("reshard", "grid", "--plan", "--shards=4", "-n", grid, "-o", "json").stdout)
    assert [(each["from"], each["to"]) for each in found["moves"]] == [(0, 3), (1, 3), (2, 3)]
    for words, said in (
        (["--shards=2"], "spec.shards: Input should be greater than or equal to 3"),
        ([], "grid asks for 3 shards already, and nothing was stopped"),
    ):
        refused = run("reshard", "grid", *words, "-n", grid)
        assert (refused.returncode, refused.stderr) == (1, f"kubectl valkey: {said}\n")
    assert of_grid(plugin, grid) == before


def test_a_resharding_is_stopped_and_goes_on(plugin: Cluster, grid: str) -> None:
    nothing = run("cancel", "grid", "-n", grid)
    assert (nothing.returncode, nothing.stderr) == (
        1,
        "kubectl valkey: grid moves no slots; nothing was changed\n",
    )
    assert run("reshard", "grid", "--shards=4", "-n", grid).returncode == 0
    assert of_grid(plugin, grid)["spec"]["shards"] == 4
    operation = {"kind": "Scaling", "step": "4096 slots are still to move", "done": 0, "total": 4096}
    report(plugin, grid, "valkeycluster", "grid", {"operation": operation})
    late = run("cancel", "grid", "-n", grid, "--timeout=1")
    assert late.returncode == 1
    assert "no operator has said within 1 s that it has stopped; the request stands" in late.stderr
    waits = begin("cancel", "grid", "-n", grid)
    waiting.until(lambda: stop_of(plugin, grid), "a request", 30)
    assert stop_of(plugin, grid) == "4"
    part = shards("0-4095", *EVEN[1:], "4096-5461")
    report(plugin, grid, "valkeycluster", "grid", {"operation": None, "next": [STOPPED], "shards": part})
    said, told = waits.communicate(timeout=30)
    assert (waits.returncode, said) == (
        0,
        "stopped, 2730 slots have not moved; "
        "`kubectl valkey reshard grid` goes on, with --shards N to another number\n",
    ), told
    on = run("reshard", "grid", "-n", grid)
    assert on.stdout.startswith("the operator was asked for 4 shards, 2730 slots are to move; ")
    assert stop_of(plugin, grid) == ""


def test_a_switchover_in_a_shard_names_its_node(plugin: Cluster, grid: str) -> None:
    unnamed = run("switchover", "grid", "-n", grid)
    assert unnamed.stderr == (
        "kubectl valkey: grid has a primary in each shard: name the new one with --to\n"
    )
    assert (
        "grid has no node grid-1-7; it has: grid-1-1"
        in run("switchover", "grid", "--to=grid-1-7", "-n", grid).stderr
    )
    assert SWITCHOVER not in of_grid(plugin, grid)["metadata"].get("annotations", {})
    waits = begin("switchover", "grid", "--to=grid-1-1", "-n", grid)

    def request() -> SwitchoverRequest | None:
        found = of_grid(plugin, grid)["metadata"].get("annotations", {})
        return SwitchoverRequest.read(found.get(SWITCHOVER, ""))

    seen = waiting.until(request, "a request", 30)
    assert isinstance(seen, SwitchoverRequest)
    answer = {"id": seen.id, "result": "Done", "message": "grid-1-1 is primary"}
    report(plugin, grid, "valkeycluster", "grid", {"lastSwitchover": answer})
    said, told = waits.communicate(timeout=30)
    assert (waits.returncode, said) == (0, "grid-1-1 is the primary of shard 1 now\n"), told


def test_watch_shows_every_change_until_it_is_gone(plugin: Cluster, demo: str) -> None:
    watches = begin("status", "demo", "-n", demo, "--watch")
    assert watches.stdout
    assert watches.stdout.readline() == f"Valkey {demo}/demo: Ready\n"
    report(plugin, demo, "valkey", "demo", {"state": "Degraded"})
    plugin.kubectl("delete", "valkey", "demo", "-n", demo)
    said, told = watches.communicate(timeout=30)
    assert f"Valkey {demo}/demo: Degraded\n" in said, told
    assert said.endswith("Valkey demo is gone\n")
    assert watches.returncode == 1

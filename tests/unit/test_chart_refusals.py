"""No second operator for the same namespaces, whoever installed the first one.

Helm looks that up on a cluster only. Here an API server that knows nothing but ClusterRoleBindings stands in for one;
`tests/e2e/test_installation.py` shows the same with a real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
import yaml

from devcluster import helm
from devcluster.command import CommandFailed, run
from devcluster.progress import Progress
from tools import chart

KINDS = {
    "rbac.authorization.k8s.io": "ClusterRoleBinding",
    "apiextensions.k8s.io": "CustomResourceDefinition",
}
HELMS = {
    "meta.helm.sh/release-name": "valkey-operator",
    "meta.helm.sh/release-namespace": chart.NAMESPACE,
}
Found = dict[str, Any]


def bindings(namespaces: list[str], *, helms: bool) -> list[Found]:
    """Those of an operator in valkey-system, as the chart renders them; Helm adds whose release it is."""
    made = yaml.safe_load_all(
        chart.rendered({"crds": {"install": False}, "watch": {"namespaces": namespaces}})
    )
    found = [each for each in made if each and each["kind"] == "ClusterRoleBinding"]
    for each in found if helms else []:
        each["metadata"].setdefault("annotations", {}).update(HELMS)
    return found


@contextmanager
def a_cluster_with(objects: list[Found]) -> Iterator[str]:
    groups = [
        {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"}}
        for group in KINDS
    ]  # fmt: skip
    answers: dict[str, Found] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for group, kind in KINDS.items():
        base, name = f"/apis/{group}/v1", f"{kind.lower()}s"
        resources = [{"name": name, "kind": kind, "namespaced": False, "verbs": ["get", "list"]}]
        answers[base] = {"kind": "APIResourceList", "groupVersion": f"{group}/v1", "resources": resources}
        items = [each for each in objects if each["kind"] == kind]
        answers[f"{base}/{name}"] = {"kind": f"{kind}List", "apiVersion": f"{group}/v1", "items": items}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = json.dumps(found or {"kind": "Status", "status": "Failure", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def installed(address: str, place: str, wanted: list[str]) -> str:
    given = f"--set-json=watch.namespaces={json.dumps(wanted)}"
    return run(
        helm.program(Progress()), "template", "second", chart.CHART, "--dry-run=server", given,
        f"--kube-apiserver={address}", f"--namespace={place}", f"--kube-version={chart.KUBERNETES}",
    )  # fmt: skip


@pytest.mark.parametrize("helms", [True, False])
@pytest.mark.parametrize(
    ("theirs", "wanted"), [([], []), ([], ["team-a"]), (["team-a"], []), (["team-a", "b"], ["c", "team-a"])]
)
def test_a_second_operator_for_the_same_namespaces_is_refused(
    theirs: list[str], wanted: list[str], *, helms: bool
) -> None:
    with a_cluster_with(bindings(theirs, helms=helms)) as address, pytest.raises(CommandFailed) as refused:
        installed(address, "elsewhere", wanted)
    whose = f"the operator in namespace {chart.NAMESPACE} looks after {','.join(theirs) or 'all namespaces'},"
    assert whose in " ".join(refused.value.said.split())


@pytest.mark.parametrize("wanted", [[], ["team-a"]])
def test_another_operator_that_is_merely_called_the_same_is_no_second_one(wanted: list[str]) -> None:
    theirs = bindings([], helms=True)
    for each in theirs:
        del each["metadata"]["annotations"]["valkey.io/namespaces"]
        each["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = "theirs"
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "valkey-operator"
    with a_cluster_with(theirs) as address:
        assert "kind: Deployment" in installed(address, "elsewhere", wanted)


@pytest.mark.parametrize("helms", [True, False])
def test_operators_with_namespaces_of_their_own_share_a_cluster(*, helms: bool) -> None:
    with a_cluster_with(bindings(["team-a"], helms=helms)) as address:
        assert "kind: Deployment" in installed(address, "elsewhere", ["team-b"])


@pytest.mark.parametrize("helms", [True, False])
def test_an_operator_is_upgraded_and_taken_over_at_its_own_place(*, helms: bool) -> None:
    with a_cluster_with(bindings([], helms=helms)) as address:
        assert "kind: Deployment" in installed(address, chart.NAMESPACE, [])

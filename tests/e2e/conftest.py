"""The operator in the cluster, as its chart installs it; and a way to see what it does.

`SCOPE=some` gives it rights in its own and the test's namespace only, else it has them in all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

import pytest

from devcluster import helm
from devcluster.api import Api, ApiError, Unreachable
from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.command import CommandFailed
from devcluster.helm import Helm
from devcluster.progress import Progress
from devcluster.provider import checkout
from devcluster.waiting import until
from tools import rights as noted

PLACE = "valkey-system"
CHART = checkout() / "charts" / "valkey-operator"
RELEASE = ("valkey-operator", "--namespace", PLACE)
# The CRDs may be there without Helm's knowledge, from another test: then it must be told to take them.
INSTALL = ("upgrade", "--install", *RELEASE, CHART, "--set=image.tag=dev,image.pullPolicy=Never")
# Where the API server has them.
ASKED_OFTEN = {
    "pod": "api/v1",
    "valkey": "apis/valkey.io/v1alpha1",
    "valkeycluster": "apis/valkey.io/v1alpha1",
    "valkeynode": "apis/valkey.io/v1alpha1",
}
SCOPE = os.environ.get("SCOPE", "all")
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


def charts_of(cluster: Cluster) -> Helm:
    return Helm(helm.program(Progress()), cluster.kubeconfig)


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Iterator[Cluster]:
    """Two replicas of what this checkout holds; one that was installed before is brought to that, and stays."""
    charts = charts_of(cluster)
    existed = RELEASE[0] in charts("list", "--namespace", PLACE, "--short").split()
    charts(*INSTALL, "--create-namespace", "--take-ownership")
    cluster.kubectl("label", "namespace", PLACE, RESTRICTED, "--overwrite")
    # The tag stays the same while we work: pods of an older image would not be replaced by the upgrade.
    cluster.kubectl("rollout", "restart", "deployment/valkey-operator", "--namespace", PLACE)
    cluster.kubectl("rollout", "status", "deployment/valkey-operator", "--namespace", PLACE, "--timeout=120s")
    yield cluster
    if not existed:
        charts("uninstall", *RELEASE, "--wait")


def by_name(containers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of a pod, or how they are."""
    return {each["name"]: each for each in containers}


class Place:
    """A namespace with Pod Security at its strictest, and what a test does there."""

    # Set where the API server is restarted beside the test: then who is not answered asks again.
    api_restarts = False

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def kubectl(self, *arguments: str, timeout: float = 120) -> str:
        words = ("--namespace", self.namespace, *arguments)
        try:
            return self.cluster.kubectl(*words, timeout=timeout)
        except CommandFailed:
            if not self.api_restarts:
                raise
            until(self._api.is_ready, "the return of the API server", 60)
            return self.cluster.kubectl(*words, timeout=timeout)

    def command(self, *arguments: str) -> list[str]:
        """kubectl for this namespace, to be run beside the test."""
        kubectl = self.cluster.kubectl
        return [
            kubectl.program,
            f"--kubeconfig={kubectl.kubeconfig}",
            "--namespace",
            self.namespace,
            *arguments,
        ]

    def apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        head = {"apiVersion": "valkey.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
        self.cluster.kubectl(
            "--namespace", self.namespace, "apply", "-f", "-", stdin=json.dumps({**head, "spec": spec})
        )

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Asked again and again by many tests: a kubectl for each would take time from what is tested."""
        if kind in ASKED_OFTEN and isinstance(self.cluster, EmbeddedCluster):
            with suppress(ApiError, Unreachable):  # then kubectl says what is wrong
                return self._api.get(f"/{ASKED_OFTEN[kind]}/namespaces/{self.namespace}/{kind}s/{name}")
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    @cached_property
    def _api(self) -> Api:
        return Api(self.cluster.kubeconfig)

    def is_ready(self, name: str, patience: float = 60) -> float:
        """Waits until a Valkey says it is ready; the seconds."""
        begun = time.monotonic()
        self.kubectl(
            "wait", "--for=jsonpath={.status.state}=Ready", f"valkey/{name}", f"--timeout={patience:.0f}s"
        )
        return time.monotonic() - begun

    def valkey(self, pod: str, *words: str) -> str:
        """Ask the server in a pod."""
        return self.kubectl("exec", pod, "--container=valkey", "--", "valkey-cli", *words).strip()

    def in_sidecar(self, pod: str, *words: str) -> str:
        return self.kubectl("exec", pod, "--container=sidecar", "--", *words).strip()

    def is_at_the_gate(self, pod: str) -> bool:
        """The server has ended, and its entry point waits to be let in."""
        look = 'read -r pid </run/valkey/pid; read -r name </proc/$pid/comm; echo "$name"'
        return self.kubectl("exec", pod, "--container=valkey", "--", "/bin/sh", "-c", look).strip() == "sh"

    def has_restarted(self, pod: str) -> bool:
        """Whether the server's container runs again after it has ended once."""
        status = by_name(self.get("pod", pod)["status"]["containerStatuses"])["valkey"]
        return status["restartCount"] == 1 and "running" in status["state"]

    def eventually(self, claim: Callable[[], bool], patience: float = 60) -> None:
        ends = time.monotonic() + patience
        while not claim():
            assert time.monotonic() < ends, f"not true within {patience} s"
            time.sleep(0.1)


@pytest.fixture(autouse=True)
def rights(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[None]:
    """Notes which rights the operator uses in a test, for `tools.rights`; it lacks none, unless they are taken away."""
    if not isinstance(cluster, EmbeddedCluster):  # nobody else shows us its audit log
        yield
        return
    own = request.getfixturevalue("namespace") if "namespace" in request.fixturenames else ""
    log = cluster.audit
    yield
    ours = [each for each in log.requests() if each.user == f"system:serviceaccount:{PLACE}:valkey-operator"]
    noted.note(ours, request.node.nodeid)
    lacking = [each for each in ours if each.is_refused]
    if SCOPE == "some":  # the test before has taken its namespace away, and with it the rights there
        lacking = [each for each in lacking if each.namespace in ("", PLACE, own)]
    used = (request.node.funcargs or {}).get("place")  # none after an interrupt
    # An API server that has just started refuses until it has read who may do what.
    is_excused = isinstance(used, Place) and used.api_restarts
    assert lacking == [] or is_excused or "charts" in request.fixturenames


@pytest.fixture
def place(operator: Cluster, namespace: str) -> Place:
    operator.kubectl("label", "namespace", namespace, RESTRICTED)
    if SCOPE == "some":
        watched = f"--set-json=watch.namespaces={json.dumps([namespace])}"
        charts_of(operator)(*INSTALL, watched, "--wait", "--timeout=120s")
    return Place(operator, namespace)

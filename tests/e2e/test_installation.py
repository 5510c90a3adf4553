"""The chart in both scopes: installed, upgraded, rolled back, uninstalled and installed again below a server at work.

There is one operator per namespace. So the session's own release is used, brought into the wanted scope and put back in
the end; what runs elsewhere on the cluster is not looked after meanwhile.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.command import CommandFailed
from devcluster.fixtures import own_namespace
from devcluster.helm import Helm
from devcluster.provider import checkout
from tests.e2e.conftest import CHART, INSTALL, PLACE, RELEASE, Place, charts_of
from tests.e2e.test_away import a_client_writes_all_the_time
from tests.e2e.test_one_node import POD, SPEC
from valkey_operator.api.group import GROUP
from valkey_operator.api.kinds import KINDS

CRD = "valkeys.valkey.io"
OLDER = "As an older version said it."
# One operator, so that each step takes the time of one pod.
FAST = ("--wait", "--timeout=180s", "--set=replicas=1")
# Above it nobody can install: the API server takes no larger Secret. Helm keeps a release in one.
LARGEST_SECRET = 1024 * 1024


@pytest.fixture(scope="module")
def charts(operator: Cluster) -> Iterator[Helm]:
    made = charts_of(operator)
    yield made
    made(*INSTALL, "--take-ownership", "--reset-values", "--wait")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart as an older version could have been: with another CRD."""
    chart = tmp_path / "valkey-operator"
    shutil.copytree(CHART, chart)
    file = chart / "files" / "crds" / "valkeys.yaml"
    before, mark, after = file.read_text().partition(
        "openAPIV3Schema:\n          type: object\n          description: "
    )
    assert mark
    file.write_text(f"{before}{mark}{OLDER}\n{after[after.index('          required:') :]}")
    return chart


class Survivor:
    """What of a server must not change, whatever happens to its operator."""

    def __init__(self, place: Place) -> None:
        self._place = place
        assert place.valkey(POD, "SET", "survivor", "1") == "OK"
        self._before = self._state()

    def _state(self) -> tuple[Any, ...]:
        pod = self._place.get("pod", POD)
        statuses = pod["status"]["containerStatuses"]
        restarts = {each["name"]: each["restartCount"] for each in statuses}
        return pod["metadata"]["uid"], restarts, self._place.valkey(POD, "GET", "survivor")

    def is_as_it_was(self) -> None:
        assert self._state() == self._before


def description(place: Place) -> str:
    (version,) = json.loads(place.kubectl("get", "crd", CRD, "--output=json"))["spec"]["versions"]
    return str(version["schema"]["openAPIV3Schema"]["description"])


def release_sizes(place: Place) -> list[int]:
    found = json.loads(
        place.cluster.kubectl(
            "get", "secrets", "--namespace", PLACE, "--selector=owner=helm", "--output=json"
        )
    )
    return [len(base64.b64decode(each["data"]["release"])) for each in found["items"]]


def operators(place: Place) -> str:
    selector = "--selector=app.kubernetes.io/name=valkey-operator"
    return place.cluster.kubectl("get", "pods", "--namespace", PLACE, selector, "--output=name")


def takes_up(place: Place) -> None:
    """A change of the spec reaches the running server."""
    policy = (
        "allkeys-lfu"
        if "allkeys-lfu" not in place.valkey(POD, "CONFIG", "GET", "maxmemory-policy")
        else "noeviction"
    )
    patch = json.dumps({"spec": {"config": {"maxmemory-policy": policy}}})
    place.kubectl("patch", "valkey", "one", "--type=merge", f"--patch={patch}")
    place.eventually(lambda: policy in place.valkey(POD, "CONFIG", "GET", "maxmemory-policy"), 30)


@pytest.fixture
def elsewhere(place: Place) -> Iterator[Place]:
    """A second namespace, which the operator may look after or not."""
    with own_namespace(place.cluster) as name:
        yield Place(place.cluster, name)


@pytest.mark.parametrize("scope", ["all", "some"])
def test_a_server_survives_install_upgrade_rollback_and_uninstall(
    place: Place, elsewhere: Place, charts: Helm, older: Path, scope: str
) -> None:
    watched = [place.namespace] if scope == "some" else []
    setting = (*FAST, f"--set-json=watch.namespaces={json.dumps(watched)}")
    with_older = tuple(older if each == CHART else each for each in INSTALL)
    charts(*with_older, *setting, "--take-ownership")
    assert description(place) == OLDER
    elsewhere.apply("Valkey", "one", SPEC)
    with a_client_writes_all_the_time(place):
        survivor = Survivor(place)
        assert ("status" in elsewhere.get("valkey", "one")) is (scope == "all")
        no_second_operator(charts, elsewhere.namespace, watched)
        charts(*INSTALL, *setting, "--set=logLevel=debug")
        survivor.is_as_it_was()
        assert description(place) != OLDER
        charts("rollback", *RELEASE, "--wait", "--timeout=180s")
        survivor.is_as_it_was()
        assert description(place) == OLDER
        assert max(release_sizes(place)) < LARGEST_SECRET * 0.6
        charts("uninstall", *RELEASE, "--wait", "--cascade=foreground", "--timeout=180s")
        assert operators(place) == ""
        place.kubectl("get", "crd", *(f"{kind.plural_name}.{GROUP}" for kind in KINDS))
        assert place.get("valkey", "one")["status"]["state"] == "Ready"
        survivor.is_as_it_was()
        made_at_the_first_start = ("lease/valkey-operator", "valkeyca/valkey-root-ca")
        Place(place.cluster, PLACE).kubectl("delete", *made_at_the_first_start)
        # Not told to take anything: the CRDs are still this release's.
        charts("install", *INSTALL[2:], *setting)
        assert description(place) != OLDER
        takes_up(place)
        charts("test", *RELEASE)
        survivor.is_as_it_was()
    said = Place(place.cluster, PLACE).kubectl("logs", "deployment/valkey-operator")
    assert "leads" in said
    assert "forbidden: User" not in said


def test_plain_manifests_do_without_helm_and_helm_sees_them(
    place: Place, elsewhere: Place, charts: Helm
) -> None:
    charts("uninstall", *RELEASE, "--wait", "--cascade=foreground", "--timeout=180s")
    released = (checkout() / "deploy" / "install.yaml").read_text()
    ours = re.sub(r"(valkey-operator/operator):[^\s\"]+", r"\1:dev", released).replace(
        "IfNotPresent", "Never"
    )
    place.cluster.kubectl("apply", "--server-side", "--filename=-", stdin=ours)
    try:
        rollout = ("rollout", "status", "deployment/valkey-operator", "--namespace", PLACE, "--timeout=120s")
        place.cluster.kubectl(*rollout, timeout=130)
        no_second_operator(charts, elsewhere.namespace, [])
        place.apply("Valkey", "one", SPEC)
        place.is_ready("one")
    finally:
        place.cluster.kubectl("delete", "--filename=-", "--cascade=foreground", stdin=ours)
    place.cluster.kubectl("get", "crd", CRD)
    assert place.get("valkey", "one")["status"]["state"] == "Ready"


def no_second_operator(charts: Helm, namespace: str, watched: list[str]) -> None:
    """None for all namespaces, and none for some of which one is looked after already; not even by taking it."""
    for wanted in ([], [namespace, *watched]):
        given = f"--set-json=watch.namespaces={json.dumps(wanted)}"
        with pytest.raises(CommandFailed) as refused:
            charts("install", "second", CHART, "--namespace", namespace, given, "--take-ownership")
        theirs = ",".join(watched) or "all namespaces"
        assert f"the operator in namespace {PLACE} looks after {theirs}, and two must not" in " ".join(
            refused.value.said.split()
        )

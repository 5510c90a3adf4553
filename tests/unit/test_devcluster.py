"""The pure parts of devcluster: addresses, names, quantities, progress, what a go.mod pins."""

from __future__ import annotations

import io
import ipaddress
import itertools
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster import cgroups, machine, places
from devcluster.addresses import CLUSTERS, MOST_NODES, RANGE, AddressPlan
from devcluster.audit import AuditLog, Request
from devcluster.binaries import SOURCES, kubernetes_minors, sets_for
from devcluster.binaries import _link_flags as link_flags
from devcluster.binaries import _programs as programs
from devcluster.binaries import _version as version
from devcluster.places import NAME, default_name
from devcluster.pods import PodName
from devcluster.problem import Problem
from devcluster.processes import last_words
from devcluster.progress import Meter, Progress
from devcluster.quantity import parse_bytes
from devcluster.report import table


def _networks(plan: AddressPlan) -> list[ipaddress.IPv4Network]:
    switch = ipaddress.IPv4Network(f"{plan.host}/24", strict=False)
    pods = [ipaddress.IPv4Network(plan.node_pods(number)) for number in range(1, MOST_NODES + 1)]
    return [switch, ipaddress.IPv4Network(plan.services), *pods]


def test_no_two_networks_of_any_two_clusters_overlap() -> None:
    networks = [network for index in range(CLUSTERS) for network in _networks(AddressPlan(index))]
    assert all(RANGE.supernet_of(network) for network in networks)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(networks, 2))


@given(st.integers(0, CLUSTERS - 1), st.integers(1, MOST_NODES))
def test_a_plan_keeps_within_its_own_range(index: int, node: int) -> None:
    plan = AddressPlan(index)
    fixed = [plan.host, plan.api, plan.dns, plan.exchange, plan.node(node)]
    assert len(set(fixed)) == len(fixed)
    assert all(ipaddress.IPv4Address(address) in plan.whole for address in [*fixed, plan.first_service])
    assert ipaddress.IPv4Network(plan.pods).supernet_of(ipaddress.IPv4Network(plan.node_pods(node)))


@given(st.text(min_size=1).filter(lambda text: "/" not in text and "\0" not in text))
def test_every_checkout_has_a_lawful_name(folder: str) -> None:
    assert NAME.fullmatch(default_name(Path("/somewhere") / folder))


def test_two_checkouts_have_two_names() -> None:
    assert default_name(Path("/a/project")) != default_name(Path("/b/project"))
    assert default_name(Path("/a/project")).startswith("project-")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("64Mi", 64 << 20), ("1.5Gi", 3 << 29), ("10G", 10**10), ("1e3", 1000), ("1500m", 2)],
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1Gi", "1gi", "1 Gi", "0x10"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="is not a quantity of storage such as 512Mi or 10Gi"):
        parse_bytes(text)


def test_pods_are_named_with_or_without_a_namespace() -> None:
    assert str(PodName.parse("team/server-0")) == "team/server-0"
    assert str(PodName.parse("server-0")) == "default/server-0"


def test_every_pinned_set_names_its_programs_and_version() -> None:
    for folder in SOURCES.iterdir():
        assert version(folder).startswith("v")
        assert (folder / "go.sum").stat().st_size > 0
        assert programs(folder)
    assert {"kubectl", "kubelet"} <= {
        name.rsplit("/", 1)[1] for name in programs(SOURCES / "kubernetes-1.35")
    }
    assert kubernetes_minors() == ["1.34", "1.35"]


def test_kubernetes_is_built_to_say_its_own_version() -> None:
    flags = link_flags("kubernetes-1.35", "v1.35.4")
    assert "-X k8s.io/component-base/version.gitVersion=v1.35.4" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=35" in flags
    assert link_flags("etcd", "v3.6.16") == "-s -w"


def test_metrics_server_is_built_only_when_asked_for() -> None:
    assert "metrics-server" not in sets_for("1.35")
    assert "metrics-server" in sets_for("1.35", metrics=True)


def test_a_long_step_says_how_far_it_is_and_how_long_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, 20.0)
    monkeypatch.setattr("devcluster.progress.time.monotonic", lambda: next(clock))
    out = io.StringIO()
    meter = Meter(Progress(out), out, "building things", 200)
    meter.show(100)
    meter.close()
    first, last = out.getvalue().splitlines()
    assert first.endswith("building things: 50 % (100 of 200), about 20.0 s left")
    assert "building things: done in" in last


APT = """#!/bin/sh
mkdir "$APT/lock" 2>/dev/null || exit 100
echo "$*" >>"$APT/said"
sleep 0.2
case "$*" in *install*) printf '#!/bin/sh\n' >"$APT/wanted" && chmod +x "$APT/wanted" ;; esac
rmdir "$APT/lock"
"""


def test_two_who_miss_the_same_program_install_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two workers of the tests do on a machine that has nothing: apt does not wait for another apt."""
    (tmp_path / "apt-get").write_text(APT)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("APT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(places, "LOCKS", tmp_path / "locks")
    with ThreadPoolExecutor(2) as both:
        for _ in both.map(lambda _: machine.install({"wanted": "wanted"}, Progress()), range(2)):
            pass
    said = (tmp_path / "said").read_text().splitlines()
    assert said == ["-q update", "-q install -y --no-install-recommends wanted"]


def test_a_table_lines_up() -> None:
    assert table([("NAME", "STATE"), ("long-name", "up")]) == "NAME       STATE\nlong-name  up"


def test_a_mark_in_the_middle_of_a_line_of_the_audit_log_skips_that_line(tmp_path: Path) -> None:
    """The API server writes in batches, and a file may be looked at while half a line is there."""

    def line(name: str) -> str:
        reference = {"resource": "pods", "namespace": "n", "name": name}
        status = {"code": 200}
        event = {
            "user": {"username": "u"},
            "verb": "create",
            "objectRef": reference,
            "responseStatus": status,
        }
        return json.dumps({**event, "stage": "ResponseComplete"}) + "\n"

    file = tmp_path / "audit.log"
    half = len(line("cut")) // 2
    file.write_text(line("before") + line("cut")[:half])
    log = AuditLog(file)
    file.write_text(line("before") + line("cut") + line("after"))
    assert [request.name for request in log.requests()] == ["after"]
    file.write_text(line("whole"))
    log.mark()
    file.write_text(line("whole") + line("next"))
    assert [request.name for request in log.requests()] == ["next"]


@pytest.mark.parametrize(
    ("message", "is_refused"),
    [
        ('pods is forbidden: User "u" cannot list resource "pods" in API group ""', True),
        (
            'pods "a" is forbidden: unable to create new content in namespace n because it is being terminated',
            False,
        ),
        ('leases "a" is forbidden: User "u" cannot get resource: RBAC: clusterrole "x" not found', False),
    ],
)
def test_only_the_want_of_a_right_is_a_refusal(message: str, is_refused: bool) -> None:
    assert Request("u", "get", "pods", "n", "a", 403, message).is_refused is is_refused


def test_processes_are_found_while_cgroups_come_and_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / "node" / "stays").mkdir(parents=True)
    (tmp_path / "node" / "stays" / "cgroup.procs").write_text("7\n8\n")
    ends = time.monotonic() + 1.5

    def come_and_go() -> None:
        passing = [tmp_path / "node" / str(number) for number in range(20)]
        while time.monotonic() < ends:
            for folder in passing:
                (folder / "below").mkdir(parents=True)
            for folder in passing:
                (folder / "below").rmdir()
                folder.rmdir()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    while thread.is_alive():
        assert cgroups.pids("node") == {7, 8}
    thread.join()


def test_the_last_words_of_a_program_are_the_reason_and_not_the_stacks_behind_it() -> None:
    stacks = "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:1 +0x1\n" * 20
    assert last_words(f"I1120 begins\nF1120 out of order\n{stacks}").startswith("F1120 out of order\n")
    assert last_words(f"begins\npanic: out of order\n\n{stacks}").startswith("panic: out of order\n")
    assert last_words("a\nb\nc\nd\ne\nf\n") == "b\nc\nd\ne\nf"
    assert last_words("") == ""

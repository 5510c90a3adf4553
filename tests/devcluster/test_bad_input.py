"""Bad input gets one clear sentence and an exit code, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import cgroups, machine
from devcluster.binaries import build, sets_for
from devcluster.cluster import EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.places import beside, cache_root, cluster_lock, default_name, group
from devcluster.problem import Problem
from devcluster.progress import Progress
from devcluster.provider import checkout
from devcluster.waiting import until

NAME = f"{default_name(checkout())[:26]}-bad"
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def devcluster(state: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command in a process of its own, with a state folder of its own."""
    monkeypatch.setenv("DEVCLUSTER_STATE", str(state))
    monkeypatch.setenv("PROVIDER", "embedded")

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "devcluster.cli", *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


def refused(done: subprocess.CompletedProcess[str], sentence: str) -> None:
    """It failed with this sentence, without a trace, and nothing of a cluster is there."""
    assert done.returncode != 0
    assert sentence in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path("/run/netns").glob(f"{group(NAME)}.*"))
    assert not cgroups.exists(group(NAME))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up", "--provider", "minikube"], "there is no provider 'minikube'; choose one of"),
        (["up", "--name", "Not A Name"], "lower-case letters, digits and dashes"),
        (["up", "--name", NAME, "--nodes", "9"], "a cluster has 1 to 5 nodes, not 9"),
        (["up", "--name", NAME, "--kubernetes", "1.11"], "Kubernetes 1.11 is not pinned here; choose"),
        (["status", "--name", NAME], f"`devcluster up --name {NAME}` makes one"),
        (["fault", "--name", NAME, "list"], f"there is no cluster {NAME}"),
        (["load", "--name", NAME, "no-such-image"], "is neither an archive nor one of valkey-"),
        (["images", "no-such-image"], "there is no image 'no-such-image'"),
        (["up", "--provider", "kind"], "provider `kind` needs Docker with a running engine, and kind"),
    ],
)  # fmt: skip
def test_nonsense_is_answered_with_a_sentence(devcluster: Call, arguments: list[str], sentence: str) -> None:
    refused(devcluster(*arguments), sentence)


def test_a_missing_compiler_is_named(devcluster: Call, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ip", "nsenter"):
        (tools / name).symlink_to(shutil.which(name) or "")
    done = devcluster("up", "--name", NAME, PATH=str(tools), DEVCLUSTER_CACHE=str(tmp_path / "cache"))
    refused(done, "Go is not installed; install Go 1.26 or later")


def test_missing_programs_are_named_where_they_cannot_be_installed(devcluster: Call, tmp_path: Path) -> None:
    build(sets_for("1.35"), Progress())
    (tmp_path / "tools").mkdir()
    done = devcluster("up", "--name", NAME, PATH=str(tmp_path / "tools"))
    refused(done, "are missing and this is no Debian; install them (Debian calls the packages ")
    assert "iptables" in done.stderr


def test_too_little_disk_is_said_with_figures(devcluster: Call, state: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", state], check=True)
    try:
        refused(devcluster("up", "--name", NAME), "GiB of free disk and has 0.1 GiB")
    finally:
        subprocess.run(["umount", state], check=True)


def test_a_damaged_cache_is_said_with_the_way_out(devcluster: Call, tmp_path: Path) -> None:
    build(sets_for("1.35"), Progress())
    cache = tmp_path / "cache"
    shutil.copytree(cache_root() / "binaries", cache / "binaries", copy_function=os.link)
    kubelet = next((cache / "binaries").glob("kubernetes-1.35-*/kubelet"))
    kubelet.unlink()
    kubelet.write_bytes(b"half a program")
    done = devcluster("up", "--name", NAME, DEVCLUSTER_CACHE=str(cache))
    refused(done, f"the cached program {kubelet} is damaged: remove {kubelet.parent} and run this again")


def test_a_second_up_at_the_same_time_is_told_so(devcluster: Call) -> None:
    with cluster_lock(NAME):
        refused(devcluster("up", "--name", NAME), "another `devcluster up` or `down` is at work")


def test_remains_of_a_cluster_whose_folder_is_gone_are_cleared_by_down(devcluster: Call) -> None:
    subprocess.run(["ip", "netns", "add", f"{group(NAME)}.control"], check=True)
    done = devcluster("down", "--name", NAME)
    assert done.returncode == 0, done.stderr
    assert not list(Path("/run/netns").glob(f"{group(NAME)}.*"))
    assert devcluster("down", "--name", NAME).stdout == f"there is no cluster {NAME}\n"


def test_what_interrupted_tests_have_left_beside_a_cluster_goes_with_it(
    devcluster: Call, state: Path
) -> None:
    record = state / beside(NAME, "gw1") / "cluster.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert devcluster("down", "--name", NAME).returncode == 0
    assert not record.parent.exists()


def test_a_damaged_record_is_said_with_the_way_out(devcluster: Call, state: Path) -> None:
    record = state / NAME / "cluster.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": NAME})[:-4])
    refused(devcluster("status", "--name", NAME), f"the record {record} is damaged")
    refused(devcluster("up", "--name", NAME), f"the record {record} is damaged")
    assert devcluster("down", "--name", NAME).returncode == 0
    assert not record.parent.exists()


def test_a_cluster_that_does_not_start_leaves_nothing_and_shows_last_words(
    devcluster: Call, tmp_path: Path, state: Path
) -> None:
    """An etcd that is no etcd: the start fails in the middle, with namespaces and processes about."""
    build(sets_for("1.35"), Progress())
    cache = tmp_path / "cache"
    shutil.copytree(cache_root() / "binaries", cache / "binaries", copy_function=os.link)
    etcd = next((cache / "binaries").glob("etcd-*/etcd"))
    etcd.unlink()
    etcd.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    etcd.chmod(0o755)
    marker = etcd.parent / "complete.json"
    known = json.loads(marker.read_text())
    known["etcd"] |= {"size": etcd.stat().st_size, "changed": etcd.stat().st_mtime_ns}
    marker.unlink()
    marker.write_text(json.dumps(known))
    done = devcluster("up", "--name", NAME, DEVCLUSTER_CACHE=str(cache))
    refused(done, "control/etcd ended right after its start")
    assert "out of order" in done.stderr
    assert not (state / NAME).exists()


def test_a_state_folder_with_too_long_a_path_is_refused(devcluster: Call, tmp_path: Path) -> None:
    done = devcluster("up", "--name", NAME, DEVCLUSTER_STATE=str(tmp_path / ("deep" * 10)))
    refused(done, "has too long a path for sockets in it; set DEVCLUSTER_STATE to one of at most 48 letters")


def test_too_little_memory_is_said_with_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_available_memory", lambda: 1 << 30)
    with pytest.raises(Problem, match=r"needs 2 GiB of free memory and 1\.0 GiB are free"):
        machine.require(sets_for("1.35"), Progress())


def test_whoever_is_not_root_is_told_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    cluster = EmbeddedCluster(NAME)
    for act in (lambda: cluster.up(Wish(), Progress()), lambda: cluster.down(Progress())):
        with pytest.raises(Problem, match="needs root for network namespaces, mounts and cgroups"):
            act()


def test_a_start_that_is_cut_short_leaves_nothing(devcluster: Call, state: Path) -> None:
    """Ended politely in the middle, with namespaces made and processes under way."""
    build(sets_for("1.35"), Progress())
    assert devcluster("status", "--all").returncode == 0
    command = [sys.executable, "-m", "devcluster.cli", "up", "--name", NAME, "--nodes", "1"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as starting:
        until(lambda: len(cgroups.pids(group(NAME))) >= 2, "the start being under way", 60)
        starting.terminate()
    assert starting.returncode != 0
    assert not cgroups.exists(group(NAME))
    assert not list(Path("/run/netns").glob(f"{group(NAME)}.*"))
    assert not (state / NAME).exists()

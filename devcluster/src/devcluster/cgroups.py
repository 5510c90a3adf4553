"""The cgroups of a cluster: how its processes are found again, measured and ended.

Everything a cluster starts lives below /devcluster.NAME: `control/COMPONENT`, `nodeN/COMPONENT`, and the
pods of a node below `nodeN/kubepods`, because that is the kubelet's cgroup root. Works on cgroup v1
(every controller is a tree of its own) and on v2 (one tree).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from devcluster.problem import Problem

ROOT = Path("/sys/fs/cgroup")
ACCOUNTING = ("pids", "memory", "cpuacct")


def is_v2() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def trees() -> list[Path]:
    """The root folder of every hierarchy that containers are put into."""
    if is_v2():
        return [ROOT]
    return [tree for tree in sorted(ROOT.iterdir()) if (tree / "cgroup.procs").exists()]


def _tree(name: str) -> Path:
    return ROOT if is_v2() else ROOT / name


def make_node_root(path: str) -> None:
    """Make a kubelet's cgroup root in every hierarchy; on v1 a cpuset is empty until it is filled."""
    for tree in trees():
        current = tree
        for part in path.split("/"):
            _delegate(current)
            current /= part
            current.mkdir(exist_ok=True)
            if tree.name == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (current / file).write_text((current.parent / file).read_text())
        _delegate(current)


def _delegate(folder: Path) -> None:
    if is_v2():
        wanted = (folder / "cgroup.controllers").read_text().split()
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))


def make_leaf(path: str) -> list[Path]:
    """Make the cgroup of one component and return the files that take its pid."""
    if is_v2():
        make_node_root(str(Path(path).parent))
    files = []
    for tree in {_tree(name) for name in ACCOUNTING}:
        if tree.exists():
            (tree / path).mkdir(parents=True, exist_ok=True)
            files.append(tree / path / "cgroup.procs")
    return files


def pids(path: str) -> set[int]:
    """All processes in this cgroup and below."""
    found: set[int] = set()
    for folder in _folders(_tree("pids") / path):
        with contextlib.suppress(OSError):  # one that goes away while we look
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found


def _folders(top: Path) -> list[Path]:
    """This one and all below, each after those in it. (`Path.glob` ends with an error where one goes away.)"""
    return [Path(folder) for folder, *_ in os.walk(top, topdown=False)]


def exists(path: str) -> bool:
    return any((tree / path).exists() for tree in trees())


def memory_bytes(path: str) -> int:
    """Memory that the processes below hold for themselves: anonymous pages, no page cache."""
    with contextlib.suppress(FileNotFoundError):
        for line in (_tree("memory") / path / "memory.stat").read_text().splitlines():
            key, value = line.split()
            if key in ("total_rss", "anon"):
                return int(value)
    return 0


def working_set_bytes(path: str) -> int:
    """As Kubernetes counts it against a container's limit: all but the page cache that nobody has used of late."""
    folder, name = _tree("memory") / path, "memory.current" if is_v2() else "memory.usage_in_bytes"
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    unused = stat["inactive_file" if is_v2() else "total_inactive_file"]
    return int((folder / name).read_text()) - int(unused)


def end_all(path: str, patience: float = 20) -> None:
    """Kill every process in this cgroup and below, until none is left."""
    deadline = time.monotonic() + patience
    while remaining := pids(path):
        _thaw(path)
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Problem(f"processes {sorted(remaining)} of {path} do not end; look at them with `ps`")
        time.sleep(0.02)


def _thaw(path: str) -> None:
    """What is frozen does not die: a runtime freezes a container while it ends it, and may itself be ended then."""
    file, word = ("cgroup.freeze", "0") if is_v2() else ("freezer.state", "THAWED")
    for folder in _folders(_tree("freezer") / path):
        with contextlib.suppress(OSError):  # one that goes away, or that has no such file
            (folder / file).write_text(word)


def remove(path: str, patience: float = 10) -> None:
    """Remove this cgroup and all below from every hierarchy."""
    deadline = time.monotonic() + patience
    for tree in trees():
        top = tree / path
        while top.exists():
            for folder in _folders(top):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if top.exists():
                if time.monotonic() > deadline:
                    raise Problem(f"the cgroup {top} cannot be removed: {sorted(pids(path))} are still in it")
                time.sleep(0.02)

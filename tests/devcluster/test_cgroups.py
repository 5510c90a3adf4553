"""Processes of a cluster end whatever state a runtime has left them in."""

from __future__ import annotations

import subprocess
import uuid

from devcluster import cgroups


def test_a_frozen_process_ends_with_its_cluster() -> None:
    path = f"devcluster.test-{uuid.uuid4().hex[:8]}"
    pod = f"{path}/node1/kubepods/pod"
    cgroups.make_node_root(pod)
    process = subprocess.Popen(["/usr/bin/sleep", "600"])
    try:
        for tree in cgroups.trees():
            (tree / pod / "cgroup.procs").write_text(str(process.pid))
        freezer = cgroups.ROOT / (
            f"{pod}/cgroup.freeze" if cgroups.is_v2() else f"freezer/{pod}/freezer.state"
        )
        freezer.write_text("1" if cgroups.is_v2() else "FROZEN")
        cgroups.end_all(path)
    finally:
        process.kill()
        process.wait(10)
        cgroups.remove(path)
    assert not cgroups.exists(path)

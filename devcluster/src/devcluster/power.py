"""Turns nodes on and off, the way a power switch does."""

from __future__ import annotations

import socket
from pathlib import Path

from devcluster import images
from devcluster.binaries import Binaries
from devcluster.node import Node
from devcluster.places import kubelet_lock
from devcluster.problem import Problem
from devcluster.processes import Component, Processes
from devcluster.waiting import until

ATTEMPTS = 3
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins/kubelet.sock")


def start_runtime(node: Node, binaries: Binaries) -> list[Component]:
    """Start containerd and give it the pause image; returns what else the node runs."""
    processes = Processes(node.record)
    if not node.is_on:
        node.cut_power()
    runtime, *rest = node.components(binaries)
    processes.start(runtime)
    until(lambda: _answers(node, processes), f"the start of containerd on {node.name}", 30)
    images.load_pause(node, binaries)
    return rest


def _answers(node: Node, processes: Processes) -> bool:
    processes.require_running(f"{node.name}/containerd")
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(node.socket)) == 0


def start_rest(rest: list[Component], processes: Processes) -> None:
    for component in rest:
        if component.name.endswith("/kubelet"):
            _start_kubelet(component, processes)
        else:
            processes.start(component)


def _start_kubelet(kubelet: Component, processes: Processes) -> None:
    """One at a time: a kubelet removes this socket and binds it anew, and ends when another was quicker. It ends, too,
    when one that runs replaces a file in the same folder at that moment; then it is started again, as any init does."""
    with kubelet_lock():
        for attempt in range(ATTEMPTS):
            processes.start(kubelet)
            try:
                until(lambda: _has_bound(kubelet, processes), f"the start of {kubelet.name}", 60, every=0.02)
            except Problem:
                if attempt + 1 == ATTEMPTS or processes.pid(kubelet.name) is not None:
                    raise
            else:
                return


def _has_bound(kubelet: Component, processes: Processes) -> bool:
    processes.require_running(kubelet.name)
    pid = processes.pid(kubelet.name)
    try:
        return str(DEVICE_PLUGINS) in Path(f"/proc/{pid}/net/unix").read_text()
    except OSError:  # it ended between the two looks; the next one says so
        return False


def turn_on(node: Node, binaries: Binaries) -> None:
    start_rest(start_runtime(node, binaries), Processes(node.record))


def turn_off(node: Node) -> None:
    node.cut_power()

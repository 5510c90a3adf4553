"""Turns nodes on and off, the way a power switch does."""

from __future__ import annotations

import socket

from devcluster import images
from devcluster.binaries import Binaries
from devcluster.node import Node
from devcluster.processes import Component, Processes
from devcluster.waiting import until


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
        processes.start(component)


def turn_on(node: Node, binaries: Binaries) -> None:
    start_rest(start_runtime(node, binaries), Processes(node.record))


def turn_off(node: Node) -> None:
    node.cut_power()

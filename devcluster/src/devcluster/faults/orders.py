"""All faults of a cluster: ordering them, listing them, undoing them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from devcluster import control_plane, pods, power, volumes
from devcluster.api import Api
from devcluster.binaries import Binaries
from devcluster.command import run
from devcluster.faults import packets
from devcluster.faults.record import Fault, Ledger
from devcluster.node import Node
from devcluster.places import Record
from devcluster.pods import PodName
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.waiting import until

FILLER = ".devcluster-fill"
STOPPABLE = {"api": "control/apiserver", "etcd": "control/etcd", "dns": "control/dns"}


class Faults:
    """Orders faults in one embedded cluster."""

    def __init__(self, record: Record, binaries: Binaries) -> None:
        self._record = record
        self._binaries = binaries
        self._processes = Processes(record)
        self._ledger = Ledger(record.folder / "faults")

    # --- the server process of a pod

    def kill(self, pod: str, container: str | None = None) -> int:
        """SIGKILL the server process, as the kernel's memory killer would; nothing is left to heal."""
        return _killed(self._server(pod, container).server_pid, pod)

    def kill_container(self, pod: str, container: str | None = None) -> int:
        """SIGKILL a container's first process, and with it all others there; the kubelet starts it anew."""
        return _killed(self._server(pod, container).pid, pod)

    def pause(self, pod: str, container: str | None = None) -> Fault:
        """SIGSTOP the server process: it keeps its memory and connections and answers nothing."""
        pid = self._server(pod, container).server_pid
        detail = {"pid": str(pid), "_started": _started(pid)}
        return self._inflict("pause", pod, lambda _: os.kill(pid, signal.SIGSTOP), detail)

    # --- a node

    def stop_node(self, node: str) -> Fault:
        """Cut a node's power: kubelet, containerd and all its containers end at once."""
        found = self._node(node)
        return self._inflict("stop-node", node, lambda _: power.turn_off(found))

    # --- packets

    def cut(self, target: str, direction: str = "both", peer: str | None = None) -> Fault:
        """Drop all packets of a node or pod to and from the outside, or only those of one peer."""
        return self._drop("cut", target, direction, peer, None)

    def lose(self, target: str, percent: float, direction: str = "both", peer: str | None = None) -> Fault:
        """Drop some packets, at random."""
        if not 0 < percent < 100:
            raise Problem(
                f"a loss is more than 0 and less than 100 percent, not {percent:g}; `cut` loses all"
            )
        return self._drop("loss", target, direction, peer, percent)

    def delay(self, target: str, milliseconds: int) -> Fault:
        """Hold back what a node or pod sends, where the kernel can."""
        network = self._network(target)
        packets.require_delay(network)
        detail = {"milliseconds": str(milliseconds), **_network_detail(network)}
        return self._inflict("delay", target, lambda _: packets.delay(network, milliseconds), detail)

    # --- a volume

    def fill(self, claim: str, leave: int = 0) -> Fault:
        """Fill the volume of a claim (NAMESPACE/NAME) until only `leave` bytes are free."""
        name = PodName.parse(claim)
        path = f"/api/v1/namespaces/{name.namespace}/persistentvolumeclaims/{name.name}"
        volume = Api(self._record.kubeconfig).get(path)["spec"].get("volumeName")
        folder = volumes.mount_point(self._record, str(volume))
        if not folder.is_mount():
            raise Problem(f"claim {claim} has no volume of this cluster's storage; is it bound?")
        return self._inflict("fill", claim, lambda _: _fill(folder, leave), {"_folder": str(folder)})

    # --- the control plane

    def stop(self, part: str) -> Fault:
        """End the API server, etcd or DNS; it stays away until healed."""
        component = _component(part)
        return self._inflict("stop", part, lambda _: self._processes.kill(component))

    def freeze(self, part: str) -> Fault:
        """SIGSTOP the API server, etcd or DNS: connections stay open and silent."""
        component = _component(part)
        return self._inflict("freeze", part, lambda _: self._processes.signal(component, signal.SIGSTOP))

    def restart(self, part: str) -> None:
        """End the API server, etcd or DNS, start it again and wait until the API answers."""
        self._processes.kill(_component(part))
        self._start_component(part)

    def compact(self) -> str:
        """Make etcd and the API server forget old revisions: watches that resume get 410 Gone.

        The API server is restarted, because its own cache would go on to serve the recent ones.
        """
        inside = self._processes.namespace("control")
        revision = run(sys.executable, "-m", "devcluster.etcd", inside=inside)
        self.restart("api")
        return revision

    # --- undoing

    def active(self) -> list[Fault]:
        return self._ledger.all()

    def heal(self, fault: Fault) -> None:
        undo: dict[str, Callable[[Fault], None]] = {
            "pause": self._resume,
            "stop-node": lambda f: power.turn_on(self._node(f.target), self._binaries),
            "cut": lambda f: self._on_network(f, lambda network: packets.restore(network, _mark(f))),
            "loss": lambda f: self._on_network(f, lambda network: packets.restore(network, _mark(f))),
            "delay": lambda f: self._on_network(f, packets.undelay),
            "fill": lambda f: (Path(f.detail["_folder"]) / FILLER).unlink(missing_ok=True),
            "stop": lambda f: self._start_component(f.target),
            "freeze": lambda f: self._thaw(f.target),
        }
        undo[fault.kind](fault)
        self._ledger.remove(fault)

    def heal_all(self) -> list[Fault]:
        """Undo everything, the newest first."""
        faults = list(reversed(self.active()))
        problems = []
        for fault in faults:
            try:
                self.heal(fault)
            except Problem as problem:
                problems.append(f"{fault}: {problem}")
        if problems:
            raise Problem(f"these faults are not healed: {'; '.join(problems)}")
        return faults

    def settle_before_start(self) -> None:
        """For `up`, from any state: it starts what was stopped, so those faults are only forgotten."""
        for fault in self.active():
            if fault.kind in ("stop", "stop-node"):
                self._ledger.remove(fault)
            else:
                self.heal(fault)

    # --- how

    def _inflict(
        self, kind: str, target: str, harm: Callable[[Fault], None], detail: dict[str, str] | None = None
    ) -> Fault:
        """Record first, then do: whatever cuts us short, the fault can be healed."""
        fault = self._ledger.add(kind, target, detail or {}, self.heal)
        try:
            harm(fault)
        except BaseException:
            self.heal(fault)
            raise
        return fault

    def _server(self, pod: str, container: str | None) -> pods.Running:
        return pods.server(self._record, self._binaries, PodName.parse(pod), container)

    def _node(self, name: str) -> Node:
        for number in self._record.node_numbers:
            if name == f"node{number}":
                return Node(self._record, number)
        raise Problem(f"cluster {self._record.name} has no node {name!r}; it has {self._node_names()}")

    def _node_names(self) -> str:
        return ", ".join(f"node{number}" for number in self._record.node_numbers)

    def _is_node(self, target: str) -> bool:
        return target in self._node_names().split(", ")

    def _network(self, target: str) -> Path:
        if self._is_node(target):
            return self._node(target).namespace
        return pods.sandbox(self._record, self._binaries, PodName.parse(target)).network

    def _peer_address(self, peer: str | None) -> str | None:
        if peer is None or peer[:1].isdigit():
            return peer
        if peer == "api":
            return self._record.addresses.api
        if self._is_node(peer):
            return self._node(peer).address
        network = pods.sandbox(self._record, self._binaries, PodName.parse(peer)).network
        line = run("ip", "-4", "-oneline", "address", "show", "dev", "eth0", inside=network)
        return line.split()[3].split("/")[0]

    def _drop(self, kind: str, target: str, direction: str, peer: str | None, percent: float | None) -> Fault:
        if direction not in packets.DIRECTIONS:
            raise Problem(f"a direction is one of {', '.join(packets.DIRECTIONS)}, not {direction!r}")
        network = self._network(target)
        address = self._peer_address(peer)
        detail = {"direction": direction, **_network_detail(network)}
        detail |= {"peer": peer} if peer else {}
        detail |= {"percent": f"{percent:g}"} if percent else {}
        chance = percent / 100 if percent else None
        return self._inflict(
            kind, target, lambda f: packets.drop(network, _mark(f), direction, address, chance), detail
        )

    def _on_network(self, fault: Fault, undo: Callable[[Path], None]) -> None:
        """Undo in the namespace that was hit; when that pod or node is gone, so is the fault."""
        network = Path(fault.detail["_network"])
        if _inode(network) == fault.detail["_inode"]:
            undo(network)

    def _resume(self, fault: Fault) -> None:
        pid = int(fault.detail["pid"])
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if _started(pid) == fault.detail["_started"]:
                os.kill(pid, signal.SIGCONT)

    def _thaw(self, part: str) -> None:
        if self._processes.pid(_component(part)) is not None:
            self._processes.signal(_component(part), signal.SIGCONT)

    def _start_component(self, part: str) -> None:
        component = control_plane.components(self._record, self._binaries)[_component(part)]
        self._processes.start(component)
        if not any(fault.kind in ("stop", "freeze") and fault.target != part for fault in self.active()):
            api = Api(self._record.kubeconfig)
            until(api.is_ready, f"the return of the API server after {part} came back", 60)


def _component(part: str) -> str:
    if part not in STOPPABLE:
        raise Problem(f"{part!r} cannot be stopped; choose one of {', '.join(STOPPABLE)}")
    return STOPPABLE[part]


def _mark(fault: Fault) -> str:
    return f"devcluster-{fault.id}"


def _killed(pid: int, pod: str) -> int:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        raise Problem(f"process {pid} of pod {pod} ended before it could be killed") from None
    return pid


def _started(pid: int) -> str:
    """When the process began, by the kernel's count: tells it from a later one with the same pid."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _inode(network: Path) -> str:
    try:
        return str(network.stat().st_ino)
    except FileNotFoundError:
        return "gone"


def _network_detail(network: Path) -> dict[str, str]:
    return {"_network": str(network), "_inode": _inode(network)}


def _fill(folder: Path, leave: int) -> None:
    free = shutil.disk_usage(folder).free
    if free <= leave:
        return
    with (folder / FILLER).open("wb") as filler:
        size = free - leave
        while size > 0:
            try:
                os.posix_fallocate(filler.fileno(), 0, size)
            except OSError:
                # The file system keeps a little for itself; ask for less until it gives.
                size -= 64 << 10
            else:
                return

"""The embedded cluster: brings it up, takes it down.

`up` works from any state: nothing there, half a start, everything killed. What was only in memory is
dropped as a reboot would drop it, data on disk is kept, and only what does not run is started.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from devcluster import certificates, cgroups, control_plane, dns, machine, mounts, network, power, volumes
from devcluster.addresses import MOST_NODES
from devcluster.api import Api
from devcluster.binaries import DEFAULT_KUBERNETES, Binaries, build, require_kubernetes, sets_for
from devcluster.kubectl import Kubectl
from devcluster.node import Node
from devcluster.places import Record, claim_record, cluster_lock, load_record, registry_lock
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.progress import Progress
from devcluster.waiting import until


@dataclass(frozen=True)
class Wish:
    """What a person may ask of a cluster; None takes what the cluster has, or the default for a new one."""

    nodes: int | None = None
    kubernetes: str | None = None
    metrics: bool = False

    def __post_init__(self) -> None:
        if self.kubernetes:
            require_kubernetes(self.kubernetes)
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise Problem(f"a cluster has 1 to {MOST_NODES} nodes, not {self.nodes}")

    def refuse_other(self, record: Record) -> None:
        """A running cluster keeps its shape; whoever wants another one is told how."""
        asked = {"nodes": self.nodes, "kubernetes": self.kubernetes, "metrics": self.metrics or None}
        for what, value in asked.items():
            has = getattr(record, what)
            if value not in (None, has):
                raise Problem(
                    f"cluster {record.name} exists with {what} {has}, not {value}; end it first with "
                    f"`devcluster down --name {record.name}`, or take another --name"
                )


def up(name: str, wish: Wish, progress: Progress) -> Record:
    """Bring the cluster to three (or as many as asked) Ready nodes with DNS answering."""
    with cluster_lock(name):
        known = load_record(name)
        if known:
            wish.refuse_other(known)
        else:
            network.refuse_foreign(name)
        minor = known.kubernetes if known else wish.kubernetes or DEFAULT_KUBERNETES
        metrics = known.metrics if known else wish.metrics
        sets = sets_for(minor, metrics=metrics)
        machine.require(sets, progress)
        binaries = build(sets, progress)
        record = known or claim_record(name, wish.nodes or 3, minor, metrics, network.is_free)
        try:
            _Start(record, binaries, progress).run()
        except BaseException:
            _stop(record)
            if not known:
                _erase(record)
            raise
        return record


def down(name: str, progress: Progress) -> bool:
    """End the cluster and remove all of it; False when there was none."""
    with cluster_lock(name):
        try:
            record = load_record(name)
        except Problem:  # a damaged record: the name alone leads to everything there is to end
            record = Record(name, index=0, nodes=0, kubernetes="unknown")
        if record is None:
            return False
        progress.say(f"ending cluster {name}")
        _stop(record)
        _erase(record)
        progress.say("nothing of it is left")
        return True


def _stop(record: Record) -> None:
    """End all processes and drop what they held; data on disk stays."""
    cgroups.end_all(cgroups.group(record.name))
    mounts.unmount_below(record.folder)
    mounts.detach_below(record.folder)
    with registry_lock():
        network.remove(record)
    cgroups.remove(cgroups.group(record.name))


def _erase(record: Record) -> None:
    # The record goes last: until then, another `down` can go on where this one was cut.
    for entry in record.folder.iterdir():
        if entry.name != "cluster.json":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.rmtree(record.folder)


class _Start:
    """One run of `up`, from whatever was found."""

    def __init__(self, record: Record, binaries: Binaries, progress: Progress) -> None:
        self._record = record
        self._binaries = binaries
        self._progress = progress
        self._processes = Processes(record)
        self._nodes = [Node(record, number) for number in record.node_numbers]

    def run(self) -> None:
        record = self._record
        if not network.exists(record):
            _stop(record)
            with registry_lock():
                network.make(record)
        certificates.make(record)
        volumes.mount_all(record)
        self._progress.say(f"starting {len(self._nodes)} nodes and the control plane of {record.name}")
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            runtimes = [pool.submit(power.start_runtime, node, self._binaries) for node in self._nodes]
            self._start_control_plane()
            for runtime in runtimes:
                power.start_rest(runtime.result(), self._processes)
        self._wait_for_nodes()
        self._wait_for_dns()
        for name in control_plane.components(record, self._binaries):
            self._processes.require_running(name)
        self._progress.say(f"{len(self._nodes)} nodes are Ready and DNS answers")

    def _start_control_plane(self) -> None:
        parts = control_plane.components(self._record, self._binaries)
        self._processes.start(parts.pop("control/etcd"))
        self._processes.start(parts.pop("control/apiserver"))
        api = Api(self._record.kubeconfig)
        until(lambda: self._api_answers(api), "the start of the API server", 90)
        for name in ("control/controller-manager", "control/scheduler", "control/proxy"):
            self._processes.start(parts.pop(name))
        # The others are users of their own: each ends or waits long when its rights are not there yet.
        kubectl = Kubectl(self._binaries["kubectl"], self._record.kubeconfig)
        for manifest in control_plane.manifests(self._record):
            kubectl("apply", "-f", manifest)
        for part in parts.values():
            self._wait_for_rights(part.name)
            self._processes.start(part)

    def _wait_for_rights(self, name: str) -> None:
        """The API server learns of new roles a moment after they were stored."""
        needed = {
            "control/dns": "/api/v1/services?limit=1",
            "control/storage": "/api/v1/persistentvolumes?limit=1",
            "control/metrics": "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        }
        user = Api(self._record.folder / "pki" / f"{name.split('/')[1]}.kubeconfig")
        until(lambda: user.may_get(needed[name]), f"the API server granting {name} its rights", 30)

    def _api_answers(self, api: Api) -> bool:
        for name in ("control/etcd", "control/apiserver"):
            self._processes.require_running(name)
        return api.is_ready()

    def _wait_for_nodes(self) -> None:
        api = Api(self._record.kubeconfig)

        def all_ready() -> bool:
            for node in self._nodes:
                for part in ("containerd", "kubelet", "proxy"):
                    self._processes.require_running(f"{node.name}/{part}")
            return ready_nodes(api) >= {node.name for node in self._nodes}

        until(all_ready, "the nodes becoming Ready", 90, every=0.1)

    def _wait_for_dns(self) -> None:
        plan = self._record.addresses
        wanted = plan.first_service

        def answers() -> bool:
            self._processes.require_running("control/dns")
            return dns.resolve("kubernetes.default.svc.cluster.local", plan.dns) == wanted

        until(answers, "an answer of the cluster's DNS", 60)


def ready_nodes(api: Api) -> set[str]:
    """The nodes that are Ready and take pods."""
    ready = set()
    for node in api.get("/api/v1/nodes")["items"]:
        conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        if conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints:
            ready.add(node["metadata"]["name"])
    return ready

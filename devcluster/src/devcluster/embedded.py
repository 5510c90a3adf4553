"""The embedded cluster: brings it up, takes it down.

`up` works from any state: nothing there, half a start, everything killed. What was only in memory is
dropped as a reboot would drop it, data on disk is kept, and only what does not run is started.
"""

from __future__ import annotations

import datetime
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from devcluster import certificates, cgroups, control_plane, dns, machine, mounts, network, power, volumes
from devcluster.addresses import MOST_NODES
from devcluster.api import Api, Unreachable
from devcluster.binaries import DEFAULT_KUBERNETES, Binaries, build, require_kubernetes, sets_for
from devcluster.faults import Faults
from devcluster.kubectl import Kubectl
from devcluster.node import Node
from devcluster.places import Record, claim_record, cluster_lock, group, load_record, registry_lock
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.progress import Progress
from devcluster.waiting import until

TAINTS_OF_TROUBLE = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@dataclass(frozen=True)
class Wish:
    """What a person may ask of a cluster; None takes what the cluster has, or the default for a new one."""

    nodes: int | None = None
    kubernetes: str | None = None
    metrics: bool = False
    fresh: bool = False  # drop the data of a cluster that is there

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
    machine.require_root()
    with cluster_lock(name):
        known = load_record(name)
        if known and wish.fresh:
            _stop(known)
            _erase(known)
            known = None
        if known:
            wish.refuse_other(known)
        minor = known.kubernetes if known else wish.kubernetes or DEFAULT_KUBERNETES
        metrics = known.metrics if known else wish.metrics
        sets = sets_for(minor, metrics=metrics)
        ran_before = bool(cgroups.pids(group(name)))
        machine.require(sets, progress, is_running=ran_before)
        binaries = build(sets, progress)
        record = known or claim_record(name, wish.nodes or 3, minor, metrics, network.is_free)
        try:
            _Start(record, binaries, progress).run()
        except BaseException:
            # A cluster that ran when we came is left as it is: it may be in use, and `up` can be repeated.
            if not ran_before:
                _stop(record)
            if not known:
                _erase(record)
            raise
        return record


def down(name: str, progress: Progress) -> bool:
    """End the cluster and remove all of it; False when there was none."""
    machine.require_root()
    with cluster_lock(name):
        record = _record_or_remains(name)
        if record is None:
            return False
        progress.say(f"ending cluster {name}")
        _stop(record)
        _erase(record)
        progress.say("nothing of it is left")
        return True


def _record_or_remains(name: str) -> Record | None:
    """The name alone leads to everything there is to end, so a lost or damaged record does not matter."""
    nameless = Record(name, index=0, nodes=0, kubernetes="unknown")
    try:
        record = load_record(name)
    except Problem:
        return nameless
    has_remains = network.has_remains(nameless) or cgroups.exists(nameless.group) or nameless.folder.exists()
    return record or (nameless if has_remains else None)


def _stop(record: Record) -> None:
    """End all processes and drop what they held; data on disk stays."""
    cgroups.end_all(record.group)
    for folder in record.folder.glob("node?"):
        Node(record, int(folder.name[-1])).cut_power()
    mounts.unmount_below(record.folder)
    mounts.detach_below(record.folder)
    with registry_lock():
        network.remove(record)
    cgroups.remove(record.group)


def _erase(record: Record) -> None:
    # The record goes last: until then, another `down` can go on where this one was cut.
    if record.folder.exists():
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
        self._began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)

    def run(self) -> None:
        record = self._record
        if not network.exists(record):
            _stop(record)
            with registry_lock():
                network.make(record)
        certificates.make(record)
        if self._processes.pid("control/storage") is None:
            volumes.mount_all(record)
        Faults(record, self._binaries).settle_before_start()
        self._turned_on = {node.name for node in self._nodes if self._kubelet(node) is None}
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

    def _kubelet(self, node: Node) -> int | None:
        return self._processes.pid(f"{node.name}/kubelet")

    def _wait_for_nodes(self) -> None:
        api = Api(self._record.kubeconfig)
        every = {node.name for node in self._nodes}

        def all_ready() -> bool:
            for node in self._nodes:
                for part in ("containerd", "kubelet", "proxy"):
                    self._processes.require_running(f"{node.name}/{part}")
            try:
                # What etcd remembers of a node that was just turned on is old news.
                return ready_nodes(api) >= every and ready_nodes(api, self._began) >= self._turned_on
            except Unreachable:
                return False

        until(all_ready, "the nodes becoming Ready", 90, every=0.1)

    def _wait_for_dns(self) -> None:
        plan = self._record.addresses
        wanted = plan.first_service

        def answers() -> bool:
            self._processes.require_running("control/dns")
            return dns.resolve("kubernetes.default.svc.cluster.local", plan.dns) == wanted

        until(answers, "an answer of the cluster's DNS", 60)


def ready_nodes(api: Api, since: datetime.datetime | None = None) -> set[str]:
    """The nodes that are Ready and take pods; with `since`, only those that said so after that time."""
    ready = set()
    for node in api.get("/api/v1/nodes")["items"]:
        condition = {c["type"]: c for c in node["status"].get("conditions", [])}.get("Ready", {})
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        is_ready = condition.get("status") == "True" and not taints & TAINTS_OF_TROUBLE
        if is_ready and (
            since is None or datetime.datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since
        ):
            ready.add(node["metadata"]["name"])
    return ready

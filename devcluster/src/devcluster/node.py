"""A node: containerd, kubelet and kube-proxy in a network namespace of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from devcluster import cgroups, mounts, network
from devcluster.binaries import Binaries
from devcluster.control_plane import proxy
from devcluster.files import keep
from devcluster.places import Record
from devcluster.processes import Component

PAUSE_IMAGE = "devcluster.local/pause:1"
CNI_PLUGINS = ("bridge", "host-local", "portmap")


class Node:
    """Node number `number` of a cluster, and the files its daemons read."""

    def __init__(self, record: Record, number: int) -> None:
        self.record = record
        self.number = number
        self.name = f"node{number}"
        self.folder = record.folder / self.name
        self.namespace = network.namespace_file(network.namespace(record, number))
        self.address = record.addresses.node(number)
        self.cgroup = f"{record.group}/{self.name}"

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def components(self, binaries: Binaries) -> list[Component]:
        """Write the configuration, and say what to start, in this order."""
        for folder in ("cni", "cni-bin", "kubelet", "log"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        for plugin in CNI_PLUGINS:
            link = self.folder / "cni-bin" / plugin
            link.unlink(missing_ok=True)
            link.symlink_to(binaries[plugin])
        keep(self.folder / "cni" / "10-bridge.conflist", self._cni())
        keep(self.folder / "containerd.toml", self._containerd())
        keep(self.folder / "kubelet.yaml", self._kubelet())
        keep(self.folder / "resolv.conf", f"nameserver {self.record.addresses.dns}\n")
        cgroups.make_node_root(self.cgroup)
        return [
            self._containerd_component(binaries),
            self._kubelet_component(binaries),
            proxy(self.record, binaries, self.name, self.name),
        ]

    def cut_power(self) -> None:
        """End every process of the node at once and drop what a reboot would not find again."""
        cgroups.end_all(self.cgroup)
        for folder in ("state", "kubelet"):
            mounts.unmount_below(self.folder / folder)
        self._forget_outside()
        for folder in ("state", "ipam"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        self.socket.unlink(missing_ok=True)

    def _forget_outside(self) -> None:
        """What containerd and kubelet keep at places of their own choice, found by our names in it."""
        for bundle in (self.folder / "state").glob("*.task/k8s.io/*/bootstrap.json"):
            address = json.loads(bundle.read_text())["address"].removeprefix("unix://")
            Path(address).unlink(missing_ok=True)
        for result in Path("/var/lib/cni/results").glob(f"{self._network_name}-*"):
            result.unlink(missing_ok=True)
        for log in Path("/var/log/containers").glob("*.log"):
            with contextlib.suppress(FileNotFoundError):  # one that another node's kubelet removes
                if log.is_symlink() and str(log.readlink()).startswith(f"{self.folder}/"):
                    log.unlink()

    @property
    def _network_name(self) -> str:
        return f"{self.record.group}.{self.name}"

    @property
    def is_on(self) -> bool:
        """A node with any process left is on: what is missing is then started beside it."""
        return bool(cgroups.pids(self.cgroup))

    def _containerd_component(self, binaries: Binaries) -> Component:
        command = (binaries["containerd"], "-c", str(self.folder / "containerd.toml"))
        path = f"{binaries.path}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return Component(f"{self.name}/containerd", command, {"PATH": path})

    def _kubelet_component(self, binaries: Binaries) -> Component:
        return Component(
            f"{self.name}/kubelet",
            (
                binaries["kubelet"],
                f"--config={self.folder / 'kubelet.yaml'}",
                f"--kubeconfig={self.record.folder / 'pki' / f'{self.name}.kubeconfig'}",
                f"--root-dir={self.folder / 'kubelet'}",
                f"--cert-dir={self.folder / 'kubelet-pki'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                f"--node-labels=topology.kubernetes.io/zone=zone-{self.number},topology.kubernetes.io/region=local",
            ),
        )

    def _cni(self) -> str:
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "hairpinMode": True,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": str(self.folder / "ipam"),
                "ranges": [[{"subnet": self.record.addresses.node_pods(self.number)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return json.dumps({"cniVersion": "1.0.0", "name": self._network_name, "plugins": [bridge, ports]})

    def _containerd(self) -> str:
        unused = [
            *(f"snapshotter.v1.{name}" for name in ("btrfs", "zfs", "devmapper", "blockfile", "erofs")),
            "internal.v1.tracing",
            "nri.v1.nri",
        ]
        return f"""\
version = 3
root = "{self.folder / "containerd"}"
state = "{self.folder / "state"}"
disabled_plugins = {json.dumps([f"io.containerd.{name}" for name in unused])}
[grpc]
  address = "{self.socket}"
[ttrpc]
  address = "{self.socket}.ttrpc"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{self.folder / "cni-bin"}"]
    conf_dir = "{self.folder / "cni"}"
    use_internal_loopback = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{self.folder / "state" / "runc"}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"
"""

    def _kubelet(self) -> str:
        pki = self.record.folder / "pki"
        # All nodes see one disk and one memory: eviction and image clean-up would act on the neighbours' use.
        return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {pki / "ca.crt"}}}
authorization: {{mode: Webhook}}
address: {self.address}
healthzBindAddress: 127.0.0.1
healthzPort: 10248
clusterDNS: [{self.record.addresses.dns}]
clusterDomain: cluster.local
resolvConf: {self.folder / "resolv.conf"}
cgroupDriver: cgroupfs
cgroupRoot: /{self.cgroup}
cgroupsPerQOS: true
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://{self.socket}
tlsCertFile: {pki / f"{self.name}.crt"}
tlsPrivateKeyFile: {pki / f"{self.name}.key"}
podLogsDir: {self.folder / "log"}
featureGates: {{KubeletInUserNamespace: true}}
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
oomScoreAdj: 0
syncFrequency: 10s
registryPullQPS: 0
serializeImagePulls: false
maxPods: 200
"""

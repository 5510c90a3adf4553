"""Where things lie on the machine, and the record of the clusters that exist.

State (one folder a cluster) and cache (binaries, images) are outside every checkout, so that a second
checkout does not build again. All that a cluster owns is found again by its name: its folder, its
cgroup, its network namespaces. `down` and crash recovery rely on nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.addresses import CLUSTERS, AddressPlan
from devcluster.problem import Problem

DEFAULT_STATE = "/var/lib/devcluster"
LOCKS = Path("/run/devcluster")
NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")


def state_root() -> Path:
    """Resolved, because the kernel names mounts and loop files by their real paths."""
    return Path(os.environ.get("DEVCLUSTER_STATE") or DEFAULT_STATE).resolve()


def cache_root() -> Path:
    return Path(os.environ.get("DEVCLUSTER_CACHE") or "/var/cache/devcluster").resolve()


def group(name: str) -> str:
    """The name under which a cluster's cgroups, namespaces and links are known on the machine.

    Clusters of another state folder have other names, so that no one ever ends another one's. The dots
    cannot be part of a cluster's name, so that no name is the beginning of another.
    """
    root = state_root()
    digest = "" if str(root) == DEFAULT_STATE else f".{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"
    return f"devcluster.{name}{digest}"


def default_name(checkout: Path) -> str:
    """Each checkout its own: the folder's name, and a few digits of its whole path."""
    word = re.sub(r"[^a-z0-9]+", "-", checkout.name.lower()).strip("-")[:16].rstrip("-")
    digits = hashlib.sha256(str(checkout.resolve()).encode()).hexdigest()[:5]
    return f"{word}-{digits}" if word[:1].isalpha() else f"c-{digits}"


def beside(name: str, process: str = "gw") -> str:
    """The cluster of another process of the same tests; or that with which the names of all these begin."""
    return f"{name[:25]}-{process}"


@dataclass(frozen=True)
class Record:
    """What was asked for when the cluster was made; it outlives every process of the cluster."""

    name: str
    index: int
    nodes: int
    kubernetes: str
    metrics: bool = False

    @property
    def group(self) -> str:
        return group(self.name)

    @property
    def folder(self) -> Path:
        return state_root() / self.name

    @property
    def addresses(self) -> AddressPlan:
        return AddressPlan(self.index)

    @property
    def node_numbers(self) -> range:
        return range(1, self.nodes + 1)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "pki" / "admin.kubeconfig"


def load_record(name: str) -> Record | None:
    file = state_root() / name / "cluster.json"
    try:
        return Record(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, TypeError):
        raise Problem(
            f"the record {file} is damaged; `devcluster down --name {name}` clears this cluster away"
        ) from None


def all_records() -> list[Record]:
    found = (load_record(file.parent.name) for file in sorted(state_root().glob("*/cluster.json")))
    return [record for record in found if record is not None]


def claim_record(
    name: str, nodes: int, kubernetes: str, metrics: bool, is_free: Callable[[AddressPlan], bool]
) -> Record:
    """Allot a new cluster the lowest free address range and write its record."""
    with registry_lock():
        taken = {record.index for record in all_records()}
        plans = (AddressPlan(index) for index in range(CLUSTERS) if index not in taken)
        plan = next(filter(is_free, plans), None)
        if plan is None:
            raise Problem(f"all {CLUSTERS} address ranges are in use; end a cluster with `devcluster down`")
        record = Record(name, plan.index, nodes, kubernetes, metrics)
        record.folder.mkdir(parents=True, exist_ok=True)
        (record.folder / "cluster.json").write_text(json.dumps(asdict(record)))
        return record


def require_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise Problem(
            f"the cluster name {name!r} will not do: use 1 to 30 lower-case letters, digits and dashes, "
            "a letter first"
        )
    return name


@contextlib.contextmanager
def _locked(name: str, busy: str | None) -> Iterator[None]:
    LOCKS.mkdir(exist_ok=True, mode=0o700)
    with (LOCKS / name).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise Problem(busy or "") from None
        yield


def registry_lock() -> contextlib.AbstractContextManager[None]:
    """Held while clusters are allotted or their shared parts change; short, so others wait for it."""
    return _locked("registry.lock", None)


def cluster_lock(name: str) -> contextlib.AbstractContextManager[None]:
    """Held by `up` and `down`; a second one on the same cluster is told so at once."""
    busy = f"another `devcluster up` or `down` is at work on cluster {name}; wait for it to end"
    return _locked(f"{group(name)}.lock", busy)


def kubelet_lock() -> contextlib.AbstractContextManager[None]:
    """Held while a kubelet starts: all of the machine take turns at one socket with a fixed path."""
    return _locked("kubelet.lock", None)


def packages_lock() -> contextlib.AbstractContextManager[None]:
    """Held while Debian's packages are installed: apt does not wait for another apt."""
    return _locked("packages.lock", None)


def cache_lock() -> contextlib.AbstractContextManager[None]:
    """Held while the cache changes: checkouts build one after the other, each finds the other's work."""
    return _locked("cache.lock", None)

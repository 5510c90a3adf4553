"""How a cluster is, for people: one look says what runs, what does not, and what is broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from devcluster import cgroups
from devcluster.api import Api, ApiError
from devcluster.embedded import ready_nodes
from devcluster.faults.record import Ledger
from devcluster.places import Record, all_records
from devcluster.processes import Processes

MIB = 1 << 20


def listing() -> str:
    records = all_records()
    if not records:
        return "no cluster exists on this machine; `devcluster up` makes one"
    rows = [("NAME", "KUBERNETES", "NODES", "ADDRESSES", "MEMORY")]
    for record in records:
        memory = cgroups.memory_bytes(record.group) // MIB
        api = f"{record.addresses.api}…"
        rows.append((record.name, record.kubernetes, str(record.nodes), api, f"{memory} MiB"))
    return table(rows)


def status(record: Record) -> str:
    """Nodes and control plane, line by line, and the faults under way."""
    processes = Processes(record)
    ready = _ready_nodes(record)
    rows = [("PLACE", "STATE", "ADDRESS", "MEMORY", "NOT RUNNING")]
    control = ["etcd", "apiserver", "controller-manager", "scheduler", "dns", "storage", "proxy"]
    if record.metrics:
        control.append("metrics")
    places = {"control": (record.addresses.api, control)}
    for number in record.node_numbers:
        places[f"node{number}"] = (record.addresses.node(number), ["containerd", "kubelet", "proxy"])
    for place, (address, parts) in places.items():
        missing = [part for part in parts if processes.pid(f"{place}/{part}") is None]
        memory = f"{cgroups.memory_bytes(processes.cgroup(place)) // MIB} MiB"
        rows.append((place, _state(place, ready, missing), address, memory, ", ".join(missing) or "–"))
    faults = Ledger(record.folder / "faults").all()
    lines = [f"cluster {record.name}, Kubernetes {record.kubernetes}", table(rows)]
    lines += ["faults under way:", *(f"  {fault}" for fault in faults)] if faults else []
    return "\n".join(lines)


def _state(place: str, ready: set[str] | None, missing: list[str]) -> str:
    if place == "control":
        return "up" if ready is not None and not missing else "down" if ready is None else "partly up"
    if ready is None:
        return "unknown"
    return "Ready" if place in ready else "NotReady"


def _ready_nodes(record: Record) -> set[str] | None:
    try:
        return ready_nodes(Api(record.kubeconfig))
    except (OSError, ApiError):
        return None


def table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)

"""What tests and people hold in their hands: a cluster, whichever provider it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from devcluster import embedded, images, report
from devcluster.api import Api
from devcluster.audit import AuditLog
from devcluster.binaries import Binaries, sets_for
from devcluster.command import Argument, run
from devcluster.control_plane import audit_log
from devcluster.faults import Faults
from devcluster.kubectl import Kubectl
from devcluster.places import Record, load_record, require_name
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.progress import Progress


class Cluster(Protocol):
    """What every provider offers."""

    name: str
    provider: str

    def up(self, wish: embedded.Wish, progress: Progress) -> None: ...
    def down(self, progress: Progress) -> bool: ...
    def status(self) -> str: ...
    def load(self, archives: Sequence[Path]) -> list[str]: ...

    @property
    def exists(self) -> bool: ...
    @property
    def is_up(self) -> bool: ...
    @property
    def kubeconfig(self) -> Path: ...
    @property
    def kubectl(self) -> Kubectl: ...


class EmbeddedCluster:
    """The cluster this package runs itself, with all it can do to it."""

    provider = "embedded"

    def __init__(self, name: str) -> None:
        self.name = require_name(name)

    def up(self, wish: embedded.Wish, progress: Progress) -> None:
        embedded.up(self.name, wish, progress)

    def down(self, progress: Progress) -> bool:
        self.__dict__.pop("binaries", None)
        return embedded.down(self.name, progress)

    @property
    def _known(self) -> Record | None:
        return load_record(self.name)

    @property
    def record(self) -> Record:
        record = self._known
        if record is None:
            raise Problem(f"there is no cluster {self.name}; `devcluster up --name {self.name}` makes one")
        return record

    @property
    def exists(self) -> bool:
        return self._known is not None

    @property
    def is_up(self) -> bool:
        known = self._known
        return known is not None and known.kubeconfig.exists() and Api(known.kubeconfig).is_ready()

    @property
    def kubeconfig(self) -> Path:
        return self.record.kubeconfig

    @cached_property
    def binaries(self) -> Binaries:
        return Binaries(sets_for(self.record.kubernetes, metrics=self.record.metrics))

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.binaries["kubectl"], self.kubeconfig)

    @property
    def api(self) -> Api:
        return Api(self.kubeconfig)

    @property
    def faults(self) -> Faults:
        return Faults(self.record, self.binaries)

    @property
    def audit(self) -> AuditLog:
        return AuditLog(audit_log(self.record))

    @property
    def node_names(self) -> list[str]:
        return [f"node{number}" for number in self.record.node_numbers]

    def run_in(self, place: str, *command: Argument) -> str:
        """Run a program of this machine in the network of a node, or of the control plane."""
        if place not in ["control", *self.node_names]:
            raise Problem(f"{place!r} is no place; there are control, {', '.join(self.node_names)}")
        return run(*command, inside=Processes(self.record).namespace(place))

    def status(self) -> str:
        return report.status(self.record)

    def load(self, archives: Sequence[Path]) -> list[str]:
        return images.load(self.record, self.binaries, list(archives))

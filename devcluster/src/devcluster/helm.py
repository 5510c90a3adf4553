"""Helm against one cluster: the machine's own, else one built from the Go module proxy, once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from devcluster import binaries
from devcluster.command import Argument, run
from devcluster.progress import Progress


def program(progress: Progress) -> str:
    return shutil.which("helm") or binaries.build(["helm"], progress)["helm"]


@dataclass(frozen=True)
class Helm:
    """Calls helm with the cluster's own kubeconfig, whatever the environment says."""

    program: str
    kubeconfig: Path

    def __call__(self, *arguments: Argument, timeout: float = 300) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return run(self.program, *arguments, environment=environment, timeout=timeout)

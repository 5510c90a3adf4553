"""kubectl against one cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devcluster.command import Argument, run


@dataclass(frozen=True)
class Kubectl:
    """Calls kubectl with the cluster's own kubeconfig, whatever the environment says."""

    program: str
    kubeconfig: Path

    def __call__(self, *arguments: Argument, stdin: str | None = None, timeout: float = 120) -> str:
        return run(self.program, f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin, timeout=timeout)

    def apply(self, manifest: str) -> None:
        self("apply", "-f", "-", stdin=manifest)

"""A cluster made by kind, where Docker and kind are there. Written by its documentation, untested here."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from devcluster.command import run
from devcluster.embedded import Wish
from devcluster.image_build import choose_tool
from devcluster.kubectl import Kubectl
from devcluster.places import cache_root
from devcluster.problem import Problem
from devcluster.progress import Progress


def is_possible() -> bool:
    return shutil.which("kind") is not None and choose_tool() == "docker"


class KindCluster:
    """Nodes are containers; one zone label each, as in the embedded cluster."""

    provider = "kind"

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def kubeconfig(self) -> Path:
        file = cache_root() / "kind" / f"{self.name}.kubeconfig"
        file.parent.mkdir(parents=True, exist_ok=True)
        run("kind", "export", "kubeconfig", "--name", self.name, "--kubeconfig", file)
        return file

    @property
    def kubectl(self) -> Kubectl:
        program = shutil.which("kubectl")
        if program is None:
            raise Problem("kubectl is not installed; provider `kind` needs it on the PATH")
        return Kubectl(program, self.kubeconfig)

    @property
    def exists(self) -> bool:
        return self.name in run("kind", "get", "clusters").split()

    @property
    def is_up(self) -> bool:
        return self.exists

    def up(self, wish: Wish, progress: Progress) -> None:
        if not is_possible():
            raise Problem("provider `kind` needs Docker with a running engine, and kind; install both")
        if wish.kubernetes or wish.metrics or wish.fresh:
            raise Problem("with kind, leave --kubernetes, --metrics and --fresh out")
        if self.is_up:
            return
        zones = [f"- role: worker\n  labels: {{topology.kubernetes.io/zone: zone-{number}}}"
                 for number in range(1, (wish.nodes or 3) + 1)]  # fmt: skip
        config = "\n".join(
            ["kind: Cluster", "apiVersion: kind.x-k8s.io/v1alpha4", "nodes:", "- role: control-plane", *zones]
        )
        progress.say(f"making kind cluster {self.name}")
        run("kind", "create", "cluster", "--name", self.name, "--config", "-", stdin=config, timeout=900)

    def down(self, progress: Progress) -> bool:
        was_up = self.is_up
        run("kind", "delete", "cluster", "--name", self.name, timeout=300)
        progress.say(f"kind cluster {self.name} is gone")
        return was_up

    def status(self) -> str:
        return self.kubectl("get", "nodes", "--output=wide").rstrip()

    def load(self, archives: Sequence[Path]) -> list[str]:
        for archive in archives:
            run("kind", "load", "image-archive", archive, "--name", self.name, timeout=600)
        return [f"{archive.name} → {self.name}" for archive in archives]

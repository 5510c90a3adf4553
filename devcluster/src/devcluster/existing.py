"""A cluster that somebody else runs: used as it is, never created, never ended."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from devcluster import images
from devcluster.embedded import Wish
from devcluster.kubectl import Kubectl
from devcluster.problem import Problem
from devcluster.progress import Progress


class ExistingCluster:
    """The cluster that KUBECONFIG names."""

    provider = "existing"

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def kubeconfig(self) -> Path:
        named = os.environ.get("KUBECONFIG", "")
        if not named:
            raise Problem("provider `existing` needs KUBECONFIG to name the kubeconfig of your cluster")
        file = Path(named)
        if not file.is_file():
            raise Problem(f"KUBECONFIG names {named}, which is not a file")
        return file

    @property
    def kubectl(self) -> Kubectl:
        program = shutil.which("kubectl")
        if program is None:
            raise Problem("kubectl is not installed; provider `existing` needs it on the PATH")
        return Kubectl(program, self.kubeconfig)

    @property
    def exists(self) -> bool:
        return True

    @property
    def is_up(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", timeout=15) == "ok"

    def up(self, wish: Wish, progress: Progress) -> None:
        if wish != Wish():
            raise Problem("an existing cluster is taken as it is; leave all options of `up` out")
        nodes = self._nodes()
        progress.say(f"using the cluster of {self.kubeconfig} as it is: {len(nodes)} nodes")

    def down(self, progress: Progress) -> bool:
        progress.say("an existing cluster is not ours to end; nothing was changed")
        return False

    def status(self) -> str:
        return self.kubectl("get", "nodes", "--output=wide").rstrip()

    def load(self, archives: Sequence[Path]) -> list[str]:
        """Images cannot be put into somebody else's nodes; says which ones the nodes will have to pull."""
        nodes = self._nodes()
        lines = []
        for image in (image for archive in archives for image in images.read(archive)):
            lacking = [name for name, has in nodes.items() if image.name not in has]
            if lacking:
                lines.append(f"{image.name} is not on {', '.join(lacking)}: push it where they pull from")
        return lines

    def _nodes(self) -> dict[str, set[str]]:
        listed = json.loads(self.kubectl("get", "nodes", "--output=json"))["items"]
        return {
            node["metadata"]["name"]: {
                name for image in node["status"].get("images", []) for name in image.get("names") or []
            }
            for node in listed
        }

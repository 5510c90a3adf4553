"""The operator's image under the name of another version."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from devcluster import image_build
from devcluster.cluster import Cluster
from devcluster.progress import Progress
from devcluster.provider import checkout

NAME = "valkey-operator/operator"
OURS = f"{NAME}:dev"


def load_as(cluster: Cluster, tag: str, folder: Path, source: Path | None = None) -> None:
    """The same image, or that of another checkout, on every machine, with this tag beside the usual one."""
    recipe = image_build.recipes((source or checkout()) / "images")[OURS]
    (built,) = image_build.build([recipe], Progress())
    cluster.load([_renamed(built, f"{NAME}:{tag}", folder / f"{tag}.tar")])


def _renamed(archive: Path, name: str, copy: Path) -> Path:
    with tarfile.open(archive) as source, tarfile.open(copy, "w") as target:
        for member in source:
            content = source.extractfile(member)
            data = content.read() if content is not None else b""
            if member.name == "index.json":
                data = data.replace(OURS.encode(), name.encode())
                member.size = len(data)
            target.addfile(member, io.BytesIO(data))
    return copy

"""Puts images into the nodes without a registry: only what changed, into all nodes at once."""

from __future__ import annotations

import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devcluster.binaries import Binaries
from devcluster.command import run
from devcluster.node import PAUSE_IMAGE, Node
from devcluster.pause import archive
from devcluster.places import Record
from devcluster.problem import Problem


@dataclass(frozen=True)
class Image:
    """An image in an OCI archive."""

    name: str
    digest: str
    file: Path


def read(file: Path) -> list[Image]:
    """The images in an archive, by the names containerd will know them under."""
    try:
        with tarfile.open(file) as tar:
            content = tar.extractfile("index.json")
            index = json.load(content) if content else {"manifests": []}
    except FileNotFoundError:
        raise Problem(f"there is no image archive {file}; `make images` builds ours") from None
    except (tarfile.TarError, KeyError, ValueError):
        raise Problem(
            f"{file} is not an OCI image archive; write one with `buildah push` or `save`"
        ) from None
    found = []
    for manifest in index["manifests"]:
        notes = manifest.get("annotations", {})
        name = notes.get("io.containerd.image.name") or notes.get("org.opencontainers.image.ref.name")
        if name is None:
            raise Problem(f"an image in {file} has no name; save it by name, not by id")
        found.append(Image(name, manifest["digest"], file))
    return found


def load(record: Record, binaries: Binaries, files: list[Path]) -> list[str]:
    """Import every archive into the nodes that lack its images; returns "image → node" for each import."""
    wanted = [(file, read(file)) for file in files]
    nodes = [Node(record, number) for number in record.node_numbers]
    with ThreadPoolExecutor(len(nodes)) as pool:
        done = list(pool.map(lambda node: _load_into(node, binaries, wanted), nodes))
    return [line for lines in done for line in lines]


def load_pause(node: Node, binaries: Binaries) -> None:
    file = archive(PAUSE_IMAGE, node.folder / "pause.tar")
    _load_into(node, binaries, [(file, read(file))])


def _load_into(node: Node, binaries: Binaries, wanted: list[tuple[Path, list[Image]]]) -> list[str]:
    present = _present(node, binaries)
    lines = []
    for file, images in wanted:
        if any(present.get(image.name) != image.digest for image in images):
            ctr(node, binaries, "images", "import", str(file), timeout=300)
            lines += [f"{image.name} → {node.name}" for image in images]
    return lines


def _present(node: Node, binaries: Binaries) -> dict[str, str]:
    rows = ctr(node, binaries, "images", "list").splitlines()[1:]
    return {row.split()[0]: row.split()[2] for row in rows}


def ctr(node: Node, binaries: Binaries, *arguments: str, timeout: float = 60) -> str:
    """containerd's own client, on one node."""
    return run(
        binaries["ctr"], "--address", node.socket, "--namespace", "k8s.io", *arguments, timeout=timeout
    )

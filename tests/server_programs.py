"""Valkey servers, and the exporter, as programs of this machine, taken out of our own images: no pods."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import IO

from devcluster import image_build
from devcluster.places import cache_root
from devcluster.progress import Progress
from devcluster.provider import checkout


def server_command(version: str = "9.1") -> tuple[str, ...]:
    """How to start this version's server: through the image's own loader, with the image's own libraries."""
    return program_command(f"valkey-operator/valkey:{version}", "valkey-server")


def exporter_command() -> tuple[str, ...]:
    return program_command("valkey-operator/exporter:1", "prometheus-redis-exporter")


def program_command(image: str, program: str) -> tuple[str, ...]:
    recipe = image_build.recipes(checkout() / "images")[image]
    (archive,) = image_build.build([recipe], Progress())
    root = cache_root() / "programs" / archive.stem
    if not root.exists():
        _unpack(archive, root)
    loader = next((root / "usr/lib64").glob("ld-linux-*"))
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    return str(loader), "--library-path", str(libraries), str(root / "usr/bin" / program)


def _unpack(archive: Path, root: Path) -> None:
    arriving = root.with_name(f".{root.name}.new")
    shutil.rmtree(arriving, ignore_errors=True)
    with tarfile.open(archive) as outer:
        manifest = _blob(outer, json.load(_member(outer, "index.json"))["manifests"][0]["digest"])
        for layer in json.load(manifest)["layers"]:
            with tarfile.open(fileobj=_blob(outer, layer["digest"])) as inner:
                inner.extractall(arriving, filter="tar")
    arriving.rename(root)


def _blob(archive: tarfile.TarFile, digest: str) -> IO[bytes]:
    return _member(archive, f"blobs/{digest.replace(':', '/')}")


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise ValueError(f"{name} is not a file of the archive")
    return found

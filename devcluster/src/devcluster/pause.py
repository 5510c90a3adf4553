"""The pause image, put together here from Debian's catatonit: a static init that holds a pod's namespaces."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from pathlib import Path

from devcluster.problem import Problem


def archive(image: str, target: Path) -> Path:
    """Write an OCI archive with the one program; the same program gives the same bytes."""
    program = shutil.which("catatonit")
    if program is None:
        raise Problem("catatonit is not installed; install Debian's package of that name")
    layer = _tar({"pause": Path(program).read_bytes()}, mode=0o755)
    compressed = gzip.compress(layer, mtime=0)
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": ["/pause", "-P"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs: dict[str, bytes] = {}

    def add(content: bytes, kind: str) -> dict[str, str | int]:
        blobs[f"blobs/sha256/{_digest(content).removeprefix('sha256:')}"] = content
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": _digest(content),
            "size": len(content),
        }

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": [add(compressed, "layer.v1.tar+gzip")],
    }
    entry = add(json.dumps(manifest).encode(), "manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": {"io.containerd.image.name": image}}]}
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **blobs,
    }
    target.write_bytes(_tar(files, mode=0o644))
    return target


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()

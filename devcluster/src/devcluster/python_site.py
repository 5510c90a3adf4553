"""The Python packages of an image: resolved by the lock file, made for the image's interpreter, on this machine.

So a build needs no package index, and the image holds exactly what was tested.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from devcluster.command import Argument, run
from devcluster.problem import Problem


def sources(checkout: Path) -> Iterator[Path]:
    """Every file that the result depends on."""
    yield checkout / "uv.lock"
    packages = (checkout / "src").rglob("*")
    yield from sorted(path for path in packages if path.is_file() and "__pycache__" not in path.parts)


def make(checkout: Path, version: str, folder: Path) -> None:
    """The project and all it needs, as a folder for the import path of that Python."""
    wanted = folder.with_suffix(".txt")
    run(_uv(checkout), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--project", checkout,
        "--output-file", wanted, timeout=120)  # fmt: skip
    install(checkout, version, folder, "--requirements", wanted)
    wanted.unlink()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(checkout / "src", folder, ignore=ignored, dirs_exist_ok=True)


def install(checkout: Path, version: str, folder: Path, *wanted: Argument) -> None:
    """Packages and all they need, for that Python."""
    run(_uv(checkout), "pip", "install", "--quiet", "--target", folder, "--python-version", version,
        "--python-platform", "linux", "--only-binary=:all:", *wanted, timeout=600)  # fmt: skip


def _uv(checkout: Path) -> str:
    found = os.environ.get("UV") or shutil.which("uv") or str(checkout / ".tools" / "bin" / "uv")
    if not Path(found).exists():
        raise Problem("uv is missing; run this by `make`, or install uv")
    return found

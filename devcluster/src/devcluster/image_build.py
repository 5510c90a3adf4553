"""Builds the images of `images/` into OCI archives: with docker or podman where present, else buildah.

Without a registry, buildah starts from a Debian made here by mmdebstrap from the machine's own package
mirror and named as the registry names it, so that one Containerfile serves both worlds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import machine, python_site
from devcluster.command import run
from devcluster.places import cache_lock, cache_root
from devcluster.problem import Problem
from devcluster.progress import Progress, duration

BASE = "docker.io/library/debian:trixie-slim"
BUILDAH_PROGRAMS = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",
}


@dataclass(frozen=True)
class Recipe:
    """One image: what it is called and what it is made of."""

    name: str
    folder: Path
    arguments: dict[str, str] = field(default_factory=dict)
    # The Python for which the project itself goes in, as `site/` beside what the images share.
    python: str = ""

    @property
    def full_name(self) -> str:
        return f"docker.io/{self.name}"

    @property
    def context(self) -> Path:
        """What the build sees: the folder of all images, for what several of them share."""
        return self.folder.parent

    @property
    def checkout(self) -> Path:
        return self.context.parent

    @property
    def archive(self) -> Path:
        digest = hashlib.sha256(json.dumps([self.name, self.arguments, self.python]).encode())
        shared = [path for path in self.context.iterdir() if path.name != "images.toml"]
        for file in sorted(path for path in [*shared, *self.folder.rglob("*")] if path.is_file()):
            digest.update(str(file.relative_to(self.context)).encode() + b"\0" + file.read_bytes())
        for file in python_site.sources(self.checkout) if self.python else ():
            digest.update(str(file.relative_to(self.checkout)).encode() + b"\0" + file.read_bytes())
        word = re.sub(r"[^a-z0-9.]+", "-", self.name)
        return cache_root() / "images" / f"{word}-{digest.hexdigest()[:12]}.tar"


def recipes(images: Path) -> dict[str, Recipe]:
    """All images of the folder, by name."""
    listing = images / "images.toml"
    if not listing.exists():
        raise Problem(f"{listing} is missing; run this in a checkout of the project")
    found = tomllib.loads(listing.read_text())["image"]
    made = [
        Recipe(item["name"], images / item["folder"], item.get("arguments", {}), item.get("python", ""))
        for item in found
    ]
    return {recipe.name: recipe for recipe in made}


def build(wanted: Sequence[Recipe], progress: Progress) -> list[Path]:
    """Build every image whose archive is not there yet; returns all archives."""
    if any(not recipe.archive.exists() for recipe in wanted):
        with cache_lock():
            missing = [recipe for recipe in wanted if not recipe.archive.exists()]
            (cache_root() / "images").mkdir(parents=True, exist_ok=True)
            tool = choose_tool()
            if tool == "buildah":
                _prepare_buildah(progress)
            for recipe in missing:
                _build(tool, recipe, progress)
    return [recipe.archive for recipe in wanted]


def choose_tool() -> str:
    """docker only with an engine that answers: the client alone builds nothing."""
    for tool, question in (("docker", "info"), ("podman", "version")):
        if shutil.which(tool):
            try:
                run(tool, question, timeout=30)
            except Problem:
                continue
            return tool
    return "buildah"


def _build(tool: str, recipe: Recipe, progress: Progress) -> None:
    started = time.monotonic()
    progress.say(f"building {recipe.name} with {tool}")
    arguments = [f"--build-arg={key}={value}" for key, value in sorted(recipe.arguments.items())]
    common = ["--file", str(recipe.folder / "Containerfile"), "--tag", recipe.full_name, *arguments]
    arriving = recipe.archive.with_suffix(".new")
    arriving.unlink(missing_ok=True)
    with _context(recipe) as context:
        if tool == "buildah":
            _buildah("build", "--pull-never", "--layers", *common, str(context))
            _buildah("push", recipe.full_name, f"oci-archive:{arriving}:{recipe.full_name}")
        else:
            run(tool, "build", *common, context, timeout=1800)
            oci = ["--format", "oci-archive"] if tool == "podman" else []
            run(tool, "save", *oci, "--output", arriving, recipe.full_name, timeout=600)
    arriving.rename(recipe.archive)
    _forget_old(recipe)
    size = recipe.archive.stat().st_size / 1e6
    progress.say(f"built {recipe.name}: {size:.1f} MB in {duration(time.monotonic() - started)}")


@contextlib.contextmanager
def _context(recipe: Recipe) -> Iterator[Path]:
    """What the build sees; with the project's own Python packages where the image wants them."""
    if not recipe.python:
        yield recipe.context
        return
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder) / "images"
        shutil.copytree(recipe.context, context)
        python_site.make(recipe.checkout, recipe.python, context / "site")
        yield context


def _forget_old(recipe: Recipe, keep: int = 4) -> None:
    """Other checkouts may use other versions of an image: the newest few stay."""
    pattern = re.sub(r"-[0-9a-f]{12}$", "-" + "?" * 12 + ".tar", recipe.archive.stem)
    archives = sorted(recipe.archive.parent.glob(pattern), key=lambda file: -file.stat().st_mtime)
    for old in archives[keep:]:
        old.unlink()


def _buildah(*arguments: str) -> str:
    storage = cache_root() / "buildah"
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
    command = ["buildah", "--root", str(storage), "--runroot", str(storage / "run"), *arguments]
    return run(*command, environment=environment, timeout=1800)


def _prepare_buildah(progress: Progress) -> None:
    machine.require_root()
    machine.install(BUILDAH_PROGRAMS, progress)
    if BASE in _buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
        return
    started = time.monotonic()
    progress.say(f"making {BASE} from Debian's packages")
    suite = "trixie"
    root = cache_root() / "images" / "debian.tar"
    nodocs = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale")]
    source = f"deb {debian_mirror()} {suite} main"
    run("mmdebstrap", "--variant=apt", "--include=ca-certificates", *nodocs, suite, root, source, timeout=900)
    container = _buildah("from", "scratch").strip()
    _buildah("add", container, str(root), "/")
    _buildah("commit", "--rm", container, BASE)
    root.unlink()
    progress.say(f"made it in {duration(time.monotonic() - started)}")


def debian_mirror() -> str:
    """The mirror this machine itself is set up with."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN)", "Created-By: Packages")
    for line in listed.splitlines():
        uri, _, origin = line.partition(" ")
        if origin == "Debian" and "security" not in uri:
            return uri
    raise Problem("this machine's apt knows no Debian mirror; run `apt-get update` and look at its sources")

"""Builds the programs of a cluster from the Go module proxy, once per version, into the machine's cache.

`binaries/SET/` holds a go.mod and go.sum that pin everything. Go's own caches make an interrupted build
resume where it stopped; a finished set is moved into place at once with the sizes and digests of its
files, so that half a set or a damaged one is never taken for a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from devcluster.command import run
from devcluster.places import cache_lock, cache_root
from devcluster.problem import Problem
from devcluster.progress import Meter, Progress

SOURCES = Path(__file__).parent / "binaries"
DEFAULT_KUBERNETES = "1.35"
# Linking a program takes as long as compiling this many packages (seen on two cores).
_LINK_WEIGHT = 60


def kubernetes_minors() -> list[str]:
    return sorted(folder.name.removeprefix("kubernetes-") for folder in SOURCES.glob("kubernetes-*"))


def require_kubernetes(minor: str) -> str:
    if minor not in kubernetes_minors():
        raise Problem(
            f"Kubernetes {minor} is not pinned here; choose one of {', '.join(kubernetes_minors())}"
        )
    return minor


def sets_for(minor: str, *, metrics: bool = False) -> list[str]:
    return [f"kubernetes-{minor}", "containerd", "etcd", "coredns", *(["metrics-server"] if metrics else [])]


class Binaries:
    """The folders with the programs of the sets asked for."""

    def __init__(self, sets: list[str]) -> None:
        self._folders = [_folder(name) for name in sets]

    def __getitem__(self, program: str) -> str:
        for folder in self._folders:
            if (folder / program).exists():
                return str(folder / program)
        raise Problem(f"the program {program} is in none of {', '.join(str(f) for f in self._folders)}")

    @property
    def path(self) -> str:
        return ":".join(str(folder) for folder in self._folders)


def is_built(sets: list[str]) -> bool:
    return all((_folder(name) / "complete.json").exists() for name in sets)


def build(sets: list[str], progress: Progress) -> Binaries:
    """Build what is missing, check what is there, and say where it all is."""
    for name in sets:
        if not is_built([name]):
            with cache_lock():
                if not is_built([name]):  # another checkout may have built it while we waited
                    _build(name, progress)
        _check(_folder(name))
    return Binaries(sets)


def _fingerprint(name: str) -> str:
    digest = hashlib.sha256()
    for file in sorted((SOURCES / name).iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _folder(name: str) -> Path:
    return cache_root() / "binaries" / f"{name}-{_fingerprint(name)}"


def _check(folder: Path) -> None:
    """Compare sizes at every start, and digests where a file was touched after the build."""
    marker = folder / "complete.json"
    mend = f"remove {folder} and run this again, it is then built anew"
    try:
        files: dict[str, dict[str, str | int]] = json.loads(marker.read_text())
        facts = [(name, known["size"], known["changed"], known["sha256"]) for name, known in files.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Problem(f"the cached programs are damaged ({marker} is unreadable): {mend}") from None
    for name, size, changed, digest in facts:
        file = folder / name
        if not file.exists():
            raise Problem(f"the cached program {file} is missing: {mend}")
        is_touched = file.stat().st_mtime_ns != changed
        if file.stat().st_size != size or (is_touched and _digest(file) != digest):
            raise Problem(f"the cached program {file} is damaged: {mend}")


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _build(name: str, progress: Progress) -> None:
    source, target = SOURCES / name, _folder(name)
    programs = _programs(source)
    label = f"building {name} ({_version(source)})"
    with tempfile.TemporaryDirectory(prefix="devcluster-build-") as scratch:
        # Go may want to touch go.sum beside go.mod; the pinned ones stay as they are.
        work, out = Path(scratch) / "source", Path(scratch) / "out"
        shutil.copytree(source, work)
        progress.say(f"{name}: fetching modules")
        _go(work, "mod", "download", timeout=1800)
        packages = _go(
            work, "list", "-trimpath", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *programs
        )
        meter = progress.meter(label, len(packages.split()) + _LINK_WEIGHT * len(programs))
        _compile(work, out, programs, name, meter)
        meter.close()
        _put_in_place(out, target)


def _programs(source: Path) -> list[str]:
    """The packages to build: the tools that go.mod names, or the main package of the folder itself."""
    text = (source / "go.mod").read_text()
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    if block:
        return block[1].split()
    single = re.search(r"^tool (\S+)$", text, re.MULTILINE)
    return [single[1]] if single else ["."]


def _version(source: Path) -> str:
    first = _programs(source)[0]
    for module, version in re.findall(
        r"^(?:require)?\s+(\S+) (v\S+)", (source / "go.mod").read_text(), re.MULTILINE
    ):
        if first.startswith(module) or first == ".":
            return str(version)
    raise Problem(f"{source}/go.mod pins no version of {first}")


def _environment() -> dict[str, str]:
    # GOTOOLCHAIN: never fetch another compiler; the one on the machine has to do.
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
    }


def _go(work: Path, *arguments: str, timeout: float = 600) -> str:
    return run("go", *arguments, folder=work, environment=_environment(), timeout=timeout)


def _compile(work: Path, out: Path, programs: list[str], name: str, meter: Meter) -> None:
    flags = ["-trimpath", "-v", "-ldflags", _link_flags(name, _version(work))]
    single = len(programs) == 1
    destination = out / name if single else out
    out.mkdir()
    command = ["go", "build", *flags, "-o", f"{destination}{'' if single else '/'}", *programs]
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, cwd=work, env=_environment(), stderr=said) as compiler:
            try:
                while compiler.poll() is None:
                    said.seek(0)
                    compiled = said.read().split("\n")
                    meter.show(len(compiled) + _LINK_WEIGHT * len(list(out.iterdir())), compiled[-2:][0])
                    time.sleep(0.2)
            except BaseException:
                compiler.terminate()  # Go's cache keeps what is compiled: the next build goes on from there
                raise
        said.seek(0)
        if compiler.returncode:
            raise Problem(f"building {name} failed:\n{said.read()[-2000:]}")


def _link_flags(name: str, version: str) -> str:
    flags = ["-s", "-w"]
    if name.startswith("kubernetes-"):
        major, minor = version.lstrip("v").split(".")[:2]
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X {package}.{key}={value}" for key, value in values.items()]
    return " ".join(flags)


def _put_in_place(out: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    files = {
        file.name: {"size": file.stat().st_size, "sha256": _digest(file)} for file in sorted(out.iterdir())
    }
    arriving = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(arriving, ignore_errors=True)
    shutil.copytree(out, arriving)
    for name, known in files.items():
        known["changed"] = (arriving / name).stat().st_mtime_ns
    (arriving / "complete.json").write_text(json.dumps(files, indent=1))
    shutil.rmtree(target, ignore_errors=True)
    arriving.rename(target)


def go_version() -> str:
    return run("go", "env", "GOVERSION").strip().removeprefix("go")

"""What the embedded cluster needs of the machine, checked before anything is touched."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from devcluster import binaries
from devcluster.places import cache_root, state_root
from devcluster.problem import Problem
from devcluster.progress import Progress

# program → Debian's package that brings it
PROGRAMS = {
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "runc": "runc",
    "mkfs.xfs": "xfsprogs",
    "nsenter": "util-linux",
    "losetup": "mount",
    "sysctl": "procps",
    "catatonit": "catatonit",
}
GIB = 1 << 30
MEMORY = 2 * GIB
DISK_TO_RUN = 3 * GIB
DISK_TO_BUILD = 12 * GIB
OLDEST_GO = (1, 26)


def require(sets: list[str], progress: Progress) -> None:
    """Raise a Problem with one sentence for the first thing that is missing and cannot be installed."""
    require_root()
    if platform.system() != "Linux":
        raise Problem("the embedded cluster needs Linux; elsewhere use `--provider kind` or `existing`")
    _require_memory()
    built = binaries.is_built(sets)
    _require_disk(state_root(), DISK_TO_RUN if built else DISK_TO_BUILD)
    if not built:
        _require_go()
    install(
        {program: package for program, package in PROGRAMS.items() if not shutil.which(program)}, progress
    )
    cache_root().mkdir(parents=True, exist_ok=True)


def require_root() -> None:
    if os.geteuid() != 0:
        raise Problem(
            "the embedded cluster needs root for network namespaces, mounts and cgroups; "
            "run this as root, or use `--provider kind` or `existing`"
        )


def install(missing: dict[str, str], progress: Progress) -> None:
    """Install Debian's packages for the missing programs, or say which ones to install."""
    if not missing:
        return
    names = " ".join(sorted(set(missing.values())))
    if not shutil.which("apt-get"):
        raise Problem(
            f"the programs {', '.join(sorted(missing))} are missing and this is no Debian; install them "
            f"(Debian calls the packages {names})"
        )
    progress.say(f"installing {names}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *names.split()]):
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Problem(
                f"`apt-get {' '.join(arguments)}` failed; install {names} yourself. It said: "
                f"{done.stderr.strip().splitlines()[-1:] or done.stdout.strip()[-300:]}"
            )


def _require_memory() -> None:
    available = _available_memory()
    if available < MEMORY:
        raise Problem(
            f"the cluster needs {MEMORY / GIB:.0f} GiB of free memory and {available / GIB:.1f} GiB "
            "are free; end something first"
        )


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise Problem("/proc/meminfo does not say how much memory is available")


def _require_disk(folder: Path, needed: int) -> None:
    place = next(parent for parent in [folder, *folder.parents] if parent.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise Problem(
            f"{folder} needs {needed / GIB:.0f} GiB of free disk and has {free / GIB:.1f} GiB; free some, or "
            "set DEVCLUSTER_STATE and DEVCLUSTER_CACHE to folders on a larger disk"
        )


def _require_go() -> None:
    wanted = ".".join(str(part) for part in OLDEST_GO)
    if not shutil.which("go"):
        raise Problem(
            f"Go is not installed; install Go {wanted} or later to build Kubernetes from its modules"
        )
    version = binaries.go_version()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_GO:
        raise Problem(f"Go {version} is too old; install Go {wanted} or later")

"""What the embedded cluster needs of the machine, checked before anything is touched."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from devcluster import binaries
from devcluster.places import cache_root, packages_lock, state_root
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
KERNEL: dict[str, Callable[[], bool]] = {
    "overlay": lambda: "\toverlay\n" in Path("/proc/filesystems").read_text(),
    "xfs": lambda: "\txfs\n" in Path("/proc/filesystems").read_text(),
    "loop": Path("/dev/loop-control").exists,
    "br_netfilter": Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists,
}
LONGEST_SOCKET = 107  # letters in the path of a unix socket
GIB = 1 << 30
MEMORY = 2 * GIB
DISK_TO_RUN = 3 * GIB
DISK_TO_BUILD = 8 * GIB
OLDEST_GO = (1, 26)


def require(sets: list[str], progress: Progress, *, is_running: bool = False) -> None:
    """Raise a Problem with one sentence for the first thing that is missing and cannot be installed."""
    if platform.system() != "Linux":
        raise Problem("the embedded cluster needs Linux; elsewhere use `--provider kind` or `existing`")
    require_root()
    _require_short_paths()
    if not is_running:
        _require_memory()
    built = binaries.is_built(sets)
    _require_disk(state_root(), DISK_TO_RUN)
    if not built:
        _require_disk(cache_root(), DISK_TO_BUILD)
        _require_go()
    install(PROGRAMS, progress)
    _require_kernel()
    cache_root().mkdir(parents=True, exist_ok=True)


def _require_short_paths() -> None:
    longest = state_root() / ("n" * 30) / "node1" / "containerd.sock.ttrpc"
    if len(str(longest)) > LONGEST_SOCKET:
        room = LONGEST_SOCKET - (len(str(longest)) - len(str(state_root())))
        raise Problem(
            f"the state folder {state_root()} has too long a path for sockets in it; set DEVCLUSTER_STATE to "
            f"one of at most {room} letters"
        )


def _require_kernel() -> None:
    """File systems and the bridge filter may be modules that nobody has loaded yet."""
    for module, sign in KERNEL.items():
        if not sign() and shutil.which("modprobe"):
            subprocess.run(["modprobe", module], capture_output=True, check=False)
        if not sign():
            raise Problem(f"this kernel has no {module}; load that module or use a kernel with it")


def require_root() -> None:
    if os.geteuid() != 0:
        raise Problem(
            "the embedded cluster needs root for network namespaces, mounts and cgroups; "
            "run this as root, or use `--provider kind` or `existing`"
        )


def install(programs: dict[str, str], progress: Progress) -> None:
    """Install Debian's packages for those that are missing, or say which ones to install."""
    if not _missing(programs):
        return
    with packages_lock():
        _install(_missing(programs), progress)


def _missing(programs: dict[str, str]) -> dict[str, str]:
    return {program: package for program, package in programs.items() if not shutil.which(program)}


def _install(missing: dict[str, str], progress: Progress) -> None:
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
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_GO:
        raise Problem(f"Go {version} is too old; install Go {wanted} or later")

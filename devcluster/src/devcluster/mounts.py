"""Mounts and loop devices below a folder: how they are found again and taken away."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path

from devcluster.command import CommandFailed, run
from devcluster.problem import Problem

_MNT_DETACH = 2


def below(folder: Path) -> list[Path]:
    """Mount points at or below the folder, the innermost and latest first."""
    points = [
        Path(line.split()[4].encode().decode("unicode_escape"))
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    ]
    return [point for point in reversed(points) if point == folder or folder in point.parents]


def unmount_below(folder: Path, patience: float = 10) -> None:
    deadline = time.monotonic() + patience
    while points := below(folder):
        for point in points:
            _unmount(point)
        if time.monotonic() > deadline:
            raise Problem(f"{points[0]} cannot be unmounted; something still uses it")


def _unmount(point: Path) -> None:
    # Lazy: a process that is just ending may hold it a moment longer, and nobody may open it again.
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(point), _MNT_DETACH):
        error = ctypes.get_errno()
        if point.exists() and point in below(point):
            raise Problem(f"{point} cannot be unmounted: {os.strerror(error)}")


def loop_device(file: Path) -> str | None:
    """The loop device that carries this file, if one does."""
    return next((device for device, carried in _loop_devices() if carried == file), None)


def attach(file: Path) -> str:
    return loop_device(file) or run("losetup", "--find", "--show", file).strip()


def detach(device: str) -> None:
    """Free a loop device; one that freed itself with its last mount is as good."""
    with contextlib.suppress(CommandFailed):
        run("losetup", "--detach", device)


def detach_below(folder: Path, patience: float = 10) -> None:
    """Free every loop device whose file lies below the folder."""
    deadline = time.monotonic() + patience
    while devices := [device for device, file in _loop_devices() if folder in file.parents]:
        for device in devices:
            detach(device)
        if time.monotonic() > deadline:
            raise Problem(f"the loop devices {', '.join(devices)} stay busy")
        time.sleep(0.02)


def _loop_devices() -> list[tuple[str, Path]]:
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # one that goes away while we look
            file = Path(backing.read_text().strip().removesuffix(" (deleted)"))
            found.append((f"/dev/{backing.parent.parent.name}", file))
    return found

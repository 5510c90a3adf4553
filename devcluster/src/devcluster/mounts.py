"""Mounts and loop devices below a folder: how they are found again and taken away."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from devcluster.command import run
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
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if backing.read_text().strip() == str(file):
            return f"/dev/{backing.parent.parent.name}"
    return None


def attach(file: Path) -> str:
    return loop_device(file) or run("losetup", "--find", "--show", file).strip()


def detach_below(folder: Path, patience: float = 10) -> None:
    """Free every loop device whose file lies below the folder."""
    deadline = time.monotonic() + patience
    while devices := _loop_devices_below(folder):
        for device in devices:
            run("losetup", "--detach", device)
        if time.monotonic() > deadline:
            raise Problem(f"the loop devices {', '.join(devices)} stay busy")
        time.sleep(0.02)


def _loop_devices_below(folder: Path) -> list[str]:
    return [
        f"/dev/{backing.parent.parent.name}"
        for backing in Path("/sys/block").glob("loop*/loop/backing_file")
        if folder in Path(backing.read_text().strip().removesuffix(" (deleted)")).parents
    ]

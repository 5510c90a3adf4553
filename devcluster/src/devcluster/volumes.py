"""Volumes with a real size: one file each, with a file system of its own, mounted through a loop device.

XFS, because it grows while mounted without the right CAP_SYS_RESOURCE, which ext4 asks for and which
confined machines withhold.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster import mounts
from devcluster.command import run
from devcluster.places import Record

# mkfs.xfs wants 300 MB; tests fill small volumes. It allows less when told that nobody will support it.
SMALLEST = 16 << 20


def folder(record: Record) -> Path:
    return record.folder / "volumes"


def mount_point(record: Record, volume: str) -> Path:
    return folder(record) / volume


def _file(record: Record, volume: str) -> Path:
    return folder(record) / f"{volume}.xfs"


def make(record: Record, volume: str, size: int) -> Path:
    """Make and mount the volume; doing it again changes nothing."""
    folder(record).mkdir(exist_ok=True)
    file = _file(record, volume)
    if not file.exists():
        arriving = file.with_suffix(".new")
        _set_size(arriving, size)
        run("mkfs.xfs", "-q", "-f", "-K", "--unsupported", arriving)
        arriving.rename(file)
    return mount(record, volume)


def mount(record: Record, volume: str) -> Path:
    point = mount_point(record, volume)
    point.mkdir(exist_ok=True)
    if not point.is_mount():
        run("mount", "-t", "xfs", "-o", "noatime", mounts.attach(_file(record, volume)), point)
    return point


def mount_all(record: Record) -> None:
    """After a reboot or a crash: every volume that has a file is mounted again."""
    for file in sorted(folder(record).glob("*.xfs")):
        mount(record, file.stem)


def grow(record: Record, volume: str, size: int) -> None:
    file = _file(record, volume)
    if file.stat().st_size < size:  # never smaller: the file system in it would lose its end
        _set_size(file, size)
    run("losetup", "--set-capacity", mounts.attach(file))
    run("xfs_growfs", "-d", mount_point(record, volume))


def remove(record: Record, volume: str) -> None:
    mounts.unmount_below(mount_point(record, volume))
    device = mounts.loop_device(_file(record, volume))
    if device:
        mounts.detach(device)
    _file(record, volume).unlink(missing_ok=True)
    shutil.rmtree(mount_point(record, volume), ignore_errors=True)


def _set_size(file: Path, size: int) -> None:
    with file.open("ab") as content:
        content.truncate(max(size, SMALLEST))

"""Starts, finds and stops the components of a cluster.

A component is named by its place: `control/etcd`, `node2/kubelet`. It runs in its own cgroup, in the
network namespace of its place, detached from whoever started it, and logs to its own file. A pid counts
only while the cgroup holds it, so a reused pid is never mistaken for ours.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import cgroups
from devcluster.places import Record
from devcluster.problem import Problem

# The shell joins the cgroup first, so that the component is born into it and never seen outside.
_LAUNCH = """
for file in $CGROUP_FILES; do echo $$ >"$file" || exit 97; done
unset CGROUP_FILES
setsid "$@" </dev/null >>"$LOG_FILE" 2>&1 &
echo $!
"""


# With which a program of Go's says why it ends; behind it are the stacks of all it was doing.
REASON = re.compile(r"panic: |fatal error: |F\d{4} ")
FEW = 5


@dataclass(frozen=True)
class Component:
    """A program with its arguments, at its place."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return self.name.split("/")[0]


class Processes:
    """The running components of one cluster."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._group = record.group

    def namespace(self, place: str) -> Path:
        return Path(f"/run/netns/{self._group}.{place}")

    def cgroup(self, name: str) -> str:
        return f"{self._group}/{name}"

    def log(self, name: str) -> Path:
        return self._record.folder / "log" / f"{name.replace('/', '-')}.log"

    def _pid_file(self, name: str) -> Path:
        return self._record.folder / "run" / f"{name.replace('/', '-')}.pid"

    def start(self, component: Component) -> None:
        """Start the component unless it runs already."""
        if self.pid(component.name) is not None:
            return
        for folder in ("log", "run"):
            (self._record.folder / folder).mkdir(exist_ok=True)
        files = cgroups.make_leaf(self.cgroup(component.name))
        surroundings = {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            "HOME": str(self._record.folder),
            "CGROUP_FILES": " ".join(str(file) for file in files),
            "LOG_FILE": str(self.log(component.name)),
            **component.environment,
        }
        enter = ("nsenter", f"--net={self.namespace(component.place)}")
        launched = subprocess.run(
            ["sh", "-c", _LAUNCH, "sh", *enter, *component.command],
            env=surroundings, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if launched.returncode:
            raise Problem(f"{component.name} could not be started in {self.cgroup(component.name)}")
        self._pid_file(component.name).write_text(launched.stdout.strip())

    def pid(self, name: str) -> int | None:
        try:
            pid = int(self._pid_file(name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid in cgroups.pids(self.cgroup(name)) else None

    def signal(self, name: str, number: signal.Signals) -> None:
        pid = self.pid(name)
        if pid is None:
            raise Problem(f"{name} of cluster {self._record.name} is not running")
        os.kill(pid, number)

    def kill(self, name: str, patience: float = 10) -> None:
        """End the component as a power cut would, and wait until it is gone."""
        deadline = time.monotonic() + patience
        while (pid := self.pid(name)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise Problem(f"{name} (pid {pid}) does not end")
            time.sleep(0.01)

    def last_words(self, name: str) -> str:
        """The end of a component's log, for an error text."""
        with contextlib.suppress(FileNotFoundError):
            return last_words(self.log(name).read_text(errors="replace"))
        return ""

    def require_running(self, name: str) -> None:
        if self.pid(name) is None:
            raise Problem(
                f"{name} ended right after its start; its last words, from {self.log(name)}:\n"
                f"{self.last_words(name)}"
            )


def last_words(log: str) -> str:
    lines = log.splitlines()
    reasons = [number for number, line in enumerate(lines) if REASON.match(line)]
    begin = reasons[-1] if reasons else max(0, len(lines) - FEW)
    return "\n".join(lines[begin : begin + FEW])

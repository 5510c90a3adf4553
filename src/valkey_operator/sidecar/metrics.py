"""What the sidecar counts about itself, in Prometheus' words; one name each, here and nowhere else.

By hand: the usual library would add a megabyte beside every server.
"""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from valkey_operator import __version__

PREFIX = "valkey_sidecar_"


class Count(enum.Enum):
    """A counter: its name, one of its labels, and what it counts."""

    SERVER_STARTS = "server_starts_total", "", "Starts of the server, or finds of one that ran already"
    SERVER_ENDS = "server_ends_total", "", "Ends of the server, of whatever kind"
    HANDOVERS = "handovers_total", "", "Stops of the pod that were asked for"
    CALLS_SERVED = "calls_total", 'result="served"', "Calls of the operator and of other nodes"
    CALLS_REFUSED = "calls_total", 'result="refused"', "Calls of the operator and of other nodes"
    HEARTBEATS_SENT = "heartbeats_total", 'result="sent"', "Heartbeats to the operator"
    HEARTBEATS_FAILED = "heartbeats_total", 'result="failed"', "Heartbeats to the operator"


class Counts:
    """Of one run of the sidecar."""

    def __init__(self) -> None:
        self._so_far = dict.fromkeys(Count, 0)

    def add(self, what: Count) -> None:
        self._so_far[what] += 1

    def __getitem__(self, what: Count) -> int:
        return self._so_far[what]


def page(
    counts: Counts, *, gate_is_open: bool, gate_is_asked: bool, server_is_up: bool, is_fenced: bool
) -> str:
    """Everything, as it is now."""
    lines = [
        *_gauge("info", "The version of this sidecar", 1, f'version="{__version__}"'),
        *_gauge("gate_open", "1 while a server is let in", gate_is_open),
        *_gauge("gate_waiting", "1 while a server stands at the gate and is kept waiting", gate_is_asked),
        *_gauge("server_up", "1 while the server answers", server_is_up),
        *_gauge("fenced", "1 while the server refuses writes because it may not be primary", is_fenced),
        *_counters(counts),
        *_process(),
    ]
    return "\n".join([*lines, ""])


def _gauge(name: str, help_text: str, value: float, labels: str = "") -> Iterator[str]:
    yield from _head(PREFIX + name, "gauge", help_text)
    yield _sample(PREFIX + name, labels, value)


def _counters(counts: Counts) -> Iterator[str]:
    described: set[str] = set()
    for what in Count:
        name, labels, help_text = what.value
        if name not in described:
            described.add(name)
            yield from _head(PREFIX + name, "counter", help_text)
        yield _sample(PREFIX + name, labels, counts[what])


def _process() -> Iterator[str]:
    """Under the names that every process has for these."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield from _head("process_resident_memory_bytes", "gauge", "Memory in use")
    yield _sample("process_resident_memory_bytes", "", pages * os.sysconf("SC_PAGE_SIZE"))
    yield from _head("process_cpu_seconds_total", "counter", "Processor time used")
    yield _sample("process_cpu_seconds_total", "", time.process_time())


def _head(name: str, kind: str, help_text: str) -> Iterable[str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: str, value: float) -> str:
    return f"{name}{{{labels}}} {float(value)}" if labels else f"{name} {float(value)}"

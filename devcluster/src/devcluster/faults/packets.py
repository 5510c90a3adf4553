"""Cuts, losses and delays on the network of a node or a pod, by packet filter in its own namespace.

The rules sit in the raw and mangle tables, where nothing else of a cluster puts rules: what comes in is
dropped before anything sees it, what goes out is dropped after everything has. A node's rules are on
eth0, so that what its own pods and clients say to each other goes on.
"""

from __future__ import annotations

from pathlib import Path

from devcluster.command import CommandFailed, run
from devcluster.problem import Problem

DIRECTIONS = ("both", "in", "out")


def drop(
    network: Path, mark: str, direction: str, peer: str | None = None, probability: float | None = None
) -> None:
    """Drop packets at eth0; `mark` names the rules so that they can be found and removed."""
    for rule in _rules(mark, direction, peer, probability):
        run("iptables", "--wait", "5", *rule, inside=network)


def restore(network: Path, mark: str) -> None:
    """Remove every rule with this mark."""
    for table in ("raw", "mangle"):
        saved = run("iptables-save", "--table", table, inside=network)
        for line in saved.splitlines():
            if line.startswith("-A") and f"--comment {mark} " in f"{line} ":
                run("iptables", "--wait", "5", "--table", table, "-D", *line.split()[1:], inside=network)


def _rules(mark: str, direction: str, peer: str | None, probability: float | None) -> list[list[str]]:
    if direction not in DIRECTIONS:
        raise Problem(f"a direction is one of {', '.join(DIRECTIONS)}, not {direction!r}")
    chance = (
        ["-m", "statistic", "--mode", "random", "--probability", f"{probability:.4f}"] if probability else []
    )
    tail = [*chance, "-m", "comment", "--comment", mark, "-j", "DROP"]
    rules = []
    if direction in ("both", "in"):
        source = ["-s", peer] if peer else []
        rules.append(["--table", "raw", "-I", "PREROUTING", "-i", "eth0", *source, *tail])
    if direction in ("both", "out"):
        destination = ["-d", peer] if peer else []
        rules.append(["--table", "mangle", "-I", "POSTROUTING", "-o", "eth0", *destination, *tail])
    return rules


def require_delay(network: Path) -> None:
    """Refuse on a kernel that cannot delay packets, by trying it on the loopback link of the namespace."""
    try:
        run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "0ms", inside=network)
    except CommandFailed:
        raise Problem("this kernel has no netem (CONFIG_NET_SCH_NETEM): packets cannot be delayed") from None
    run("tc", "qdisc", "delete", "dev", "lo", "root", inside=network)


def delay(network: Path, milliseconds: int) -> None:
    run(
        "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "delay", f"{milliseconds}ms", inside=network
    )


def undelay(network: Path) -> None:
    if "netem" in run("tc", "qdisc", "show", "dev", "eth0", inside=network):
        run("tc", "qdisc", "delete", "dev", "eth0", "root", inside=network)

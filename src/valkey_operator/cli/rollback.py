"""`kubectl valkey rollback NAME`: back to what was asked for when everything was well last.

The operator notes that spec beside the headless Service; this writes it into the object, and the operator does the rest
as with any change. How many servers there are, and how large their volumes, is left as it is: that is no roll.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from valkey_operator.api.layers import IMMUTABLE
from valkey_operator.cli import cluster
from valkey_operator.cli.command import Answer, Command, Problem
from valkey_operator.cli.paint import wrapped

if TYPE_CHECKING:
    from valkey_operator.cli.cluster import Cluster, Found

COUNTS = ("shards", "replicas")
KEPT = (*IMMUTABLE, *((name,) for name in COUNTS), ("paused",), ("persistence", "size"))


# A block of which a part stays is never taken out as a whole.
HAS_KEPT = {path[0] for path in KEPT if len(path) > 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cluster.add_name(parser, "of a Valkey or a ValkeyCluster")
    parser.add_argument("--plan", action="store_true", help="show what would be set back, and change nothing")
    cluster.add_arguments(parser)


def run(options: argparse.Namespace) -> Answer:
    return cluster.ask(options, lambda asked: _roll_back(options, asked))


async def _roll_back(options: argparse.Namespace, asked: Cluster) -> Answer:
    kind = await asked.kind_of(options.name)
    found = await asked.require(kind, options.name)
    good = await asked.last_good(found)
    if good is None:
        raise Problem(f"{options.name} has never been well, or not since this version looks after it")
    change = way_back(found["spec"], good)
    if not change:
        raise Problem(f"{options.name} asks for what it ran with when it was well last; nothing was changed")
    problem = obstacle(found, good)
    if options.plan:
        refused = f"kubectl valkey: without --plan it is refused: {problem}" if problem else ""
        lines = [*shown(found, change), "Nothing was changed."]
        return Answer("\n".join(lines), 1 if problem else 0, told=refused)
    if problem:
        raise Problem(problem)
    # Onto what was compared: somebody may change it in this moment.
    version = found["metadata"]["resourceVersion"]
    await asked.patch(kind, options.name, {"metadata": {"resourceVersion": version}, "spec": change})
    end = f"It was set back; `kubectl valkey status {options.name} -w` shows how far the servers are."
    return Answer("\n".join([*shown(found, change), end]))


def obstacle(found: Found, good: Found) -> str:
    """Memory and the replicas that a write waits for are right for as many servers as there were then."""
    for count in COUNTS:
        now, then = found["spec"].get(count), good.get(count)
        if now != then:
            name = found["metadata"]["name"]
            return (
                f"{name} asks for {now} {count}, and asked for {then} when it was well last: what was enough then may "
                f"not be now; ask for {then} {count} first, or set back by hand what --plan shows"
            )
    return ""


def way_back(now: Found, good: Found, path: tuple[str, ...] = ()) -> Found:
    """A merge patch; null takes a field out."""
    change: dict[str, Any] = {}
    for name in sorted({*now, *good}):
        before, after = now.get(name), good.get(name)
        if before == after or (*path, name) in KEPT:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            change |= {name: inner} if (inner := way_back(before, after, (*path, name))) else {}
        elif isinstance(before or after, dict) and name in HAS_KEPT:
            inner = way_back(before or {}, after or {}, (*path, name))
            change |= {name: inner} if inner else {}
        else:
            change[name] = after
    return change


def shown(found: Found, change: Found) -> list[str]:
    metadata = found["metadata"]
    lines = [f"{found['kind']} {metadata['namespace']}/{metadata['name']} goes back:"]
    for field, before, after in _fields(found["spec"], change):
        lines += wrapped(f"{field}: ", f"{before} becomes {after}", 2, 6)
    return lines


def _fields(now: Any, change: Found, path: str = "") -> list[tuple[str, str, str]]:
    found = []
    for name, after in change.items():
        before = now.get(name) if isinstance(now, dict) else None
        if isinstance(after, dict) and isinstance(before, dict):
            found += _fields(before, after, f"{path}{name}.")
        else:
            found.append((f"{path}{name}", _said(before), _said(after)))
    return found


def _said(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)


COMMAND = Command(
    "rollback",
    "Set a deployment back to what it asked for when everything was well last.",
    run,
    add_arguments,
)

"""`kubectl valkey switchover NAME`: another primary, of a Valkey or of one shard, without losing a write.

It writes one annotation; the operator looks whether it is safe, does it, and answers in `status.lastSwitchover`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from valkey_operator.api.requests import SWITCHOVER, SwitchoverRequest
from valkey_operator.cli import cluster
from valkey_operator.cli.command import Answer, Command, Problem

if TYPE_CHECKING:
    from valkey_operator.cli.cluster import Cluster, Found

TIMEOUT = 60.0
ANNOTATION_PATH = f"/metadata/annotations/{SWITCHOVER.replace('/', '~1')}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cluster.add_name(parser, "of a Valkey or a ValkeyCluster")
    parser.add_argument(
        "--to", metavar="NODE", default="", help="the new primary; of a Valkey the best replica by default"
    )
    add_waiting(parser)
    cluster.add_arguments(parser)


def add_waiting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for the outcome"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=TIMEOUT, metavar="SECONDS",
        help=f"how long to wait; default: {TIMEOUT:.0f}",
    )  # fmt: skip


def _seconds(text: str) -> float:
    seconds = float(text.removesuffix("s"))
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return seconds


def run(options: argparse.Namespace) -> Answer:
    return cluster.ask(options, lambda asked: _switch(options, asked))


async def _switch(options: argparse.Namespace, asked: Cluster) -> Answer:
    options.kind = await asked.kind_of(options.name)
    found = await asked.require(options.kind, options.name)
    if options.to and options.to in primaries(found):
        return Answer(f"{options.to} is the primary already")
    problem = obstacle(found, [node["metadata"]["name"] for node in await asked.nodes(found)], options.to)
    if problem:
        raise Problem(problem)
    request = SwitchoverRequest.new(options.to)
    await asked.patch(options.kind, options.name, {"metadata": {"annotations": {SWITCHOVER: str(request)}}})
    if not options.wait:
        return Answer(
            f"the operator was asked; `kubectl valkey status {options.name}` shows what comes of it"
        )
    return await _outcome(options, asked, request)


def primaries(found: Found) -> dict[str, int | None]:
    """By name, with the shard of each; a Valkey has one, and no shards."""
    status = found.get("status") or {}
    if found["kind"] == "Valkey":
        return {status["primary"]: None} if status.get("primary") else {}
    return {each["primary"]: each["shardIndex"] for each in status.get("shards") or () if each.get("primary")}


def obstacle(found: Found, nodes: list[str], to: str) -> str:
    """Why there is no need to ask the operator at all."""
    name, is_cluster = found["metadata"]["name"], found["kind"] == "ValkeyCluster"
    if is_cluster and not to:
        return f"{name} has a primary in each shard: name the new one with --to"
    if to and to not in nodes:
        return f"{name} has no node {to}; it has: {', '.join(nodes) or 'none'}"
    if found["spec"].get("replicas", 3 if is_cluster else 1) < 2:
        return f"{name} has no replica: there is nobody to hand over to"
    return ""


async def _outcome(options: argparse.Namespace, asked: Cluster, request: SwitchoverRequest) -> Answer:
    import asyncio  # noqa: PLC0415 - only who asks a cluster needs it

    try:
        async with asyncio.timeout(options.timeout):
            return await _followed(options, asked, request)
    except TimeoutError:
        if await _withdrawn(options, asked, request):
            problem = f"no operator has answered within {options.timeout:g} s; the request was withdrawn"
        else:
            how = f"`kubectl valkey status {options.name}` shows how it goes on"
            problem = f"the switchover is still under way after {options.timeout:g} s; {how}"
        raise Problem(problem) from None
    except asyncio.CancelledError:
        await _withdrawn(options, asked, request)
        raise


async def _followed(options: argparse.Namespace, asked: Cluster, request: SwitchoverRequest) -> Answer:
    said = ""
    async with aclosing(asked.changes(options.kind, options.name)) as changes:
        async for found in changes:
            answer = verdict(found, request)
            if answer is not None:
                return answer
            before, said = said, "; ".join(progress(found, request))
            if said and said != before:
                print(said, file=sys.stderr, flush=True)
    raise Problem(f"{options.kind} {options.name} is gone")


async def _withdrawn(options: argparse.Namespace, asked: Cluster, request: SwitchoverRequest) -> bool:
    """Take the request back, so that nothing happens hours later when nobody expects it; False when it was taken up."""
    from valkey_operator.kube import errors  # noqa: PLC0415 - only who asks a cluster needs it

    ours = [
        {"op": "test", "path": ANNOTATION_PATH, "value": str(request)},
        {"op": "remove", "path": ANNOTATION_PATH},
    ]
    try:
        found = await asked.patch(options.kind, options.name, ours)
    except errors.Invalid:  # another request stands there by now
        return True
    return bool(_last(found).get("id") != request.id)


def verdict(found: Found | None, request: SwitchoverRequest) -> Answer | None:
    """What came of the request; None as long as it is on its way."""
    if found is None:
        return None
    last = _last(found)
    if last.get("id") != request.id:
        standing = (found["metadata"].get("annotations") or {}).get(SWITCHOVER)
        if standing != str(request):
            raise Problem("the request was replaced by another one, or taken back")
        return None
    message = last.get("message") or "the operator gives no reason"
    if last["result"] == "Refused":
        raise Problem(f"refused, nothing was changed: {message}")
    if last["result"] == "Failed":
        raise Problem(f"it failed: {message}")
    return _done(found, last, request) if last["result"] == "Done" else None


def _done(found: Found, last: Found, request: SwitchoverRequest) -> Answer:
    status = found["status"]
    if found["kind"] == "ValkeyCluster":
        shard = request.to.split("-")[-2]
        return Answer(f"{request.to} is the primary of shard {shard} now")
    text = (
        f"{status.get('primary')} is the primary now, epoch {last.get('epoch', status.get('primaryEpoch'))}"
    )
    change = status.get("lastFailover") or {}
    if change.get("epoch") == last.get("epoch") and "writePauseMs" in change:
        text += f"; writes were paused for {change['writePauseMs']} ms"
    return Answer(text)


def progress(found: Found | None, request: SwitchoverRequest) -> Iterator[str]:
    """What people want to read while they wait."""
    status = (found or {}).get("status") or {}
    operation = status.get("operation") or {}
    if _last(found).get("id") == request.id and operation.get("step"):
        yield operation["step"]
    for step in status.get("next") or ():
        if step.get("refusedBy"):
            why = f": {step['why']}" if step.get("why") else ""
            yield f"{step['action']} is held back by {step['refusedBy']}{why}"


def _last(found: Found | None) -> Found:
    last: Found = ((found or {}).get("status") or {}).get("lastSwitchover") or {}
    return last


COMMAND = Command(
    "switchover",
    "Make another server the primary, without losing a write.",
    run,
    add_arguments,
)

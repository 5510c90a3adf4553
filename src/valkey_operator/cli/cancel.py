"""`kubectl valkey cancel NAME`: stops a resharding where it is.

It writes one annotation: the number of shards to which nothing moves any further. What is handed over as a whole is
called off; slots that are open, with keys at both ends, are finished first.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from valkey_operator.api.requests import STOP_RESHARDING
from valkey_operator.cli import cluster, reshard, switchover
from valkey_operator.cli.command import Answer, Command, Problem

if TYPE_CHECKING:
    from valkey_operator.cli.cluster import Cluster, Found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cluster.add_name(parser, "of a ValkeyCluster")
    switchover.add_waiting(parser)
    cluster.add_arguments(parser)


def run(options: argparse.Namespace) -> Answer:
    return cluster.ask(options, lambda asked: _cancel(options, asked))


async def _cancel(options: argparse.Namespace, asked: Cluster) -> Answer:
    import asyncio  # noqa: PLC0415 - only who asks a cluster needs it

    found = await asked.require(reshard.KIND, options.name)
    wished = reshard.wished_shards(found)
    problem = reshard.obstacle(found, wished)
    if problem:
        raise Problem(problem)
    if not reshard.plan(found, wished).moves:
        raise Problem(f"{options.name} moves no slots; nothing was changed")
    stop = {"metadata": {"annotations": {STOP_RESHARDING: str(wished)}}}
    await asked.patch(reshard.KIND, options.name, stop)
    if not options.wait:
        return Answer(f"the operator was asked to stop; {ways_on(options.name)}")
    try:
        async with asyncio.timeout(options.timeout):
            return await _followed(options, asked)
    except TimeoutError:
        why = f"no operator has said within {options.timeout:g} s that it has stopped; the request stands"
        raise Problem(f"{why}, and `kubectl valkey status {options.name}` shows what comes of it") from None


async def _followed(options: argparse.Namespace, asked: Cluster) -> Answer:
    said = ""
    async with aclosing(asked.changes(reshard.KIND, options.name)) as changes:
        async for found in changes:
            answer = verdict(found)
            if answer is not None:
                return answer
            before, said = said, ((found or {}).get("status", {}).get("operation") or {}).get("step", "")
            if said and said != before:
                print(said, file=sys.stderr, flush=True)
    raise Problem(f"{reshard.KIND} {options.name} is gone")


def verdict(found: Found | None) -> Answer | None:
    """Whether it stands still; None as long as the operator has not said so."""
    from valkey_operator.decide.resharding import BY_HAND  # noqa: PLC0415 - see above

    if found is None:
        return None
    name, status = found["metadata"]["name"], found.get("status") or {}
    left = reshard.plan(found, reshard.wished_shards(found)).remaining
    if not left:
        return Answer(f"every slot of {name} had moved before it could be stopped")
    held = {step.get("refusedBy") for step in status.get("next") or ()}
    if BY_HAND not in held or status.get("operation"):
        return None
    return Answer(f"stopped, {left} slots have not moved; {ways_on(name)}")


def ways_on(name: str) -> str:
    return f"`kubectl valkey reshard {name}` goes on, with --shards N to another number"


COMMAND = Command("cancel", "Stop a resharding of a ValkeyCluster where it is.", run, add_arguments)

"""`kubectl valkey status NAME`: how a Valkey or a ValkeyCluster is, what is being done to it, and what it waits for."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from valkey_operator.cli import cluster
from valkey_operator.cli.command import Answer, Command
from valkey_operator.cli.paint import Paint

if TYPE_CHECKING:
    from valkey_operator.cli.cluster import Cluster, Found
    from valkey_operator.cli.look import Look

# Before each look with --watch on a terminal: to the top, and nothing below.
CLEAR = "\x1b[H\x1b[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cluster.add_name(parser, "of a Valkey or a ValkeyCluster")
    cluster.add_arguments(parser)
    parser.add_argument("--output", "-o", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--watch", "-w", action="store_true", help="again whenever it changes, until Ctrl-C")


def run(options: argparse.Namespace) -> Answer:
    return cluster.ask(options, lambda asked: _show(options, asked))


async def _show(options: argparse.Namespace, asked: Cluster) -> Answer:
    kind = await asked.kind_of(options.name)
    if not options.watch:
        look = await gathered(asked, await asked.require(kind, options.name))
        return Answer(_text(options, look), 0 if look.is_well else 1)
    async with aclosing(asked.changes(kind, options.name)) as changes:
        async for valkey in changes:
            if valkey is not None:
                start = CLEAR if sys.stdout.isatty() and options.output == "text" else ""
                text = _text(options, await gathered(asked, valkey))
                print(f"{start}{text}\n", flush=True)
    return Answer(f"{kind} {options.name} is gone", 1)


def _text(options: argparse.Namespace, look: Look) -> str:
    from valkey_operator.cli.look import shown  # noqa: PLC0415 - only who asks a cluster needs it

    if options.output == "json":
        return json.dumps(look.as_json(), indent=2)
    return shown(look, datetime.now(UTC), Paint.on(sys.stdout))


async def gathered(asked: Cluster, valkey: Found) -> Look:
    from valkey_operator.cli.look import Look  # noqa: PLC0415 - see above

    name, nodes = valkey["metadata"]["name"], await asked.nodes(valkey)
    names = {(valkey["kind"], name), *(("ValkeyNode", node["metadata"]["name"]) for node in nodes)}
    events = await asked.events()
    if events is not None:
        events = [each for each in events if _about(each) in names]
    return Look(valkey, nodes, await asked.get("ValkeyCertificateBinding", f"{name}-cert-binding"), events)


def _about(event: Found) -> tuple[str, str]:
    regarding = event.get("regarding") or {}
    return regarding.get("kind", ""), regarding.get("name", "")


COMMAND = Command(
    "status", "Show how a deployment is, what is being done and what it waits for.", run, add_arguments
)

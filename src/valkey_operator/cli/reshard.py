"""`kubectl valkey reshard NAME`: another number of shards, or on with what was stopped; or only what would move.

The plan is made by the code that the operator plans with, from who owns what as the status tells it.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from valkey_operator.api.requests import STOP_RESHARDING
from valkey_operator.cli import cluster
from valkey_operator.cli.command import Answer, Command, Problem

if TYPE_CHECKING:
    from valkey_operator.cli.cluster import Cluster, Found
    from valkey_operator.decide.slots import Load, Move, SlotPlan

KIND = "ValkeyCluster"
UNEVEN = (
    "Every slot of a shard is taken for as large as its others. The operator counts their keys first: where these lie "
    "unevenly, it moves other slots, of the same size in all."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cluster.add_name(parser, "of a ValkeyCluster")
    parser.add_argument("--shards", type=int, metavar="N", help="how many; default: as many as it asks for")
    parser.add_argument("--plan", action="store_true", help="show what would move, and change nothing")
    parser.add_argument(
        "--output", "-o", choices=("text", "json"), default="text", help="of --plan; default: text"
    )
    cluster.add_arguments(parser)


def run(options: argparse.Namespace) -> Answer:
    return cluster.ask(options, lambda asked: _reshard(options, asked))


async def _reshard(options: argparse.Namespace, asked: Cluster) -> Answer:
    found = await asked.require(KIND, options.name)
    wished = wished_shards(found) if options.shards is None else options.shards
    problem = obstacle(found, wished)
    if problem:
        raise Problem(problem)
    planned = plan(found, wished)
    if options.plan:
        return shown(found, wished, planned, as_json=options.output == "json")
    change = changed(found, wished)
    if not change:
        raise Problem(f"{options.name} asks for {wished} shards already, and nothing was stopped")
    await asked.patch(KIND, options.name, change)
    how = f"`kubectl valkey status {options.name} -w` shows how far it is"
    return Answer(f"the operator was asked for {wished} shards, {planned.remaining} slots are to move; {how}")


def wished_shards(found: Found) -> int:
    return int(found["spec"].get("shards", 3))


def changed(found: Found, wished: int) -> Found:
    """What has to be written; nothing when all of it stands there."""
    change: Found = {}
    if wished != wished_shards(found):
        change["spec"] = {"shards": wished}
    if STOP_RESHARDING in (found["metadata"].get("annotations") or {}):
        change["metadata"] = {"annotations": {STOP_RESHARDING: None}}
    return change


def obstacle(found: Found, wished: int) -> str:
    """Why there is nothing to plan, or why the API server would refuse it."""
    from valkey_operator.api.validation import faults  # noqa: PLC0415 - only who asks a cluster needs it

    name, status = found["metadata"]["name"], found.get("status") or {}
    wrong = faults(KIND, {**found["spec"], "shards": wished})
    if wrong:
        return str(wrong[0])
    if not status.get("formed"):
        return f"{name} has not been formed yet: there is nothing to move"
    silent = [str(each["shardIndex"]) for each in status.get("shards") or () if not each.get("primary")]
    return (
        f"shard {', '.join(silent)} of {name} has no primary: nothing moves until it has one"
        if silent
        else ""
    )


def loads(found: Found) -> dict[int, Load]:
    from valkey_operator.decide.slots import Load  # noqa: PLC0415 - see above

    return {
        each["shardIndex"]: Load(
            _slots(each.get("slots", "")),
            each.get("usedBytes", 0),
            each.get("maxBytes", 0),
            each.get("usedBytes", 0),
        )
        for each in found["status"].get("shards") or ()
    }


def _slots(text: str) -> frozenset[int]:
    from valkey_operator.model.cluster import as_slots  # noqa: PLC0415 - see above

    ends = [part.partition("-") for part in text.split(",") if part]
    return as_slots((int(first), int(last or first)) for first, _, last in ends)


def plan(found: Found, wished: int) -> SlotPlan:
    """A shard that is not there yet has as much room as the first one."""
    from valkey_operator.decide import slots  # noqa: PLC0415 - see above

    seen = loads(found)
    room = next((load.max_bytes for load in seen.values()), 0)
    new = {shard: slots.Load(max_bytes=room) for shard in range(wished) if shard not in seen}
    return slots.plan({**seen, **new}, range(wished))


def shown(found: Found, wished: int, planned: SlotPlan, *, as_json: bool) -> Answer:
    """What does not fit ends with 1, as the operator would refuse it."""
    code = 1 if planned.too_small else 0
    if as_json:
        return Answer(json.dumps(_as_json(found, wished, planned), indent=2), code)
    return Answer("\n".join(_lines(found, wished, planned)), code)


def _as_json(found: Found, wished: int, planned: SlotPlan) -> Found:
    return {
        "name": found["metadata"]["name"],
        "shards": {"now": len(_owners(found)), "wanted": wished},
        "slots": planned.remaining,
        "bytes": planned.remaining_bytes,
        "moves": [_move(move) for move in planned.moves],
        "unowned": len(planned.unowned),
        "refusals": list(planned.too_small),
    }


def _move(move: Move) -> Found:
    from valkey_operator.model.cluster import as_text  # noqa: PLC0415 - see above

    return {
        "from": move.source, "to": move.target, "slots": as_text(move.slots), "count": len(move.slots),
        "bytes": move.bytes,
    }  # fmt: skip


def _owners(found: Found) -> list[int]:
    return [shard for shard, load in loads(found).items() if load.slots]


def _lines(found: Found, wished: int, planned: SlotPlan) -> list[str]:
    from valkey_operator.cli.paint import wrapped  # noqa: PLC0415 - see above
    from valkey_operator.decide.slots import size_text  # noqa: PLC0415
    from valkey_operator.model.cluster import as_text  # noqa: PLC0415

    metadata = found["metadata"]
    head = f"{KIND} {metadata['namespace']}/{metadata['name']}: "
    lines = [f"{head}{len(_owners(found))} shards own slots, {wished} are to"]
    for move in planned.moves:
        label = f"shard {move.source} to {move.target}"
        size = f", about {size_text(move.bytes)}" if move.bytes else ""
        lines += wrapped(label, f"{len(move.slots)} slots{size}: {as_text(move.slots)}", 2, 20)
    if planned.unowned:
        lines.append(f"{len(planned.unowned)} slots have no primary; they are left alone.")
    for why in planned.too_small:
        lines += wrapped("!", f"it would be refused: {why}", column=2)
    if planned.remaining_bytes:
        lines += wrapped("", UNEVEN, column=2)
    total = f"{planned.remaining} slots move" if planned.moves else "Nothing is to move"
    return [*lines, f"{total}; nothing was changed."]


COMMAND = Command(
    "reshard",
    "Give a ValkeyCluster another number of shards, or go on where it was stopped; --plan only shows it.",
    run,
    add_arguments,
)

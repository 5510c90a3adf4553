"""`kubectl valkey effective KIND NAME`: the values in force, and where each one comes from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from valkey_operator.api.layers import APPLIES, Effective, Layer, effective, lines, required
from valkey_operator.api.validation import Fault, faults, moved, unmet
from valkey_operator.cli import cluster
from valkey_operator.cli.cluster import Cluster
from valkey_operator.cli.command import Answer, Command, Problem

DEFAULTS = "ValkeyClusterDefaults"
OPERATOR_NAMESPACE = "valkey-system"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", help=", ".join(kind.lower() for kind in APPLIES))
    cluster.add_name(parser)
    cluster.add_arguments(parser)
    parser.add_argument("--operator-namespace", help=f"default: {OPERATOR_NAMESPACE}")
    parser.add_argument("--set-only", action="store_true", help="leave out what is built in")


def run(options: argparse.Namespace) -> Answer:
    kind = _kind(options.kind)
    return cluster.ask(options, lambda asked: _show(options, kind, asked))


async def _show(options: argparse.Namespace, kind: str, asked: Cluster) -> Answer:
    found = await asked.require(kind, options.name)
    layers, told = await _layers(asked, found["metadata"]["namespace"], options.operator_namespace)
    pinned = (found.get("status") or {}).get("pinned") or {}
    result = effective(kind, _spec(kind, found), layers, pinned)
    wrong = (
        faults(kind, result.values)
        + moved(result.values, pinned)
        + unmet(kind, result.values, required(layers))
    )
    return Answer(table(result, wrong, set_only=options.set_only), told="\n".join(told))


def _kind(text: str) -> str:
    for kind in APPLIES:
        if text.lower() in (kind.lower(), f"{kind.lower()}s"):
            return kind
    raise Problem(f"{text!r} is no deployment; choose one of {', '.join(kind.lower() for kind in APPLIES)}")


def _spec(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"] if kind == "ValkeyPool" else found["spec"]
    return spec


async def _layers(
    asked: Cluster, namespace: str, operator_namespace: str | None
) -> tuple[list[Layer], list[str]]:
    """The defaults that there are, and what is to be said of those that could not be found or seen."""
    from valkey_operator.kube import errors  # noqa: PLC0415 - only who asks a cluster needs it

    layers, told = [], []
    supposed = operator_namespace or OPERATOR_NAMESPACE
    for place in dict.fromkeys((supposed, namespace)):
        try:
            defaults = await asked.get(DEFAULTS, "defaults", place)
        except errors.Forbidden as error:
            told.append(f"defaults of {place}, if there are any, are left out: {error}")
            continue
        if defaults:
            layers.append(Layer(f"defaults of {place}", defaults.get("spec") or {}))
        elif place == supposed and not operator_namespace:
            told.append(
                f"no defaults were found in {place}: if the operator runs elsewhere, say --operator-namespace"
            )
    return layers, told


def table(result: Effective, wrong: Sequence[Fault], *, set_only: bool) -> str:
    """For people: field, value, origin; what is wrong comes last, where the eye ends."""
    rows = [row for row in lines(result) if not (set_only and row[2] == "built-in")]
    rows = [("FIELD", "VALUE", "FROM"), *rows]
    widths = [min(max(len(row[column]) for row in rows), 60) for column in range(2)]
    shown = [f"{field:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for field, value, origin in rows]
    return "\n".join([*shown, *([""] if wrong else []), *(f"wrong: {fault}" for fault in wrong)])


COMMAND = Command(
    "effective",
    "Show the values in force for a deployment, and where each one comes from.",
    run,
    add_arguments,
)

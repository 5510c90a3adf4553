"""What the reports on a Valkey and on a ValkeyCluster have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valkey_operator.decide.actions import Refusal
from valkey_operator.model.instance import SeenPod

LONGEST = 1024
MOST_NEXT = 16
# Of an action, for people: whom it is about.
NAMES = ("node", "name", "source", "target", "former", "primary", "to", "reason")


@dataclass(frozen=True)
class NextReport:
    """A step, what it is for or waits for, and the guard that holds it back, if one does."""

    action: str
    why: str = ""
    refused_by: str = ""


def next_steps(actions: Iterable[object], refusals: Iterable[Refusal]) -> tuple[NextReport, ...]:
    taken = [NextReport(type(action).__name__, _names(action)) for action in actions]
    refused = [NextReport(each.action, each.why, each.guard) for each in refusals]
    return tuple((refused + taken)[:MOST_NEXT])


def _names(action: object) -> str:
    found = (getattr(action, field, "") for field in NAMES)
    return " ".join(each for each in found if isinstance(each, str) and each)


def is_ready(pod: SeenPod | None) -> bool:
    return pod is not None and pod.is_ready and not pod.is_being_deleted


def troubles(pods: Iterable[tuple[str, SeenPod | None]]) -> list[str]:
    """Why pods do not come up; those in the same trouble share a sentence."""
    found: dict[str, list[str]] = {}
    for node, pod in pods:
        if pod is not None and pod.trouble and not is_ready(pod):
            found.setdefault(pod.trouble, []).append(node)
    return [f"{', '.join(nodes)}: {trouble}" for trouble, nodes in found.items()]


def message(*sentences: str) -> str:
    return "; ".join(dict.fromkeys(sentences))[:LONGEST]

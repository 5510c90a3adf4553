"""How a running pod gets other resources without a restart: in which order, and when only a new pod can have them.

Memory grows before the server may use it, and shrinks after the server has given it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from valkey_operator.api.quantity import amount, quantity_bytes

# Limits and requests, each by resource.
Resources = Mapping[str, Mapping[str, Any]]
PARTS = ("limits", "requests")


@dataclass(frozen=True)
class Memory:
    """What the server says of its memory, in bytes."""

    used: int
    most: int


@dataclass(frozen=True)
class SeenPod:
    """The server's container in its pod."""

    # What the pod is asked to be, what it is, and what stands in the way of that.
    asked: Resources
    applied: Resources
    obstacle: str = ""
    # Why the API server does not take the change; empty when it was not asked or has taken it.
    refused: str = ""
    memory: Memory | None = None


@dataclass(frozen=True)
class Plan:
    """Whether to ask for the change now; else what is waited for, or why only a restart brings it."""

    resize: bool = False
    waits_for: str = ""
    needs_restart: str = ""


def plan(wanted: Resources, maxmemory: int, pod: SeenPod) -> Plan:
    """`maxmemory` is what the server is told to keep below, 0 for nothing."""
    if _same(wanted, pod.asked):
        if pod.obstacle:
            return Plan(needs_restart=f"its resources cannot be changed in place: {pod.obstacle}")
        return Plan(waits_for="" if _same(wanted, pod.applied) else "the kubelet has yet to resize the pod")
    if pod.refused:
        return Plan(needs_restart=f"its resources cannot be changed in place: {pod.refused}")
    if _shrinks(wanted, pod.applied):
        return _shrink(quantity_bytes(wanted.get("limits", {})["memory"]) or 0, maxmemory, pod.memory)
    return Plan(resize=True)


def most_memory(wanted: Resources, maxmemory: int, applied: Resources) -> int | None:
    """What the server may use while its pod has less memory than is wanted; None when there is no such limit."""
    limit, now = (quantity_bytes(each.get("limits", {}).get("memory", "")) for each in (wanted, applied))
    if not limit or not now or now >= limit or not maxmemory:
        return None
    return int(maxmemory * Decimal(now) / Decimal(limit))


def _shrink(limit: int, maxmemory: int, memory: Memory | None) -> Plan:
    if memory is None:
        return Plan(waits_for="how much memory the server uses is not known, so its limit is not lowered yet")
    if maxmemory and (memory.most == 0 or memory.most > maxmemory):
        return Plan(waits_for=f"the server has yet to lower maxmemory to {maxmemory}")
    most = maxmemory or limit
    if memory.used > most:
        return Plan(waits_for=f"the server uses {memory.used} bytes, more than the {most} it shall have")
    return Plan(resize=True)


def _shrinks(wanted: Resources, applied: Resources) -> bool:
    limit, now = (amount(each.get("limits", {}).get("memory", "")) for each in (wanted, applied))
    return limit is not None and (now is None or limit < now)


def _same(one: Resources, other: Resources) -> bool:
    """As amounts, so that 1024Mi is 1Gi."""
    return all(_amounts(one, part) == _amounts(other, part) for part in PARTS)


def _amounts(resources: Resources, part: str) -> dict[str, Decimal | None]:
    """Requests that nobody gave are what the limits say: so does the API server."""
    given = dict(resources.get(part, {}))
    if part == "requests":
        given = {**resources.get("limits", {}), **given}
    return {name: amount(value) for name, value in given.items()}

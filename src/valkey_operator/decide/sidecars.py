"""Another image of the sidecar: put in place beside the running server, one pod at a time, the primary's last.

The kubelet starts that one container anew; the server goes on. So another version of the operator restarts no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from valkey_operator.api.guards import Guard
from valkey_operator.decide.actions import Doing, Refusal
from valkey_operator.model.instance import SeenPod

REPLACING = "SidecarUpdate"


@dataclass(frozen=True)
class Candidate:
    """A node; `is_back`: it does its part."""

    name: str
    pod: SeenPod | None
    is_primary: bool
    is_back: bool


@dataclass(frozen=True)
class Found:
    """Whose sidecar is next, or why none is; nothing at all when all are as wanted."""

    node: str = ""
    refusal: Refusal | None = None
    doing: Doing | None = None


def find(nodes: Sequence[Candidate], *, rolls: bool, may_begin: bool) -> Found:
    old = [each for each in nodes if each.pod is not None and each.pod.has_old_sidecar]
    changing = [each.name for each in nodes if each.pod is not None and each.pod.sidecar_is_changing]
    if not old and not changing:
        return Found()
    wish = "replace sidecars"
    if old and not changing and not rolls:
        why = "update.strategy is OnDelete: delete pods when it suits you"
        return Found(refusal=Refusal(wish, Guard.UPDATES_ARE_LEFT_TO_PEOPLE, why))
    if old and not changing and not may_begin:
        return Found(refusal=Refusal(wish, Guard.A_ROLL_BEGINS_IN_ITS_WINDOW, "update.window is closed now"))
    away = sorted({*changing, *(each.name for each in nodes if not each.is_back)})
    done = len(nodes) - len(old)
    if away:
        why = f"{', '.join(away)} must be back first"
        refusal = Refusal(wish, Guard.ONLY_ONE_SIDECAR_IS_REPLACED_AT_A_TIME, why) if old else None
        return Found(
            refusal=refusal, doing=Doing(REPLACING, f"waits for {', '.join(away)}", done, len(nodes))
        )
    node = min(old, key=lambda each: (each.is_primary, each.name)).name
    return Found(node, doing=Doing(REPLACING, f"the sidecar of {node} is replaced", done, len(nodes)))

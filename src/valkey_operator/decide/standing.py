"""Conditions of every deployment: do its servers run with what is asked for, and does that put data at risk? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valkey_operator.api.reasons import ConditionType, Reason
from valkey_operator.api.status import State
from valkey_operator.decide.conditions import Condition
from valkey_operator.model.deployment import Deployment


@dataclass(frozen=True)
class NodeWord:
    """What a node says of its configuration."""

    name: str
    generation: int
    status: Mapping[str, Any]

    @property
    def is_behind(self) -> bool:
        """It has not seen its newest spec; one that was just made has said nothing yet, and starts with that."""
        return bool(self.status.get("observedGeneration", self.generation) != self.generation)

    def objection(self) -> tuple[str, str] | None:
        """Why something is not in force there, and the sentence."""
        for each in self.status.get("conditions") or ():
            if each["type"] == ConditionType.CONFIG_APPLIED and each["status"] == "False":
                return each["reason"], each["message"]
        return None


def is_good(generation: int, status: Mapping[str, Any], nodes: Iterable[NodeWord]) -> bool:
    """Everything runs with what is asked for, and is well."""
    is_seen = (status.get("state"), status.get("observedGeneration")) == (State.READY, generation)
    words = list(nodes)
    is_applied = bool(words) and _last(status).get("status") == "True"
    return is_seen and is_applied and all(map(_runs_with_it, words))


def _runs_with_it(node: NodeWord) -> bool:
    return "observedGeneration" in node.status and not node.is_behind and node.objection() is None


def standing(
    deployment: Deployment, generation: int, status: Mapping[str, Any], nodes: Iterable[NodeWord],
    denied: Sequence[str] = (),
) -> list[Condition]:  # fmt: skip
    """`status` as it was told last; `denied`: what the API server does not let be made."""
    is_new = status.get("observedGeneration") != generation
    is_on_its_way = is_new or _last(status).get("reason") == Reason.CONFIG_ON_ITS_WAY
    if deployment.value("paused"):
        # What has changed since then reaches nobody, and is compared with nothing.
        applied = Condition(ConditionType.CONFIG_APPLIED, None, Reason.PAUSED, Reason.PAUSED.sentence)
    else:
        applied = _config_applied(list(nodes), denied, is_on_its_way=is_on_its_way)
    return [applied, _warning(deployment)]


def _last(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was said of it last."""
    found = (each for each in status.get("conditions") or () if each["type"] == ConditionType.CONFIG_APPLIED)
    return next(found, {})


def _config_applied(nodes: list[NodeWord], denied: Sequence[str], *, is_on_its_way: bool) -> Condition:
    """What is refused is for a person to mend, and comes before what ends by itself. Nodes get new specs with every
    change of a primary, too: only after another wish they are waited for."""
    if denied:
        return Condition(ConditionType.CONFIG_APPLIED, False, Reason.DENIED, "; ".join(denied))
    said: dict[tuple[str, str], list[str]] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        if objection := node.objection():
            said.setdefault(objection, []).append(node.name)
    if not said:
        is_waited_for = is_on_its_way and any(each.is_behind for each in nodes)
        reason = Reason.CONFIG_ON_ITS_WAY if is_waited_for else Reason.CONFIG_IN_FORCE
        return Condition(ConditionType.CONFIG_APPLIED, not is_waited_for, reason, reason.sentence)
    first = min(said, key=lambda each: each[0] != Reason.CONFIG_REFUSED)
    message = "; ".join(f"{', '.join(names)}: {sentence}" for (_, sentence), names in said.items())
    return Condition(ConditionType.CONFIG_APPLIED, False, first[0], message)


def _warning(deployment: Deployment) -> Condition:
    is_risky = deployment.value("replicas", 1) == 1 and deployment.value("persistence.enabled") is False
    reason = Reason.ONE_COPY if is_risky else Reason.NOTHING_RISKY
    return Condition(ConditionType.WARNING, is_risky, reason, reason.sentence)

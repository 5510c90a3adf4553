"""Conditions of every deployment: do its servers run with what is asked for, and does that put data at risk? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def objection(self) -> tuple[str, str] | None:
        """Why something is not in force there, and the sentence. A node that was just made has said nothing yet, and
        starts with the newest."""
        if self.status.get("observedGeneration", self.generation) != self.generation:
            return Reason.CONFIG_ON_ITS_WAY, Reason.CONFIG_ON_ITS_WAY.sentence
        for each in self.status.get("conditions") or ():
            if each["type"] == ConditionType.CONFIG_APPLIED and each["status"] == "False":
                return each["reason"], each["message"]
        return None


def is_good(generation: int, status: Mapping[str, Any], nodes: Iterable[NodeWord]) -> bool:
    """Everything runs with what is asked for, and is well."""
    is_seen = (status.get("state"), status.get("observedGeneration")) == (State.READY, generation)
    words = list(nodes)
    return is_seen and bool(words) and all(_runs_with_it(each) for each in words)


def _runs_with_it(node: NodeWord) -> bool:
    is_told = node.status.get("observedGeneration") == node.generation
    return is_told and not node.status.get("needsRestart") and node.objection() is None


def standing(deployment: Deployment, nodes: Iterable[NodeWord]) -> list[Condition]:
    return [_config_applied(nodes), _warning(deployment)]


def _config_applied(nodes: Iterable[NodeWord]) -> Condition:
    """What is refused is for a person to mend, and comes before what ends by itself."""
    said: dict[tuple[str, str], list[str]] = {}
    for node in sorted(nodes, key=lambda each: each.name):
        if objection := node.objection():
            said.setdefault(objection, []).append(node.name)
    if not said:
        reason = Reason.CONFIG_IN_FORCE
        return Condition(ConditionType.CONFIG_APPLIED, True, reason, reason.sentence)
    first = min(said, key=lambda each: each[0] != Reason.CONFIG_REFUSED)
    message = "; ".join(f"{', '.join(names)}: {sentence}" for (_, sentence), names in said.items())
    return Condition(ConditionType.CONFIG_APPLIED, False, first[0], message)


def _warning(deployment: Deployment) -> Condition:
    is_risky = deployment.value("replicas", 1) == 1 and deployment.value("persistence.enabled") is False
    reason = Reason.ONE_COPY if is_risky else Reason.NOTHING_RISKY
    return Condition(ConditionType.WARNING, is_risky, reason, reason.sentence)

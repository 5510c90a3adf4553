"""Rules about where pods run choose pods by label, and other operators label theirs in another way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

INSTANCE = "app.kubernetes.io/instance"
HOSTNAME = "kubernetes.io/hostname"
REWRITTEN = f"pods here carry the deployment's name in {INSTANCE}: label selectors were changed from app"


def rewrite(rules: Any, label: str, name: str) -> tuple[Any, bool]:
    """The rules with `label: name` in their selectors written as our pods have it; whether anything changed."""
    if isinstance(rules, list):
        parts = [rewrite(rule, label, name) for rule in rules]
        return [part for part, _ in parts], any(changed for _, changed in parts)
    if not isinstance(rules, dict):
        return rules, False
    if rules.get("key") == label and rules.get("values") == [name]:
        return {**rules, "key": INSTANCE}, True
    renewed, changed = {}, False
    for key, value in rules.items():
        if key == "matchLabels" and isinstance(value, dict) and value.get(label) == name:
            rest = {other: text for other, text in value.items() if other != label}
            renewed[key], changed = {INSTANCE: name, **rest}, True
        else:
            renewed[key], inner = rewrite(value, label, name)
            changed = changed or inner
    return renewed, changed


def labels_chosen(rules: Any) -> Iterator[str]:
    """The labels of pods that rules choose by."""
    if isinstance(rules, list):
        for rule in rules:
            yield from labels_chosen(rule)
    elif isinstance(rules, dict):
        if isinstance(rules.get("matchLabels"), dict):
            yield from rules["matchLabels"]
        if isinstance(rules.get("key"), str):
            yield rules["key"]
        for value in rules.values():
            yield from labels_chosen(value)


def apart(topology: str, name: str) -> dict[str, Any]:
    """Pods of a deployment away from each other where that is possible."""
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {INSTANCE: name}}}
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}

"""CRDs of another operator under our names: they are told from ours, and left alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from valkey_operator.api.group import CATEGORY

ADVICE = (
    "another operator's CRD under a name of ours, and is left alone: remove that operator and its CRDs, with which its "
    "deployments go (`kubectl valkey convert` turns their manifests into ours), or use another Kubernetes cluster"
)


def refusal(categories: Mapping[str, Collection[str]]) -> str | None:
    """Why this operator must not be here, or None. `categories`: those of each CRD that has a name of ours."""
    foreign = sorted(name for name, found in categories.items() if CATEGORY not in found)
    return f"{', '.join(foreign)}: {ADVICE}" if foreign else None

"""A deployment as the controllers see it: its names, and the values that the layers have given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Tree = Mapping[str, Any]


@dataclass(frozen=True)
class Owner:
    """The object on whose behalf another one is made."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Deployment:
    """A Valkey, ValkeyCluster, ValkeyPool or Sentinel with its values in force."""

    kind: str
    name: str
    namespace: str
    uid: str
    values: Tree
    # What it must have, `tls` or `auth`, and whose defaults say so.
    required: Mapping[str, str] = field(default_factory=dict)
    # What its status says was given at creation, of what cannot be changed.
    pinned: Tree = field(default_factory=dict)
    # Of values that nobody wrote into its spec, and that are not built in, whose defaults they are, by their fields.
    lent: Mapping[str, str] = field(default_factory=dict)

    def value(self, path: str, otherwise: Any = None) -> Any:
        """`persistence.aof.enabled`, or `otherwise` where nothing was said."""
        found: Any = self.values
        for part in path.split("."):
            if not isinstance(found, Mapping) or part not in found:
                return otherwise
            found = found[part]
        return found

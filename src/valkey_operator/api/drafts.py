"""Fields of early drafts of this API, which share its group, version and kinds.

They are known to the CRD only to be refused: a client without strict field validation would otherwise drop
them silently, and a manifest of a draft would become a cluster of defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from valkey_operator.api.model import Rule


@dataclass(frozen=True)
class Draft:
    """A field that is no more, and what to write instead."""

    type: str
    instead: str

    def as_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": self.type,
            "description": f"Of an early draft, and refused: {self.instead}.",
        }
        if self.type == "object":
            schema["x-kubernetes-preserve-unknown-fields"] = True
        return schema


def refusal(name: str, draft: Draft) -> Rule:
    return Rule(
        f"!has(self.{name})",
        f"{name} belongs to an early draft: {draft.instead}; `kubectl valkey convert` translates such manifests",
        field_path=f".{name}",
    )


DRAFTS = {
    "masterCount": Draft("integer", "write shards"),
    "masters": Draft("integer", "write shards"),
    "replicasPerMaster": Draft("integer", "write replicas, which counts the primary too"),
    "clusterType": Draft("string", "the kind itself says it"),
    "valkeyImage": Draft("object", "write image"),
    "sidecarImage": Draft("object", "write sidecar.image"),
    "pvc": Draft("object", "write persistence"),
    "backup": Draft("object", "write persistence.rdb and persistence.aof"),
    "acl": Draft("object", "write auth.acl or auth.aclRef"),
    "clusterPassword": Draft("string", "write auth"),
    "operatorMtls": Draft("object", "write sidecar.mtls"),
}

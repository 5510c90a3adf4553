"""Whose manifest is it? The drafts and the official operator share our group, version and a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from valkey_operator.api.deployments import ValkeyClusterSpec
from valkey_operator.api.drafts import DRAFTS
from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.dialects import DRAFT, OFFICIAL, OURS, draft_policies, drafts, official, smoketurner
from valkey_operator.dialects.acceptance import SPECS, is_ours
from valkey_operator.dialects.conversion import Conversion
from valkey_operator.dialects.reading import BadManifest, Document

Converter = Callable[[Conversion], None]

OFFICIAL_ALONE = {
    "scheduling", "workloadType", "users", "containers", "networking", "podDisruptionBudget",
    "podSecurityContext",
}  # fmt: skip
# Fields that stand at the same place here and there.
OFFICIAL_TOO = {
    "image", "imagePullSecrets", "shards", "replicas", "resources", "exporter", "persistence", "config", "tls",
    "tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "priorityClassName",
    "terminationGracePeriodSeconds",
}  # fmt: skip
DRAFT_ALONE = {*DRAFTS, "podAffinity", "podAntiAffinity", "nodeAffinity"}
OURS_ALONE = {
    field.alias or name for name, field in ValkeyClusterSpec.model_fields.items()
} - OFFICIAL_TOO  # fmt: skip
# Blocks that tell by what is in them.
INSIDE_OFFICIAL = {"tls": {"certificate"}, "exporter": {"args", "securityContext"}}
INSIDE_OURS = {"persistence": {"enabled", "rdb", "aof"}, "exporter": {"port", "imagePullPolicy"}}

DRAFT_KINDS: Mapping[str, Converter] = {
    "ValkeyStandalone": drafts.convert_standalone,
    "ValkeySentinel": drafts.convert_sentinel,
    "ValkeyOperatorDefaults": drafts.convert_defaults,
    "ValkeyOperatioDefaults": drafts.convert_defaults,  # as a draft spelt it
    "ValkeyClusterStatus": draft_policies.convert_status,
    "ValkeyCertificateBundle": draft_policies.convert_own,
    "ValkeyCertificateBinding": draft_policies.convert_own,
}
# Kinds that are ours too, under the same name and with another content.
DRAFT_SHAPES: Mapping[str, Converter] = {
    "ValkeyClusterTls": draft_policies.convert_tls,
    "ValkeyCA": draft_policies.convert_ca,
}
SMOKETURNER_KINDS: Mapping[str, Converter] = {
    "ValkeyCluster": smoketurner.convert_cluster,
    "ValkeyUpgrade": smoketurner.convert_upgrade,
}


def is_foreign(document: Document) -> bool:
    """Of another API altogether."""
    return document.group not in (GROUP, smoketurner.GROUP)


def converter(document: Document, chosen: str | None) -> tuple[str, Converter | None]:
    """The dialect's name and what converts it; None for what is ours already."""
    version = str(document.content["apiVersion"]).rpartition("/")[2]
    if version != VERSION:
        raise BadManifest(f"{document.place}: there is no version {version} of {document.group}")
    if document.group == smoketurner.GROUP:
        if document.kind not in SMOKETURNER_KINDS:
            raise BadManifest(f"{document.place}: {document.group} has no kind {document.kind}")
        return smoketurner.NAME, SMOKETURNER_KINDS[document.kind]
    return _of_our_group(document, chosen)


def _of_our_group(document: Document, chosen: str | None) -> tuple[str, Converter | None]:
    kind, spec = document.kind, document.content.get("spec")
    if kind in DRAFT_KINDS:
        return drafts.NAME, DRAFT_KINDS[kind]
    if kind not in SPECS:
        raise BadManifest(f"{document.place}: {GROUP}/{VERSION} has no kind {kind}")
    if kind == "ValkeyNode":
        return official.NAME, official.convert_node
    if kind == "ValkeyCluster":
        return _cluster(document, chosen)
    if kind == "ValkeyClusterDefaults" and (_marks(spec) & {DRAFT} or document.name != "defaults"):
        return drafts.NAME, drafts.convert_defaults
    if kind in DRAFT_SHAPES and not is_ours(kind, spec):
        return drafts.NAME, DRAFT_SHAPES[kind]
    return "this API", None


def _cluster(document: Document, chosen: str | None) -> tuple[str, Converter | None]:
    marks = _marks(document.content.get("spec"))
    told = DRAFT if DRAFT in marks else next(iter(marks)) if len(marks) == 1 else chosen
    if told is None:
        why = "mixes their fields" if marks else "has only fields that both know"
        raise BadManifest(
            f"{document.place}: the ValkeyCluster {document.name} may be the official operator's, whose replicas "
            f"leave the primary out, or this one's: it {why}; say --from official or --from this"
        )
    known: Mapping[str, tuple[str, Converter | None]] = {
        DRAFT: (drafts.NAME, drafts.convert_cluster),
        OFFICIAL: (official.NAME, official.convert_cluster),
        OURS: ("this API", None),
    }
    return known[told]


def _marks(spec: Any) -> set[str]:
    """Who must have written a ValkeyCluster's spec; nobody in particular when it is empty."""
    if not isinstance(spec, dict):
        return {OURS}
    tls = spec.get("tls")
    if DRAFT_ALONE & set(spec) or isinstance(tls, str):
        return {DRAFT}
    marks = set()
    shards = spec.get("shards")
    if OFFICIAL_ALONE & set(spec) or _inside(spec, INSIDE_OFFICIAL) or shards in (1, 2):
        marks.add(OFFICIAL)
    own_tls = isinstance(tls, dict) and "certificate" not in tls
    if OURS_ALONE & set(spec) or _inside(spec, INSIDE_OURS) or own_tls or shards is None:
        marks.add(OURS)
    return marks


def _inside(spec: dict[str, Any], blocks: Mapping[str, set[str]]) -> bool:
    return any(isinstance(spec.get(name), dict) and keys & set(spec[name]) for name, keys in blocks.items())

"""Documents in, documents in our API out; with what is to be told about it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

from valkey_operator.dialects import acceptance
from valkey_operator.dialects.block import Block, dump
from valkey_operator.dialects.conversion import Conversion, Made
from valkey_operator.dialects.detection import converter, is_foreign
from valkey_operator.dialects.fields import UNKNOWN
from valkey_operator.dialects.reading import TOO_DEEP, BadManifest, Content, Document

# What keeps strangers out, and where sources say it.
GUARDED_KINDS = ("ValkeyCluster", "Valkey", "ValkeyPool", "Sentinel", "ValkeyClusterDefaults")
GUARDS = {
    "tls": ("spec.tls", "spec.networking"),
    "auth": ("spec.auth", "spec.acl", "spec.users", "spec.clusterPassword", "spec.config.requirepass"),
}
OBJECT = {"apiVersion", "kind", "metadata", "spec"}


@dataclass(frozen=True)
class Converted:
    """What is printed, what is worth knowing, and what could not be carried over."""

    text: str
    notes: list[str]
    lost: list[str]


def convert(documents: Iterable[Document], chosen: str | None = None) -> Converted:
    """`chosen`: whose a ValkeyCluster is that several could have written."""
    documents = list(documents)
    secrets = {_key(found) for found in documents if found.kind == "Secret"}
    texts: list[str] = []
    notes: list[str] = []
    lost: list[str] = []
    for document in documents:
        try:
            done = _one(document, chosen, secrets)
            text = (
                [document.text or dump(document.content)]
                if done.stays
                else [made.as_yaml() for made in done.made]
            )
        except RecursionError:  # by anchors something is deeper than it was to read
            raise BadManifest(f"{document.place}: this is no manifest: {TOO_DEEP}") from None
        secrets |= {
            (made.metadata.get("namespace"), made.name) for made in done.made if made.kind == "Secret"
        }
        texts += text
        place = f"{document.place}: {document.kind} {document.name}"
        notes += [f"{place}: {sentence}" for sentence in done.notes]
        lost += [f"{place}: {path}: {sentence}" for path, sentence in done.lost]
    return Converted("\n---\n".join(texts), notes, lost)


def _key(document: Document) -> tuple[object, str]:
    _check_names(document)
    return document.metadata.get("namespace"), document.name


def _check_names(document: Document) -> None:
    """What is no text cannot be the name or the namespace of anything, and no other object can be looked up by it."""
    for key in ("name", "namespace"):
        if not isinstance(document.metadata.get(key), str | None):
            raise BadManifest(
                f"{document.place}: metadata.{key} of the {document.kind} has to be text; put it in quotes"
            )


def _one(document: Document, chosen: str | None, secrets: set[tuple[object, str]]) -> Conversion:
    if is_foreign(document):
        return Conversion(document, "", notes=["of another API, as it stands"], stays=True)
    if not document.name:
        raise BadManifest(f"{document.place}: the {document.kind} has no name")
    _check_names(document)
    dialect, convert_it = converter(document, chosen)
    conversion = Conversion(document, dialect, secrets_taken=frozenset(secrets))
    if convert_it is not None:
        convert_it(conversion)
    elif set(document.content) <= OBJECT and acceptance.is_ours(
        document.kind, document.content.get("spec"), document.name
    ):
        conversion.stays = True
        conversion.note("of this API already, as it stands")
    else:
        _ours(conversion)
    for name in sorted(set(document.content) - OBJECT - {"status"}):
        conversion.cannot(name, UNKNOWN)
    _accept(conversion)
    return conversion


def _ours(conversion: Conversion) -> None:
    """Of this API, and it would be refused or has a status: what it would be refused for is left out."""
    spec = conversion.document.content.get("spec")
    block = Block()
    if isinstance(spec, dict):
        block.values = copy.deepcopy(spec)
    elif spec is not None:
        conversion.cannot("spec", "it has to be a mapping")
    made = conversion.make(conversion.document.kind, block)
    made.head = ["Of this API already; its status, and what would be refused, is left out."]
    conversion.note("of this API already; its status, and what would be refused, is left out")


def _accept(conversion: Conversion) -> None:
    """Only what an API server with our CRDs takes is printed."""
    kept = []
    for made in conversion.made:
        takes = True
        if made.kind != "Secret":
            takes, told = acceptance.trim(made.kind, made.name, made.block.values)
            conversion.lost += told
            if not takes:
                conversion.cannot("spec", f"no {made.kind} was made of it")
        if takes:
            kept.append(made)
    for guard in _lost_guards(conversion, kept):
        conversion.cannot(f"spec.{guard}", "nothing was made: without it strangers could get in")
        kept = []
    conversion.made = kept
    conversion.lost = list(dict.fromkeys(conversion.lost))
    head = [f"Not carried over: {path}: {sentence}" for path, sentence in conversion.lost]
    main = next((made for made in kept if made.kind != "Secret"), None)
    if main is None:
        conversion.made = []  # passwords of nobody
    else:
        main.head += head


def _lost_guards(conversion: Conversion, made: list[Made]) -> list[str]:
    """What was asked for against strangers, could not be carried over, and is there in no other way."""
    paths = [path.replace("spec.template.", "spec.") for path, _ in conversion.lost]
    specs = [each.block.values for each in made if each.kind in GUARDED_KINDS]
    servers = [spec.get("template", spec) for spec in specs]
    return [
        guard
        for guard, sources in GUARDS.items()
        if any(path.startswith(sources) for path in paths)
        and not all(_has(server, guard) for server in servers)
    ]


def _has(server: Content, guard: str) -> bool:
    block = server.get(guard) or {}
    if guard == "tls":
        return bool(block.get("enabled") or block.get("policyRef"))
    users = block.get("acl") or {}
    listed = users.get("enabled") is not False and (users.get("users") or users.get("configSecretRef"))
    return bool(block.get("password") or block.get("aclRef") or listed)

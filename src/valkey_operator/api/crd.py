"""From the types to CustomResourceDefinitions: structural schemas, columns, scale.

A schema is structural when every part of it has a type and nothing in it is left to chance. What pydantic
says in a way that Kubernetes does not take is rewritten here; what cannot be rewritten is an error, so that
no field ever reaches a cluster with less checking than its type promises.
"""

from __future__ import annotations

from typing import Any

from valkey_operator.api.drafts import refusal
from valkey_operator.api.kinds import CATEGORY, GROUP, VERSION, Column, Kind
from valkey_operator.api.model import INT_OR_STRING, RULES, Model

Schema = dict[str, Any]

KEPT = (
    "type", "description", "enum", "default", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "required", "nullable",
)  # fmt: skip


class NotStructuralError(ValueError):
    """A type that Kubernetes could not check; names the field."""


def structural(model: type[Model]) -> Schema:
    """The structural schema of a type."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(raw, raw.get("$defs", {}), model.__name__)


def _convert(raw: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    schema = _resolve(raw, definitions, path)
    out: Schema = {key: schema[key] for key in KEPT if key in schema}
    out |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if "const" in schema:
        out["enum"] = [schema["const"]]
    if INT_OR_STRING.items() <= schema.items():
        out |= {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        out.pop("type", None)
        return out
    kind = out.get("type")
    if kind == "object":
        _convert_object(schema, out, definitions, path)
    elif kind == "array":
        out["items"] = _convert(schema["items"], definitions, f"{path}[]")
        out.setdefault("x-kubernetes-list-type", "atomic")
    elif kind is None and not out.get("x-kubernetes-preserve-unknown-fields"):
        raise NotStructuralError(f"{path} has no single type: {sorted(schema)}")
    return out


def _convert_object(schema: Schema, out: Schema, definitions: dict[str, Schema], path: str) -> None:
    if "properties" in schema:
        out["properties"] = {
            name: _convert(part, definitions, f"{path}.{name}") for name, part in schema["properties"].items()
        }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        out["additionalProperties"] = _convert(extra, definitions, f"{path}.*")
    elif "properties" not in schema and not out.get("x-kubernetes-preserve-unknown-fields"):
        raise NotStructuralError(f"{path} is an object without properties")


def _resolve(raw: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    """Follow references, and take `X | None` for an optional X."""
    schema = dict(raw)
    for key in ("allOf", "oneOf"):
        if len(schema.get(key, [])) == 1:
            (only,) = schema.pop(key)
            schema = {**only, **schema}
    if "anyOf" in schema and not INT_OR_STRING.items() <= schema.items():
        choices = [part for part in schema.pop("anyOf") if part.get("type") != "null"]
        if len(choices) != 1:
            raise NotStructuralError(f"{path} is one of several types; give it one, or mark it int-or-string")
        schema = {**choices[0], **schema}
        if schema.get("default", ...) is None:
            del schema["default"]
    if "$ref" in schema:
        name = schema.pop("$ref").rsplit("/", 1)[1]
        # The words at the field say more than those at its type.
        schema = _resolve({**definitions[name], **schema}, definitions, path)
    return schema


def definition(kind: Kind) -> Schema:
    """The CustomResourceDefinition of a kind."""
    plural = kind.plural_name
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> Schema:
    subresources: Schema = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec,
            "statusReplicasPath": kind.scale.status,
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(kind)},
        "subresources": subresources,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
    }


def _root(kind: Kind) -> Schema:
    spec, status = structural(kind.spec), structural(kind.status)
    for name, draft in kind.drafts.items():
        spec["properties"][name] = draft.as_schema()
        spec.setdefault(RULES, []).append(refusal(name, draft).as_schema())
    root: Schema = {
        "type": "object",
        "description": kind.text,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{kind.name}."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": spec,
            "status": status,
        },
    }
    if kind.rules:
        root[RULES] = [rule.as_schema() for rule in kind.rules]
    return root


def _column(column: Column) -> Schema:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        **({"priority": 1} if column.wide else {}),
    }

"""The base of every type of the API, and the marks that a CRD needs beyond a JSON schema.

A type says what it means where it stands: the text under a field is its description, `Rule`s are CEL that the
API server checks by itself. Fields are snake_case here and camelCase on the wire. A field that is not set is
None, and only None: defaults come from the layering, because a default in the schema would beat it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from valkey_operator.api import quantity

RULES = "x-kubernetes-validations"


@dataclass(frozen=True)
class Rule:
    """A CEL rule and the sentence with which the API server refuses what breaks it.

    `values` are paths that fill the %s and %d of the sentence, to name what is refused. They are put in by
    `format`: the API server takes text joined with + for unbounded and refuses the rule as too costly.
    `holds` says the same as `rule` of the type in Python, so that values no API server has seen — those that
    layers give — meet the same rule. Rules about changes have none. A test compares the two on a real API server.
    """

    rule: str
    message: str
    values: tuple[str, ...] = ()
    field_path: str | None = None
    holds: Callable[[Any], bool] | None = None

    def sentence(self, model: Any) -> str:
        """What the API server would say of this object."""
        return (
            self.message % tuple(_look_up(model, path) for path in self.values)
            if self.values
            else self.message
        )

    def as_schema(self) -> dict[str, str]:
        schema = {"rule": self.rule}
        if self.values:
            text = self.message.replace("\\", "\\\\").replace("'", "\\'")
            schema["messageExpression"] = f"'{text}'.format([{', '.join(self.values)}])"
        else:
            schema["message"] = self.message
        if self.field_path:
            schema["fieldPath"] = self.field_path
        return schema

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return with_rules(handler(core), [self])


def _look_up(model: Any, path: str) -> Any:
    """`self.someField.other` of the wire, on the type."""
    for part in path.split(".")[1:]:
        model = getattr(model, to_snake(part))
    return model


def with_rules(schema: JsonSchemaValue, rules: list[Rule]) -> JsonSchemaValue:
    return {**schema, RULES: [*schema.get(RULES, []), *(rule.as_schema() for rule in rules)]}


@dataclass(frozen=True)
class Matches:
    """Text of a certain form. Refused with words about the form, where `pattern` would show a regular expression."""

    pattern: str
    form: str  # completes "… is not"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, text: str) -> str:
        if not re.search(self.pattern, text, re.ASCII):
            raise ValueError(f"{quantity.shown(text)} is not {self.form}")
        return text

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return with_rules(
            handler(core), [Rule(f"self.matches(r'{self.pattern}')", f"%s is not {self.form}", ("self",))]
        )


@dataclass(frozen=True, eq=False)  # hashed by identity: unions of types need that
class Marks:
    """Schema keywords that JSON schema has no words for, put on a field as they are."""

    keywords: Mapping[str, Any]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core), **self.keywords}


@dataclass(frozen=True)
class Unique:
    """A list without twins: by these fields of its items, or by the items themselves."""

    keys: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, items: list[Any]) -> list[Any]:
        seen = [
            tuple(getattr(item, to_snake(key)) for key in self.keys) if self.keys else item for item in items
        ]
        twins = [name for index, name in enumerate(seen) if name in seen[:index]]
        if twins:
            raise ValueError(f"{twins[0]} is there twice")
        return items

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        kind = {"x-kubernetes-list-type": "map" if self.keys else "set"}
        named = {"x-kubernetes-list-map-keys": list(self.keys)} if self.keys else {}
        return {**handler(core), **kind, **named}


def list_map(*keys: str) -> Unique:
    """A list whose items are known by these fields, so that two managers can each own some of them."""
    return Unique(keys)


LIST_SET = Unique()
LIST_ATOMIC = Marks({"x-kubernetes-list-type": "atomic"})
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


class Model(BaseModel):
    """A part of the API. `rules` are checked on the object as a whole."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        defer_build=True,
        frozen=True,
        # They are for who writes CRDs; pydantic reads the sources again to find them.
        use_attribute_docstrings=sys.flags.optimize < 2,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        if cls.rules:
            schema.update(with_rules(schema, list(cls.rules)))
        return reference

    @model_validator(mode="after")
    def _keep_rules(self) -> Self:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.sentence(self))
        return self

    def dump(self) -> dict[str, Any]:
        """As it goes over the wire: only what is set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _require_quantity(amount: str | int) -> str | int:
    if isinstance(amount, str) and not quantity.is_amount(amount):
        raise ValueError(f"{quantity.shown(amount)} is not an amount such as 500m, 2 or 10Gi")
    return amount


Quantity = Annotated[
    str | int,
    AfterValidator(_require_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": quantity.FORM,
            "maxLength": quantity.LONGEST,
            **INT_OR_STRING,
        }
    ),
]
"""An amount as the core API writes it: 500m, 2, 10Gi."""


# However often its parts stand there, no calendar ends before a span does.
Duration = Annotated[
    str,
    Field(max_length=32),
    Matches(
        r"^([0-9]{1,9}ms|[0-9]{1,8}s|[0-9]{1,6}m|[0-9]{1,4}h)+$",
        "a time span such as 5s, 500ms or 1h30m, of at most 9999h",
    ),
]
VALIDITY = r"^([1-9][0-9]{0,4}[mhd]|[1-9][0-9]{0,3}mo|[1-9][0-9]?y)$"
A_VALIDITY = "a validity: write a number and m, h, d, mo or y, such as 90d, of at most 99999d, 9999mo or 99y"
Validity = Annotated[
    str,
    Field(max_length=8),
    Matches(VALIDITY, A_VALIDITY),
]
Cron = Annotated[
    str,
    Field(max_length=100),
    Matches(r"^\S+( \S+){4}$", "a cron time of five fields in UTC, such as 0 4 * * 6,0"),
]
Name = Annotated[
    str,
    Field(max_length=63),
    Matches(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "the name of an object: use lower-case letters, digits and dashes, a letter or digit first and last",
    ),
]
SubdomainName = Annotated[
    str,
    Field(max_length=253),
    Matches(
        r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        "the name of an object: use lower-case letters, digits, dashes and dots, a letter or digit first and last",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Strings = Annotated[dict[str, str], Field(max_length=64)]

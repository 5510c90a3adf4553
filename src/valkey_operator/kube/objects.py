"""What every Kubernetes object has, as small frozen structs: projections extend `Object` by the fields they read.

`gc=False`: trees cannot form cycles, and a cache of thousands must not be walked by the collector.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

NONE: Mapping[str, str] = {}
NO_FIELDS = msgspec.Raw(b"{}")
# What a decoder raises.
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError)


class Key(NamedTuple):
    """Where an object is; cluster-wide objects have no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Fields(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The start of every projection: only the fields it declares are kept of what comes over the wire."""


class Vocabulary(Fields, frozen=True, gc=False):
    """For parts whose texts come from a small set, such as conditions: each text is in memory once."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is str:
                msgspec.structs.force_setattr(self, name, sys.intern(value))


class OwnerReference(Fields, frozen=True, gc=False):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ManagedFields(Fields, frozen=True, gc=False):
    """One manager's entry. Kept are only the fields of appliers, but not those of a status, as they came."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.field(default=NO_FIELDS, name="fieldsV1")

    def __post_init__(self) -> None:
        # As it came it would keep the whole answer in memory that it is a part of.
        is_read = self.operation == "Apply" and not self.subresource
        kept = self.fields_v1.copy() if is_read else NO_FIELDS
        msgspec.structs.force_setattr(self, "fields_v1", kept)


class Metadata(Fields, frozen=True, gc=False):
    """What is kept of every object's metadata; managed fields only where `ManagedMetadata` is asked for."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = NONE
    annotations: Mapping[str, str] = NONE
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Namespaces and labels are those of many objects: each is in memory once."""
        msgspec.structs.force_setattr(self, "namespace", sys.intern(self.namespace))
        if type(self.labels) is dict:  # fresh from the decoder, and nobody else's yet
            for name, value in self.labels.items():
                self.labels[name] = sys.intern(value)


class ManagedMetadata(Metadata, frozen=True, gc=False):
    managed_fields: tuple[ManagedFields, ...] = ()


class Object(Fields, frozen=True, gc=False):
    """The least a cache holds; projections add what they read."""

    metadata: Metadata

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def version(self) -> int:
        """Versions of one server can be compared: every write to it has a higher one."""
        return int(self.metadata.resource_version)


class Unread(Object, frozen=True, gc=False):
    """One that is there, but not as its projection expects: all that could be read of it, and why not more."""

    why: str = ""


class ManagedObject(Object, frozen=True, gc=False):
    """For objects we apply: with the record of who owns which field. Works with metadata-only watches."""

    metadata: ManagedMetadata


class Cause(Fields, frozen=True, gc=False):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Fields, frozen=True, gc=False):
    causes: tuple[Cause, ...] = ()


class StatusAnswer(Fields, frozen=True, gc=False):
    """The server's own answer in place of an object: a refusal, or the end of a delete."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.details.causes if self.details is not None else ()


class ListMetadata(Fields, frozen=True, gc=False):
    resource_version: str = ""
    # The field's name on the wire is a word of Python's.
    continue_: str = msgspec.field(default="", name="continue")


T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound=Object)


class Page(msgspec.Struct, Generic[T]):
    """One page of a list. A list may come as null where it is empty."""

    metadata: ListMetadata
    items: list[T] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch; the object is read only when its type is known."""

    type: str
    object: msgspec.Raw

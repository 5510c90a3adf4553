"""Where a server keeps its data: the volume, snapshots (RDB) and the append-only file (AOF)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from valkey_operator.api.model import LIST_ATOMIC, Matches, Model, Quantity, Rule, SubdomainName
from valkey_operator.api.quantity import amount

Size = Annotated[
    str,
    Field(max_length=16),
    Matches(r"^[1-9]([0-9]{0,8}(k|kb|m|mb|g|gb)|[0-9]{0,14}b?)$", "a size as Valkey writes it, such as 64mb"),
]


def is_more_than_nothing(quantity: str | int) -> bool:
    """Or more than can be read, which is refused elsewhere."""
    found = amount(quantity)
    return found is None or found > 0


class SavePoint(Model):
    """A snapshot is taken when this much changed in this time."""

    seconds: Annotated[int, Field(ge=1, le=31536000)]
    """The time, in seconds."""

    changes: Annotated[int, Field(ge=1, le=2147483647)]
    """How many keys must have changed in it."""


class Rdb(Model):
    """Snapshots on the volume."""

    enabled: bool | None = None
    """Take snapshots; default: as `persistence.enabled`."""

    save_policy: Annotated[list[SavePoint], LIST_ATOMIC, Field(max_length=16)] | None = None
    """When snapshots are taken; default after 900 s and 1 change, 300 s and 10, 60 s and 10000."""

    compression: bool | None = None
    """Compress snapshots; default true. False saves processor time and costs space."""


class Aof(Model):
    """The append-only file: every write is logged, so that a crash loses at most the last second."""

    enabled: bool | None = None
    """Keep an append-only file; default false. Turn it on where losing the writes since the last snapshot matters."""

    fsync: Literal["always", "everysec", "no"] | None = None
    """When the file is forced to disk: always (with every write), everysec (default), or no (when the kernel likes)."""

    rewrite_percentage: Annotated[int, Field(ge=0, le=10000)] | None = None
    """The file is rewritten when it has grown by this percentage; default 100, 0 never."""

    rewrite_min_size: Size | None = None
    """The file is not rewritten below this size, such as 64mb (default)."""


class Persistence(Model):
    """The volume of each server and what is kept on it."""

    enabled: bool | None = None
    """Give each server a volume; default true. Cannot be changed after creation."""

    size: Quantity | None = None
    """Size of each volume; default 10Gi. May grow where the storage class allows it, never shrink."""

    storage_class_name: SubdomainName | None = None
    """Storage class of the volumes; default: the cluster's default class. Cannot be changed after creation."""

    reclaim_policy: Literal["Retain", "Delete"] | None = None
    """What happens to the volumes when the deployment is deleted; default Retain."""

    rdb: Rdb | None = None
    """Snapshots."""

    aof: Aof | None = None
    """The append-only file."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.size) || (quantity(string(self.size)).isGreaterThan(quantity('0')))",
            "size is %s; a volume needs more than 0",
            ("self.size",),
            field_path=".size",
            holds=lambda volume: volume.size is None or is_more_than_nothing(volume.size),
        ),
    )

"""What a memory limit means to the servers: here it sets maxmemory, elsewhere it is the container's alone."""

from __future__ import annotations

from valkey_operator.dialects.block import Block
from valkey_operator.dialects.conversion import Conversion

NOTE = (
    "the memory limit sets maxmemory here, to 70 % of it (85 % of a server without replica and volume), and sets none "
    "there: a server that is full evicts, or with maxmemory-policy noeviction, the default, refuses writes; set "
    "config.maxmemory to have it otherwise"
)


def tell_limit(block: Block, conversion: Conversion) -> None:
    """A server that could take all of its container's memory refuses writes earlier now."""
    if block.has("resources.limits.memory") and not block.has("config.maxmemory"):
        conversion.note(NOTE)

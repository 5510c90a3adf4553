"""Hash slots: where a key lives, and tags that reach every part of the slot range."""

from binascii import crc_hqx
from collections.abc import Iterable
from itertools import count, islice

SLOTS = 16384
LONGEST_SEARCH = 200_000

SlotRange = tuple[int, int]
EVERY_SLOT: tuple[SlotRange, ...] = ((0, SLOTS - 1),)


def hashed_part(key: str) -> str:
    """What the server hashes: the text between the first braces, unless it is empty."""
    _, opened, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return tag if opened and closed and tag else key


def slot_of(key: str) -> int:
    return crc_hqx(hashed_part(key).encode(), 0) % SLOTS


def spread_tags(number: int) -> tuple[str, ...]:
    """One tag for each of `number` equal stripes of the slot range, so that every shard is hit."""
    found: dict[int, str] = {}
    for tag in islice((f"t{n}" for n in count()), LONGEST_SEARCH):
        found.setdefault(slot_of(tag) * number // SLOTS, tag)
        if len(found) == number:
            return tuple(found[stripe] for stripe in sorted(found))
    raise ValueError(f"cannot spread {number} tags over {SLOTS} slots")


def covers(ranges: Iterable[SlotRange], slot: int) -> bool:
    return any(first <= slot <= last for first, last in ranges)

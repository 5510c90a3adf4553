"""Which slots go where: the fewest that make all shards even, and which of these moves may be begun now.

Pure. A plan is made anew from what is owned at this moment, so a wish that changes in mid-flight needs nothing more.
Slots that nobody owns are reported and stay so: whoever gave them to a shard would hide that their data is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from valkey_operator.model.cluster import SLOTS, SlotRange, as_text, others_than

# How far the bytes of a move may be from what would make the bytes even, before a gap in the ranges is worth it.
TOLERANCE = 0.25
# Of maxmemory: the rest is for what clients write while slots move.
HEAD_ROOM = 0.95


@dataclass(frozen=True)
class Load:
    """What one shard owns and how heavy it is, as far as that is known."""

    slots: frozenset[int] = frozenset()
    used_bytes: int = 0
    # 0: no limit.
    max_bytes: int = 0
    # Of its keys; of those slots that were measured.
    data_bytes: int = 0
    slot_bytes: Mapping[int, int] = field(default_factory=dict)

    def weight(self, slots: Iterable[int]) -> int:
        """Bytes of these slots; one that was not measured weighs as much as the rest on average."""
        return sum(self.slot_bytes.get(slot, self._average) for slot in slots)

    @cached_property
    def _average(self) -> int:
        unmeasured = len(self.slots) - len(self.slots & self.slot_bytes.keys())
        rest = max(0, self.data_bytes - sum(self.slot_bytes.values()))
        return rest // unmeasured if unmeasured else 0


@dataclass(frozen=True)
class Move:
    """Slots that go from one shard to another."""

    source: int
    target: int
    slots: frozenset[int]
    bytes: int = 0

    def __str__(self) -> str:
        return f"slots {as_text(self.slots)} from shard {self.source} to shard {self.target}"


@dataclass(frozen=True)
class SlotPlan:
    """What is still to be moved, what has to be called off, what is nobody's, and why nothing may begin."""

    moves: tuple[Move, ...] = ()
    cancel: tuple[Move, ...] = ()
    unowned: frozenset[int] = frozenset()
    # One sentence each.
    too_small: tuple[str, ...] = ()

    @property
    def remaining(self) -> int:
        return sum(len(move.slots) for move in self.moves)

    @property
    def remaining_bytes(self) -> int:
        return sum(move.bytes for move in self.moves)


def initial(shards: Sequence[int]) -> dict[int, tuple[SlotRange, ...]]:
    """Of a new cluster: in order, the remainder to the first ones."""
    quotient, rest = divmod(SLOTS, len(shards))
    firsts = [i * quotient + min(i, rest) for i in range(len(shards) + 1)]
    return {shard: ((firsts[i], firsts[i + 1] - 1),) for i, shard in enumerate(shards)}


def plan(seen: Mapping[int, Load], wished: Collection[int], under_way: Collection[Move] = ()) -> SlotPlan:
    """From wherever it is. Moves under way to a shard that stays are let end; others are called off first."""
    cancel = tuple(move for move in under_way if move.target not in wished)
    kept = [move for move in under_way if move.target in wished]
    arrived = _after(seen, kept)
    unowned = others_than(frozenset().union(*(load.slots for load in seen.values())))
    moves = tuple(_moves(arrived, sorted(wished)))
    return SlotPlan(moves, cancel, unowned, tuple(_too_small(seen, [*kept, *moves])))


def may_begin(moves: Sequence[Move], under_way: Collection[Move]) -> tuple[Move, ...]:
    """Those that can run at once: a shard takes part in one move at a time, the busiest shards come first."""
    busy = {shard for move in under_way for shard in (move.source, move.target)}
    load: dict[int, int] = {}
    for move in moves:
        for shard in (move.source, move.target):
            load[shard] = load.get(shard, 0) + len(move.slots)
    chosen: list[Move] = []
    for move in sorted(moves, key=lambda each: (-max(load[each.source], load[each.target]), each.source)):
        if move.source not in busy and move.target not in busy:
            busy |= {move.source, move.target}
            chosen.append(move)
    return tuple(chosen)


def batch(move: Move, source: Load, most_slots: int, most_bytes: int) -> Move:
    """The first part of it that is small enough to be handed over in one go; one slot at least."""
    taken: list[int] = []
    weight = 0
    for slot in sorted(move.slots)[:most_slots]:
        weight += source.weight((slot,))
        if taken and weight > most_bytes:
            break
        taken.append(slot)
    return Move(move.source, move.target, frozenset(taken), source.weight(taken))


def is_even(seen: Mapping[int, Load], wished: Collection[int]) -> bool:
    counts = [len(load.slots) for shard, load in seen.items() if shard in wished]
    elsewhere = any(load.slots for shard, load in seen.items() if shard not in wished)
    return not elsewhere and len(counts) == len(wished) and max(counts) - min(counts) <= 1


def weighed(move: Move, seen: Mapping[int, Load]) -> Move:
    """With its bytes, as far as the source still owns it."""
    return replace(move, bytes=seen[move.source].weight(move.slots & seen[move.source].slots))


def _after(seen: Mapping[int, Load], moves: Iterable[Move]) -> dict[int, Load]:
    """What is owned when these have ended."""
    after = dict(seen)
    for move in moves:
        source, target = after[move.source], after.get(move.target, Load())
        gone = move.slots & source.slots
        weights = {slot: source.weight((slot,)) for slot in gone}
        after[move.source] = _without(source, gone)
        after[move.target] = _with(target, gone, weights)
    return after


def _without(load: Load, slots: frozenset[int]) -> Load:
    weight = load.weight(slots)
    measured = {slot: size for slot, size in load.slot_bytes.items() if slot not in slots}
    return Load(load.slots - slots, load.used_bytes, load.max_bytes, load.data_bytes - weight, measured)


def _with(load: Load, slots: frozenset[int], weights: Mapping[int, int]) -> Load:
    arrived = sum(weights.values())
    measured = {**load.slot_bytes, **weights}
    return Load(
        load.slots | slots, load.used_bytes + arrived, load.max_bytes, load.data_bytes + arrived, measured
    )


def _quotas(seen: Mapping[int, Load], wished: Sequence[int]) -> dict[int, int]:
    """How many slots each shard has in the end; the larger share goes to those that have it already.

    Among the others the first get it, and not who has most at this moment: that changes with every batch, and each
    change would leave a single slot somewhere else.
    """
    owned = sum(len(load.slots) for load in seen.values())
    quotient, rest = divmod(owned, len(wished))
    order = sorted(wished, key=lambda shard: (len(seen.get(shard, Load()).slots) <= quotient, shard))
    return {shard: quotient + (place < rest) for place, shard in enumerate(order)}


def _moves(seen: Mapping[int, Load], wished: Sequence[int]) -> Iterable[Move]:
    """Each source gives to as few targets as possible, one after the other.

    In the order of their numbers: so a plan that is made again after a part of it is done is the rest of the first one,
    and what goes to one shard stays in one row.
    """
    quotas = _quotas(seen, wished)
    loads = dict(seen)
    even_bytes = sum(load.data_bytes for load in seen.values()) / len(wished)
    while True:
        surplus = {shard: len(load.slots) - quotas.get(shard, 0) for shard, load in loads.items()}
        short = {shard: quotas[shard] - len(loads.get(shard, Load()).slots) for shard in wished}
        source = min((shard for shard in surplus if surplus[shard] > 0), default=None)
        if source is None:
            return
        target = min(shard for shard in short if short[shard] > 0)
        count = min(surplus[source], short[target])
        missing = max(0.0, even_bytes - loads.get(target, Load()).data_bytes)
        share = _expected(loads[source], count) / _expected_by(loads, surplus, short, target)
        slots = _chosen(loads[source], count, missing * share)
        move = Move(source, target, slots, loads[source].weight(slots))
        loads = _after(loads, [move])
        yield move


def _expected(load: Load, count: int) -> float:
    """Bytes of so many slots, if all weigh the same."""
    return load.data_bytes * count / len(load.slots)


def _expected_by(
    loads: Mapping[int, Load], surplus: Mapping[int, int], short: Mapping[int, int], target: int
) -> float:
    """By this target, from all who give: one that has little cannot give its share of the bytes."""
    given = sum(_expected(loads[shard], count) for shard, count in surplus.items() if count > 0)
    wanted = sum(count for count in short.values() if count > 0)
    return max(given * short[target] / wanted, 1.0)


def _chosen(load: Load, count: int, wished_bytes: float) -> frozenset[int]:
    """So many slots in a row: from the end, from the beginning, or where their bytes come closest."""
    slots = sorted(load.slots)
    weights = [load.weight((slot,)) for slot in slots]
    starts = [len(slots) - count, 0]
    within = TOLERANCE * wished_bytes
    for start in starts:
        if abs(sum(weights[start : start + count]) - wished_bytes) <= within:
            return frozenset(slots[start : start + count])
    best = min(range(len(slots) - count + 1), key=_distances(weights, count, wished_bytes).__getitem__)
    return frozenset(slots[best : best + count])


def _distances(weights: Sequence[int], count: int, wished_bytes: float) -> list[float]:
    """From what is wished, by where the row begins."""
    weight = sum(weights[:count])
    found = [abs(weight - wished_bytes)]
    for start in range(len(weights) - count):
        weight += weights[start + count] - weights[start]
        found.append(abs(weight - wished_bytes))
    return found


def _too_small(seen: Mapping[int, Load], moves: Iterable[Move]) -> Iterable[str]:
    """What arrives before anything has left must fit: a full server refuses writes, or throws keys away."""
    arriving: dict[int, int] = {}
    for move in moves:
        arriving[move.target] = arriving.get(move.target, 0) + move.bytes
    for shard, size in sorted(arriving.items()):
        load = seen.get(shard, Load())
        needed = (load.used_bytes + size) / HEAD_ROOM
        if load.max_bytes and needed > load.max_bytes:
            yield (
                f"shard {shard} has a maxmemory of {size_text(load.max_bytes)} and needs about "
                f"{size_text(coarse(ceil(needed)))} for what is there and what would come: raise "
                "resources.limits.memory, or ask for more shards"
            )


def coarse(count: int) -> int:
    """Rounded up, by an eighth at most: what clients write must not change a sentence, and with it a status, at every
    look."""
    step = 1 << max(0, count.bit_length() - 4)
    return -(-count // step) * step


def size_text(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"

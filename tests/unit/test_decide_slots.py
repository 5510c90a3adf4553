"""Slots: fewest moves, even in the end, several pairs at once, and never one that was nobody's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valkey_operator.decide import slots
from valkey_operator.decide.slots import Load, Move
from valkey_operator.model.cluster import SLOTS, as_ranges, as_slots, as_text

Owned = dict[int, Load]


def owned(counts: list[int], seed: int = 0, scattered: bool = False) -> Owned:
    """So many slots to each shard; the rest is nobody's."""
    order = list(range(SLOTS))
    if scattered:
        random.Random(seed).shuffle(order)  # noqa: S311
    found, first = {}, 0
    for shard, count in enumerate(counts):
        found[shard] = Load(frozenset(order[first : first + count]))
        first += count
    return found


def even(shards: int) -> Owned:
    return {shard: Load(as_slots(ranges)) for shard, ranges in slots.initial(range(shards)).items()}


def carried_out(seen: Owned, moves: tuple[Move, ...]) -> Owned:
    after = {shard: set(load.slots) for shard, load in seen.items()}
    for move in moves:
        assert move.slots <= after[move.source], "a shard gives only what it has"
        after[move.source] -= move.slots
        after.setdefault(move.target, set()).update(move.slots)
    return {shard: Load(frozenset(found)) for shard, found in after.items()}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Owned, list[int]]:
    shards = draw(st.integers(1, 9))
    cuts = sorted(draw(st.lists(st.integers(0, SLOTS), min_size=shards, max_size=shards)))
    counts = [after - before for before, after in zip([0, *cuts], cuts, strict=False)]
    seen = owned(counts, draw(st.integers(0, 9)), draw(st.booleans()))
    return seen, draw(st.lists(st.integers(0, 11), min_size=1, max_size=9, unique=True))


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_it_ends_even_with_the_fewest_moves_and_touches_nothing_that_is_nobodys(
    cluster: tuple[Owned, list[int]],
) -> None:
    seen, wished = cluster
    found = slots.plan(seen, wished)
    after = carried_out(seen, found.moves)
    counts = [len(after.get(shard, Load()).slots) for shard in wished]
    assert max(counts) - min(counts) <= 1
    assert all(not load.slots for shard, load in after.items() if shard not in wished)
    total = sum(len(load.slots) for load in seen.values())
    # What is above the larger share, and all of those that leave, has to go in any case; more only down to the smaller.
    quotient, rest = divmod(total, len(wished))
    staying = sorted((len(seen.get(shard, Load()).slots) for shard in wished), reverse=True)
    shares = [quotient + (place < rest) for place in range(len(wished))]
    least = sum(max(0, share - count) for count, share in zip(staying, shares, strict=True))
    assert found.remaining == least
    assert found.unowned == frozenset(range(SLOTS)) - frozenset().union(
        *(load.slots for load in seen.values())
    )
    assert not slots.plan(after, wished).moves
    assert slots.is_even({**dict.fromkeys(wished, Load()), **after}, wished)


@settings(max_examples=30, deadline=None)
@given(clusters(), st.lists(st.integers(0, 11), min_size=1, max_size=9, unique=True), st.integers(0, 6))
def test_a_wish_that_changes_in_mid_flight_is_planned_from_where_it_is(
    cluster: tuple[Owned, list[int]], later: list[int], done: int
) -> None:
    seen, wished = cluster
    moves = slots.plan(seen, wished).moves
    seen = carried_out(seen, moves[:done])
    under_way = slots.may_begin(moves[done:], ())
    found = slots.plan(seen, later, under_way)
    assert {move.target in later for move in found.cancel} <= {False}
    kept = tuple(move for move in under_way if move not in found.cancel)
    after = carried_out(seen, (*kept, *found.moves))
    counts = [len(after.get(shard, Load()).slots) for shard in later]
    assert max(counts) - min(counts) <= 1
    assert sum(len(load.slots) for load in after.values()) == sum(len(load.slots) for load in seen.values())


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_each_shard_takes_part_in_one_move_at_a_time_and_all_end(cluster: tuple[Owned, list[int]]) -> None:
    seen, wished = cluster
    moves = list(slots.plan(seen, wished).moves)
    rounds = 0
    while moves:
        begun = slots.may_begin(moves, ())
        assert begun, "something can always begin"
        shards = [shard for move in begun for shard in (move.source, move.target)]
        assert len(shards) == len(set(shards))
        assert not slots.may_begin(moves, begun) or set(shards).isdisjoint(
            shard for move in slots.may_begin(moves, begun) for shard in (move.source, move.target)
        )
        moves = [move for move in moves if move not in begun]
        rounds += 1
    assert rounds <= 40


@pytest.mark.parametrize(("before", "after", "pairs"), [(3, 6, 3), (6, 3, 3), (10, 20, 10), (20, 10, 10)])
def test_doubling_and_halving_move_in_disjoint_pairs_all_at_once(before: int, after: int, pairs: int) -> None:
    found = slots.plan(even(before), range(after))
    assert len(slots.may_begin(found.moves, ())) == pairs


def test_the_first_slots_are_those_of_the_documents() -> None:
    assert slots.initial(range(3)) == {0: ((0, 5461),), 1: ((5462, 10922),), 2: ((10923, 16383),)}
    assert as_slots(each for ranges in slots.initial(range(7)).values() for each in ranges) == frozenset(
        range(SLOTS)
    )


def test_scaling_in_spreads_over_all_who_stay() -> None:
    found = slots.plan(even(4), range(3))
    assert {move.target for move in found.moves} == {0, 1, 2}
    assert {move.source for move in found.moves} == {3}


def test_what_is_nobodys_is_reported_and_stays_so() -> None:
    seen = even(3)
    lost = seen.pop(1).slots
    found = slots.plan(seen, (0, 2))
    assert (found.unowned, found.moves) == (lost, ())


def test_the_heavy_slots_decide_which_ones_go() -> None:
    """Three quarters of the bytes lie in the first hundred slots: the new shard gets its share of bytes as well."""
    heavy = {slot: 3000 if slot < 100 else 1 for slot in range(SLOTS // 2)}
    seen = {
        0: Load(frozenset(heavy), data_bytes=sum(heavy.values()), slot_bytes=heavy),
        1: Load(frozenset(range(SLOTS // 2, SLOTS)), data_bytes=8192),
    }
    found = slots.plan(seen, (0, 1, 2))
    after = sum(move.bytes for move in found.moves if move.target == 2)
    assert after == pytest.approx(sum(load.data_bytes for load in seen.values()) / 3, rel=0.35)


def test_a_noise_in_the_sizes_makes_no_gaps() -> None:
    chance = random.Random(1)  # noqa: S311
    sizes = {slot: chance.randrange(500, 1500) for slot in range(SLOTS)}
    seen = {
        shard: Load(load.slots, data_bytes=0, slot_bytes={slot: sizes[slot] for slot in load.slots})
        for shard, load in even(3).items()
    }
    seen = {
        shard: Load(load.slots, data_bytes=sum(load.slot_bytes.values()), slot_bytes=load.slot_bytes)
        for shard, load in seen.items()
    }
    moved = slots.plan(seen, range(6)).moves
    assert all(len(as_ranges(move.slots)) == 1 for move in moved)
    assert all(len(as_ranges(load.slots)) == 1 for load in carried_out(seen, moved).values())


@pytest.mark.parametrize(("room", "fits"), [(0, True), (700, True), (500, False)])
def test_what_does_not_fit_is_refused_before_anything_begins(room: int, fits: bool) -> None:
    mebi = 1 << 20
    seen = {
        shard: Load(load.slots, used_bytes=600 * mebi, max_bytes=1000 * mebi, data_bytes=600 * mebi)
        for shard, load in even(3).items()
    }
    seen[3] = Load(used_bytes=100 * mebi, max_bytes=room * mebi)
    found = slots.plan(seen, range(4))
    assert (found.too_small == ()) is fits
    if not fits:
        assert found.too_small == (
            "shard 3 has a maxmemory of 500.0 MiB and needs about 640.0 MiB for what is there and what would come: "
            "raise resources.limits.memory, or ask for more shards",
        )


def test_what_is_said_of_what_does_not_fit_stays_while_clients_write() -> None:
    def said(written: int) -> tuple[str, ...]:
        seen = {
            shard: Load(load.slots, used_bytes=(600 << 20) + written, data_bytes=(600 << 20) + written)
            for shard, load in even(3).items()
        }
        return slots.plan({**seen, 3: Load(used_bytes=100 << 20, max_bytes=500 << 20)}, range(4)).too_small

    assert len({said(megabytes * 1_000_000) for megabytes in range(20)}) == 1
    assert said(0) != said(200 << 20)


@pytest.mark.parametrize(
    ("exact", "told"), [(0, 0), (1, 1), (15, 15), (16, 16), (17, 18), (1000, 1024), (1025, 1152)]
)
def test_a_size_is_told_an_eighth_too_large_at_most(exact: int, told: int) -> None:
    assert slots.coarse(exact) == told
    assert exact <= told <= exact * 9 / 8


def test_a_batch_is_bounded_by_slots_and_by_bytes_and_is_never_empty() -> None:
    load = Load(frozenset(range(100)), data_bytes=10_000)
    move = Move(0, 1, frozenset(range(50)), 5000)
    assert slots.batch(move, load, 10, 10_000).slots == frozenset(range(10))
    assert slots.batch(move, load, 50, 700).slots == frozenset(range(7))
    assert slots.batch(move, load, 50, 1).slots == frozenset({0})
    assert slots.batch(move, load, 1000, 10**9) == move


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (3, 5), (5, 3), (6, 3), (7, 11)])
def test_a_plan_that_is_made_again_after_each_batch_is_the_rest_of_the_first_one(
    before: int, after: int
) -> None:
    """Else every batch would begin a range of its own, and clients would have many of them to remember."""
    seen = even(before)
    whole = slots.plan(seen, range(after))
    at_once = carried_out(seen, whole.moves)
    moved = 0
    while found := slots.plan(seen, range(after)).moves:
        begun = tuple(slots.batch(move, seen[move.source], 256, 10**9) for move in slots.may_begin(found, ()))
        moved += sum(len(move.slots) for move in begun)
        seen = carried_out(seen, begun)
    assert moved == whole.remaining
    assert {shard: as_text(load.slots) for shard, load in seen.items() if load.slots} == {
        shard: as_text(load.slots) for shard, load in at_once.items() if load.slots
    }


def test_slots_are_written_as_people_read_them() -> None:
    assert as_text({1, 2, 3, 9, 11, 12}) == "1-3,9,11-12"
    assert as_slots(as_ranges({1, 2, 3, 9})) == {1, 2, 3, 9}
    assert str(Move(1, 3, frozenset({7, 8}))) == "slots 7-8 from shard 1 to shard 3"

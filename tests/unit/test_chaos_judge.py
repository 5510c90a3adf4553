"""The judge of the writing checker, on histories made by hand."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.history import (
    Demands,
    End,
    Header,
    History,
    Kind,
    NodeRead,
    Operation,
    Role,
    Waited,
    Write,
)
from tests.chaos.judge import judge
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import EVERY_SLOT, slot_of, spread_tags

TAG = "t0"
STEP = 0.1


def element(number: int, kind: Kind = Kind.SET, tag: str = TAG) -> str:
    return f"{kind}:{{{tag}}}:{number}"


def a_write(number: int, outcome: Outcome = Outcome.OK, kind: Kind = Kind.SET, tag: str = TAG) -> Write:
    """The element with this number, sent one step after the one before it."""
    at = number * STEP
    return Write(kind, element(number, kind, tag), tag, at, at + 0.001, outcome, node="a:1")


def an_increment(number: int, value: int | None, outcome: Outcome = Outcome.OK) -> Write:
    at = number * STEP
    return Write(Kind.COUNTER, f"counter:{{{TAG}}}", TAG, at, at + 0.001, outcome, value=value)


def a_read(
    elements: set[str], role: Role = Role.PRIMARY, node: str = "a:1", counters: dict[str, int] | None = None
) -> NodeRead:
    state = "master" if role is Role.PRIMARY else "connected"
    return NodeRead(node, role, "all", EVERY_SLOT, state, frozenset(elements), counters or {})


def a_history(writes: list[Write], *reads: NodeRead, demands: Demands | None = None) -> History:
    """By default the primary holds exactly what was acknowledged."""
    header = Header("plain", "run-1", 0, "2025-01-01", (TAG,), {}, demands or Demands(writes=1))
    kept = {w.element for w in writes if w.outcome is Outcome.OK and w.kind is not Kind.COUNTER}
    ended = max((write.done for write in writes), default=0.0) + 0.01
    return History(header, writes=list(writes), reads=list(reads or [a_read(kept)]), end=End(ended))


TEN = [a_write(number) for number in range(1, 11)]
ALL_TEN = {write.element for write in TEN}


def test_a_history_whose_acknowledged_writes_are_all_there_is_clean() -> None:
    verdict = judge(a_history(TEN))
    assert verdict.clean, str(verdict)
    assert str(verdict).startswith("CLEAN: all 10 acknowledged writes are there")


def test_an_indeterminate_write_may_be_there() -> None:
    verdict = judge(a_history([*TEN, a_write(11, Outcome.INFO)], a_read(ALL_TEN | {element(11)})))
    assert verdict.clean, str(verdict)
    assert verdict.recovered == 1


def test_an_indeterminate_write_may_be_absent() -> None:
    verdict = judge(a_history([*TEN, a_write(11, Outcome.INFO)], a_read(ALL_TEN)))
    assert verdict.clean, str(verdict)
    assert verdict.recovered == 0


def test_an_acknowledged_write_that_is_absent_is_lost() -> None:
    last = replace(TEN[-1], during="switchover")
    verdict = judge(a_history([*TEN[:-1], last], a_read(ALL_TEN - {element(10)})))
    assert verdict.lost == (last,)
    assert not verdict.clean
    assert "lost: set:{t0}:10, acknowledged at 1.001 s by a:1 during switchover" in str(verdict)


def test_a_hole_in_the_middle_is_lost() -> None:
    verdict = judge(a_history(TEN, a_read(ALL_TEN - {element(5)})))
    assert [write.element for write in verdict.lost] == [element(5)]


def test_a_refused_write_that_is_there_is_a_phantom() -> None:
    refused = replace(a_write(11, Outcome.FAIL), reason="READONLY You can't write")
    verdict = judge(a_history([*TEN, refused], a_read(ALL_TEN | {element(11)})))
    assert [phantom.element for phantom in verdict.phantoms] == [element(11)]
    assert "READONLY" in str(verdict)
    assert not verdict.clean


def test_an_element_that_was_never_sent_is_a_phantom() -> None:
    verdict = judge(a_history(TEN, a_read(ALL_TEN | {element(99)})))
    assert [phantom.why for phantom in verdict.phantoms] == ["it was never sent"]
    assert not verdict.clean


def test_an_element_on_a_primary_that_does_not_serve_its_slot_is_lost() -> None:
    slot = slot_of(TAG)
    elsewhere = ((0, slot - 1), (slot + 1, 16383))
    stranded = replace(a_read(ALL_TEN), slots=elsewhere)
    owner = replace(a_read(set(), node="b:1"), slots=((slot, slot),), shard="owner")
    assert len(judge(a_history(TEN, stranded, owner)).lost) == 10


def test_a_lost_write_that_a_replica_had_confirmed_is_counted_apart() -> None:
    writes = [a_write(number, kind=Kind.WAITED) for number in (1, 2, 3)]
    history = a_history(writes, a_read({writes[0].element}))
    history.waits += [
        Waited(writes[0].element, 1),
        Waited(writes[1].element, 1),
        Waited(writes[2].element, 0),
    ]
    verdict = judge(history)
    assert verdict.waited == 2
    assert verdict.lost == (writes[1], writes[2])
    assert verdict.lost_after_wait == (writes[1],)


COUNTER = f"counter:{{{TAG}}}"


@pytest.mark.parametrize(
    ("values", "final", "fault"),
    [
        pytest.param([1, 2, 3], 3, None, id="as acknowledged"),
        pytest.param([1, None, 3], 3, None, id="an indeterminate one ran"),
        pytest.param([1, None, 2], 2, None, id="an indeterminate one did not run"),
        pytest.param([1, 2, None], 3, None, id="the last one ran unanswered"),
        pytest.param([1, 2, 3], 2, "ended at 2, below the 3", id="rolled back at the end"),
        pytest.param([1, 2, 3], None, "ended at 0, below the 3", id="gone"),
        pytest.param([1, 2, 1, 2, 3], 3, "fell from 2 to 1", id="rolled back in the middle, then caught up"),
        pytest.param([1, 2], 3, "at most 2 writes can have run", id="counted what was never sent"),
    ],
)
def test_a_counter_never_goes_back(values: list[int | None], final: int | None, fault: str | None) -> None:
    writes = [
        an_increment(n, value, Outcome.INFO if value is None else Outcome.OK)
        for n, value in enumerate(values, start=1)
    ]
    counters = {} if final is None else {COUNTER: final}
    verdict = judge(a_history(writes, a_read(set(), counters=counters)))
    assert verdict.clean is (fault is None), str(verdict)
    assert fault is None or fault in str(verdict)


def test_a_refused_increment_that_counted_is_seen() -> None:
    writes = [an_increment(1, 1), an_increment(2, None, Outcome.FAIL)]
    verdict = judge(a_history(writes, a_read(set(), counters={COUNTER: 2})))
    assert len(verdict.rollbacks) == 1


def test_a_replica_that_misses_an_element_has_diverged() -> None:
    replica = a_read(ALL_TEN - {element(3)}, Role.REPLICA, "b:1")
    verdict = judge(a_history(TEN, a_read(ALL_TEN), replica))
    assert [found.what for found in verdict.diverged] == [f"1 elements missing, first {element(3)}"]
    assert not verdict.lost
    assert not verdict.clean


def test_a_replica_with_a_strange_element_or_another_count_has_diverged() -> None:
    writes = [*TEN, an_increment(11, 1)]
    primary = a_read(ALL_TEN, counters={COUNTER: 1})
    replica = a_read(ALL_TEN | {element(99)}, Role.REPLICA, "b:1", counters={COUNTER: 2})
    (found,) = judge(a_history(writes, primary, replica)).diverged
    assert "1 elements too many" in found.what
    assert "1 counters differ" in found.what


def test_a_replica_whose_link_is_down_has_diverged_even_with_the_same_content() -> None:
    replica = replace(a_read(ALL_TEN, Role.REPLICA, "b:1"), state="connect")
    assert judge(a_history(TEN, a_read(ALL_TEN), replica)).diverged


def test_a_primary_that_turns_out_to_be_a_replica_is_not_clean() -> None:
    assert not judge(a_history(TEN, replace(a_read(ALL_TEN), state="connected"))).clean


def test_the_longest_pause_names_the_operation_under_way() -> None:
    history = a_history([*TEN[:3], *TEN[7:]])
    history.operations += [Operation("scaling", 0.0, 0.2), Operation("switchover", 0.4, 0.7)]
    pause = judge(history).pauses["all"]
    assert pause.seconds == pytest.approx(0.5)
    assert pause.during == ("switchover",)
    assert not pause.is_open


def test_a_pause_to_the_end_of_the_run_counts() -> None:
    refused = [a_write(number, Outcome.FAIL) for number in range(11, 41)]
    pause = judge(a_history([*TEN, *refused])).pauses["all"]
    assert pause.seconds == pytest.approx(3.01)
    assert pause.is_open
    assert "to the end of the run" in str(pause)


def test_a_pause_from_the_very_start_counts() -> None:
    pause = judge(a_history([a_write(30), a_write(31)])).pauses["all"]
    assert pause.began == 0.0
    assert pause.seconds == pytest.approx(3.001)


def test_the_pause_of_a_shard_is_that_of_its_worst_tag() -> None:
    history = a_history([*TEN, a_write(10, tag="t1")])
    history.header = replace(history.header, tags=(TAG, "t1"))
    assert judge(history).pauses["all"].tag == "t1"


def test_each_shard_has_its_own_pause() -> None:
    low, high = spread_tags(2)
    writes = [a_write(1, tag=low), a_write(2, tag=high), a_write(7, tag=low), a_write(8, tag=high)]
    history = a_history(writes)
    history.header = replace(history.header, tags=(low, high))
    history.reads = [
        replace(a_read({element(1, tag=low), element(7, tag=low)}), slots=((0, 8191),), shard="low"),
        replace(a_read({element(2, tag=high), element(8, tag=high)}), slots=((8192, 16383),), shard="high"),
    ]
    verdict = judge(history)
    assert verdict.clean, str(verdict)
    assert {shard: pause.tag for shard, pause in verdict.pauses.items()} == {"low": low, "high": high}


def test_a_pause_above_the_promised_bound_is_not_clean() -> None:
    history = a_history([*TEN[:3], *TEN[7:]], demands=Demands(writes=1, pause=0.3))
    verdict = judge(history)
    assert not verdict.clean
    assert str(verdict).startswith("TOO SLOW")
    assert judge(replace(history, header=replace(history.header, demands=Demands(1, pause=0.6)))).clean


@given(outcomes=st.lists(st.sampled_from(Outcome), min_size=1, max_size=30), data=st.data())
def test_dropping_any_acknowledged_element_is_always_caught(
    outcomes: list[Outcome], data: st.DataObject
) -> None:
    writes = [a_write(0), *(a_write(n, outcome) for n, outcome in enumerate(outcomes, start=1))]
    acknowledged = [write.element for write in writes if write.outcome is Outcome.OK]
    dropped = data.draw(st.sets(st.sampled_from(acknowledged), min_size=1))
    indeterminate = {write.element for write in writes if write.outcome is Outcome.INFO}
    there = data.draw(st.sets(st.sampled_from(sorted(indeterminate)))) if indeterminate else set()
    assert judge(a_history(writes, a_read({*acknowledged, *there}))).clean
    verdict = judge(a_history(writes, a_read({*acknowledged, *there} - dropped)))
    assert {write.element for write in verdict.lost} == dropped


@given(st.lists(st.sampled_from(Outcome), max_size=40), st.integers(min_value=-5, max_value=5))
def test_a_counter_is_clean_exactly_between_what_was_acknowledged_and_what_can_have_run(
    outcomes: list[Outcome], error: int
) -> None:
    """The server ran every indeterminate write; `error` is how far the final value is off."""
    writes, value = [an_increment(1, 1)], 1
    for number, outcome in enumerate(outcomes, start=2):
        value += outcome is not Outcome.FAIL
        writes.append(an_increment(number, value if outcome is Outcome.OK else None, outcome))
    last_acknowledged = max(write.value or 0 for write in writes)
    final = max(value + error, 0)
    verdict = judge(a_history(writes, a_read(set(), counters={COUNTER: final})))
    assert verdict.clean is (last_acknowledged <= final <= value)


KILL = Operation("kill", 0.95, 2.0)


@pytest.mark.parametrize(
    ("gone", "seconds"),
    [
        ((), 0.0),
        ((9, 10), 0.1),
        ((9,), 0.049),  # from its acknowledgement to the trouble
        ((1,), 0.849),  # also when it is alone: a loss of long ago is not explained by what happened now
        ((1, 10), 0.9),
    ],
)
def test_how_far_back_writes_were_lost(gone: tuple[int, ...], seconds: float) -> None:
    kept = ALL_TEN - {element(number) for number in gone}
    history = a_history(TEN, a_read(kept))
    history.operations.append(KILL)
    verdict = judge(history)
    assert verdict.seconds_lost(verdict.lost) == pytest.approx(seconds)


def test_a_write_that_was_lost_after_the_trouble_is_not_explained_by_it() -> None:
    history = a_history(TEN, a_read(ALL_TEN - {element(10)}))
    history.operations.append(Operation("kill", 0.2, 0.5))
    verdict = judge(history)
    assert verdict.seconds_lost(verdict.lost) == inf


def test_trouble_that_came_later_makes_no_loss_older() -> None:
    history = a_history(TEN, a_read(ALL_TEN - {element(4)}))
    history.operations += [Operation("another", 5.0, 6.0), Operation("kill", 0.35, 0.6)]
    verdict = judge(history)
    assert verdict.seconds_lost(verdict.lost) == 0.0

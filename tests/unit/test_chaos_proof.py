"""A history that proves too little must not pass as clean."""

from dataclasses import replace

from tests.chaos.history import Demands, End, Header, History, Kind, NodeRead, Role, Write
from tests.chaos.judge import judge
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import EVERY_SLOT

HEADER = Header("plain", "run-1", 0, "2025-01-01", ("t0",), {}, Demands(writes=3))
WRITES = [
    Write(Kind.SET, f"set:{{t0}}:{n}", "t0", n / 10, n / 10 + 0.001, Outcome.OK, node="a:1") for n in range(3)
]
PRIMARY = NodeRead(
    "a:1", Role.PRIMARY, "all", EVERY_SLOT, "master", frozenset(write.element for write in WRITES), {}
)


def proven() -> History:
    return History(HEADER, writes=list(WRITES), reads=[PRIMARY], end=End(0.3))


def test_enough_writes_are_a_proof() -> None:
    assert judge(proven()).clean


def test_an_empty_history_proves_nothing() -> None:
    verdict = judge(History(replace(HEADER, demands=Demands(writes=0))))
    assert not verdict.clean
    assert "too few" in str(verdict)


def test_too_few_writes_prove_nothing() -> None:
    verdict = judge(replace(proven(), header=replace(HEADER, demands=Demands(writes=4))))
    assert not verdict.clean
    assert str(verdict).startswith("NOT PROVEN")
    assert "3 acknowledged writes are too few, 4 are asked for" in str(verdict)


def test_a_tag_without_any_acknowledgement_proves_nothing() -> None:
    verdict = judge(replace(proven(), header=replace(HEADER, tags=("t0", "t1"))))
    assert verdict.doubts == ("no write was ever acknowledged for tags t1",)


def test_a_shard_without_a_tag_proves_nothing() -> None:
    empty = replace(PRIMARY, node="b:1", shard="other", slots=((5, 5),), elements=frozenset())
    assert judge(replace(proven(), reads=[PRIMARY, empty])).doubts == (
        "no tag lies in shard other, so nothing was written to it: use more tags",
    )


def test_without_a_final_read_nothing_is_proven_and_nothing_is_called_lost() -> None:
    verdict = judge(replace(proven(), reads=[], end=End(0.3, "a:1 does not answer")))
    assert verdict.doubts == ("there is no final read: a:1 does not answer",)
    assert not verdict.lost
    assert str(verdict).startswith("NOT PROVEN")


def test_a_counter_that_was_not_read_is_not_called_rolled_back() -> None:
    counted = Write(Kind.COUNTER, "counter:{t0}", "t0", 0.1, 0.11, Outcome.OK, value=1)
    verdict = judge(replace(proven(), writes=[*WRITES, counted], reads=[]))
    assert not verdict.rollbacks
    assert not verdict.clean


def test_elements_whose_primary_was_not_read_are_a_doubt_and_not_lost() -> None:
    elsewhere = replace(PRIMARY, slots=((5, 5),), elements=frozenset())
    verdict = judge(replace(proven(), reads=[elsewhere]))
    assert not verdict.lost
    assert "3 acknowledged writes lie in slots whose primary was not read back" in verdict.doubts


def test_a_replica_that_was_asked_for_and_not_read_is_a_doubt() -> None:
    verdict = judge(replace(proven(), header=replace(HEADER, demands=Demands(writes=3, replicas=1))))
    assert "0 replicas of shard all were read, 1 are asked for" in verdict.doubts
    assert any("confirmed by WAIT" in doubt for doubt in verdict.doubts)


def test_an_element_that_was_sent_twice_is_a_doubt() -> None:
    verdict = judge(replace(proven(), writes=[*WRITES, WRITES[0]]))
    assert verdict.doubts == ("set:{t0}:0 was sent more than once, so its fate proves nothing",)

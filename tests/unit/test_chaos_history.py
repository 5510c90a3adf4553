"""Histories as files: they come back as they were, and a bad file is refused in one sentence."""

from pathlib import Path

import pytest

from tests.chaos.history import (
    Demands,
    End,
    Header,
    Kind,
    NodeRead,
    Operation,
    Record,
    Recorder,
    Role,
    Waited,
    Write,
    line_of,
)
from tests.chaos.judge import main
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import EVERY_SLOT
from tests.chaos.stored import Unreadable, read_history

HEADER = Header(
    "plain", "run-1", 7, "2025-01-01", ("t0",), {"valkey": "9.1.2"}, Demands(writes=1, replicas=1, pause=0.5)
)
ELEMENT = "waited:{t0}:1"
COUNTER = "counter:{t0}"
COUNTED = Write(Kind.COUNTER, COUNTER, "t0", 0.2, 0.21, Outcome.OK, "roll", "a:1", "", 1)
KEPT: list[Record] = [
    Write(Kind.WAITED, ELEMENT, "t0", 0.1, 0.11, Outcome.OK, "", "a:1"),
    Waited(ELEMENT, 1),
    COUNTED,
    Write(Kind.SET, "set:{t0}:1", "t0", 0.2, 0.21, Outcome.FAIL, "roll", "a:1", "READONLY no „writes“ here"),
    Operation("roll", 0.15, 0.25),
    NodeRead("a:1", Role.PRIMARY, "all", EVERY_SLOT, "master", frozenset({ELEMENT}), {COUNTER: 1}),
    NodeRead("b:1", Role.REPLICA, "all", EVERY_SLOT, "connected", frozenset({ELEMENT}), {COUNTER: 1}),
]


def stored(path: Path, records: list[Record]) -> Recorder:
    recorder = Recorder(path)
    recorder.begin(HEADER)
    for record in records:
        recorder.record(record)
    recorder.finish(End(0.3))
    return recorder


def test_a_history_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    recorder = stored(tmp_path / "h.jsonl", KEPT)
    assert read_history(tmp_path / "h.jsonl") == recorder.history


def test_every_record_is_in_the_file_at_once(tmp_path: Path) -> None:
    """An acknowledgement must be on record before the next write is sent."""
    recorder = Recorder(tmp_path / "h.jsonl")
    recorder.begin(HEADER)
    recorder.record(COUNTED)
    assert (tmp_path / "h.jsonl").read_text().splitlines()[-1] == line_of(COUNTED)
    recorder.close()


def test_a_recorder_never_overwrites_a_history(tmp_path: Path) -> None:
    stored(tmp_path / "h.jsonl", KEPT)
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "h.jsonl").begin(HEADER)


def test_a_clean_file_is_judged_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "h.jsonl", KEPT)
    assert main([str(tmp_path / "h.jsonl")]) == 0
    assert "CLEAN: all 2 acknowledged writes are there" in capsys.readouterr().out


def test_one_file_with_loss_among_clean_ones_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path / "clean", KEPT)
    stored(tmp_path / "lossy", [*KEPT, Write(Kind.SET, "set:{t0}:2", "t0", 0.2, 0.21, Outcome.OK)])
    assert main([str(tmp_path / "clean"), str(tmp_path / "lossy")]) == 1
    assert "LOST: 1 of 3 acknowledged writes are gone" in capsys.readouterr().out


def with_lines(path: Path, change: slice) -> str:
    stored(path, KEPT)
    return "".join(path.read_text().splitlines(keepends=True)[change])


def test_a_file_cut_anywhere_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = with_lines(tmp_path / "whole", slice(None)).rstrip("\n")
    cut = tmp_path / "cut"
    for length in range(0, len(whole), 7):
        cut.write_text(whole[:length])
        assert main([str(cut)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is truncated: it has no end line"),
        ("not json\n", "line 1: "),
        ("[]\n", "line 1: "),
        ('{"end":{"ended":1.0,"unread":""}}\n', "its first line is no header"),
        ('{"stranger":{}}\n', "line 1 does not fit at 'stranger'"),
        ('{"end":{}}\n', "line 1 does not fit at 'ended'"),
        (line_of(HEADER).replace('"format":1', '"format":2'), "it has format 2"),
        (f"{line_of(HEADER)}\n{line_of(HEADER)}\n", "holds a second history, from line 2 on"),
        (f"{line_of(HEADER)}\n{line_of(End(1))}\n{line_of(COUNTED)}\n", "goes on after its end, in line 3"),
        (f"{line_of(HEADER)}\n{line_of(COUNTED).replace('0.2,', 'null,')}\n", "line 2: "),
    ],
)
def test_a_file_that_is_no_history_is_refused_with_a_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "h.jsonl").write_text(text)
    with pytest.raises(Unreadable, match="^" + str(tmp_path)) as refused:
        read_history(tmp_path / "h.jsonl")
    assert sentence in str(refused.value)


def test_a_missing_file_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_no_file_at_all_is_no_success() -> None:
    assert main([]) == 2

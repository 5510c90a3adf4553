"""Logs: one line per record, whatever it is given."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from enum import Enum

import pytest

from valkey_operator.kube.objects import Key
from valkey_operator.process import logs

log = logging.getLogger("tests.logs")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    level, handlers = logging.root.level, list(logging.root.handlers)
    yield
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Colour(Enum):
    RED = 1


def as_json() -> io.StringIO:
    stream = io.StringIO()
    logs.configure("json", stream=stream)
    return stream


def as_pretty() -> io.StringIO:
    stream = io.StringIO()
    logs.configure("pretty", stream=stream)
    return stream


def only_line(stream: io.StringIO) -> dict[str, object]:
    (line,) = stream.getvalue().splitlines()
    read: dict[str, object] = json.loads(line)
    return read


def cycle() -> list[object]:
    around: list[object] = []
    around.append(around)
    return around


def test_a_json_line_says_when_how_bad_who_and_what() -> None:
    stream = as_json()
    log.warning("the %s is %d %% full", "disk", 90)
    line = only_line(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line.pop("time")))
    assert line == {"level": "warning", "logger": "tests.logs", "message": "the disk is 90 % full"}


def test_what_is_bound_comes_before_fields_of_the_call() -> None:
    stream = as_json()
    with logs.bound(controller="valkey", key=Key("shop", "cache")):
        log.info("rolled", extra={"aged": 3, "pods": ["a", "b"]})
    line = only_line(stream)
    assert line["key"] == "shop/cache"
    assert line["pods"] == ["a", "b"]
    assert list(line)[4:] == ["controller", "key", "aged", "pods"]


def test_bound_fields_end_with_their_block() -> None:
    stream = as_json()
    with logs.bound(key="outer"):
        with logs.bound(key="inner", step=1):
            pass
        log.info("after the inner block")
    line = only_line(stream)
    assert line["key"] == "outer"
    assert "step" not in line


async def test_a_task_keeps_what_was_bound_where_it_began() -> None:
    stream = as_json()
    released = asyncio.Event()

    async def later() -> None:
        await released.wait()
        log.info("in the task")

    with logs.bound(key="shop/cache"):
        task = asyncio.create_task(later())
    with logs.bound(key="another"):
        released.set()
        await task
    assert only_line(stream)["key"] == "shop/cache"


def test_an_exception_is_one_field_of_the_one_line() -> None:
    stream = as_json()
    try:
        int("broken")
    except ValueError:
        log.exception("failed")
    line = only_line(stream)
    assert line["message"] == "failed"
    assert str(line["exception"]).startswith("Traceback")
    assert str(line["exception"]).endswith("'broken'")


def test_a_field_never_hides_a_part_of_the_record() -> None:
    stream = as_json()
    log.info("kept", extra={"level": "mine", "time": 1})
    line = only_line(stream)
    assert (line["level"], line["level_"], line["time_"]) == ("info", "mine", 1)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (float("nan"), None),
        ("\ud800", "\\ud800"),
        (Unshowable(), "<a Unshowable>"),
        (Colour.RED, "Colour.RED"),
        (b"\xff", "b'\\xff'"),
        ({(1, 2): Key("a", "b")}, "{(1, 2): Key(namespace='a', name='b')}"),
        (("a", 1, Unshowable()), ["a", 1, "<a Unshowable>"]),
        (cycle(), ["[[...]]"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_are_shown_somehow(value: object, shown: object) -> None:
    stream = as_json()
    log.info("odd", extra={"value": value})
    assert only_line(stream)["value"] == shown


@pytest.mark.parametrize("configured", [as_json, as_pretty])
def test_arguments_that_do_not_fit_leave_the_message_readable(
    configured: Callable[[], io.StringIO],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest's own would raise
    stream = configured()
    log.info("%d of %d", "one", "two")
    log.info("%s", Unshowable())
    assert "%d of %d" in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 2
    assert capsys.readouterr().err == ""


def test_a_pretty_line_begins_with_the_key_and_ends_with_the_fields() -> None:
    stream = as_pretty()
    with logs.bound(key=Key("shop", "cache"), controller="valkey"):
        log.info("rolled", extra={"why": "new image", "pods": 3})
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d INFO    shop/cache rolled controller=valkey why='new image' pods=3\n",
        stream.getvalue(),
    )


def test_text_from_outside_cannot_move_the_cursor_of_a_terminal() -> None:
    stream = as_pretty()
    log.info("a\x1b[2Jb\nc", extra={"field": "\r\x07"})
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", stream.getvalue())
    assert len(stream.getvalue().splitlines()) == 1


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = Terminal(), Terminal()
    logs.configure(stream=coloured)
    log.error("red")
    monkeypatch.setenv("NO_COLOR", "1")
    logs.configure(stream=plain)
    log.error("plain")
    assert "\x1b[31mERROR  \x1b[0m red" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_what_is_no_terminal_gets_json() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream)
    log.info("for machines")
    assert only_line(stream)["message"] == "for machines"


def test_the_level_changes_while_the_process_runs() -> None:
    stream = as_json()
    log.debug("unheard")
    logs.set_level("debug")
    log.debug("heard")
    assert only_line(stream)["message"] == "heard"


def test_a_level_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"'loud' is no log level; there are debug, info, warning, error"):
        logs.set_level("loud")


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = as_json(), as_json()
    log.info("once")
    assert first.getvalue() == ""
    assert only_line(second)["message"] == "once"

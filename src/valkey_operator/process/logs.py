"""Logs of the whole process on the standard library: a JSON object per line, or lines for a terminal.

What a record is about (`key`, `controller`) comes from `bound`. A log call never raises, whatever it is given.
With the standard library's JSON: a sidecar logs little, and any other would add a megabyte beside every server.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TextIO

LEVELS = {"debug": 2, "info": 36, "warning": 33, "error": 31}  # and their colours
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default={})  # noqa: B039 - never changed
_SIMPLE = (bool, int, float, type(None))
_handler = logging.StreamHandler()


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Every record made inside, by any library and in tasks begun here, carries these fields."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def configure(
    form: Literal["json", "pretty", "auto"] = "auto", level: str = "info", stream: TextIO | None = None
) -> None:
    """Log to `stream`, else stderr; a second call replaces the first, handlers of others stay."""
    set_level(level)
    _handler.setStream(stream or sys.stderr)
    terminal = _handler.stream.isatty()
    pretty = form == "pretty" or (form == "auto" and terminal)
    _handler.setFormatter(Pretty(terminal and "NO_COLOR" not in os.environ) if pretty else Json())
    logging.root.addHandler(_handler)


def set_level(level: str) -> None:
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; there are {', '.join(LEVELS)}")
    logging.root.setLevel(level.upper())


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": f"{moment[:-6]}Z", "level": record.levelname.lower(), "logger": record.name}
        line["message"] = _text(record)
        # A field of one of those names must not hide it.
        fields = {f"{name}_" if name in line else name: _plain(value) for name, value in _fields(record)}
        if record.exc_info:
            fields["exception"] = _text(self.formatException(record.exc_info))
        return json.dumps({**line, **fields}, ensure_ascii=False, separators=(",", ":"))


class Pretty(logging.Formatter):
    """For people. Control characters are spelt out, so that no text can move their cursor."""

    def __init__(self, colour: bool) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self._level = "\x1b[{}m{:<7}\x1b[0m" if colour else "{1:<7}"

    def format(self, record: logging.LogRecord) -> str:
        level = self._level.format(LEVELS.get(record.levelname.lower(), 31), record.levelname)
        fields = {name: _printable(_text(value), " =") for name, value in _fields(record)}
        parts = [self.formatTime(record, self.datefmt), level, fields.pop("key", "")]
        parts += [_printable(_text(record)), *(f"{name}={value}" for name, value in fields.items())]
        trace = f"\n{_text(self.formatException(record.exc_info))}" if record.exc_info else ""
        return " ".join(part for part in parts if part) + trace


def _fields(record: logging.LogRecord) -> list[tuple[str, object]]:
    extra = {name: value for name, value in vars(record).items() if name not in _USUAL}
    known = {**_bound.get(), **extra}
    return sorted(known.items(), key=lambda field: field[0] not in ("key", "controller"))


def _plain(value: object) -> object:
    """Only what is simple keeps its form; an object's own `str` decides what may be seen."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [_scalar(item) for item in value]
    return _scalar(value)


def _scalar(value: object) -> object:
    if type(value) is float and not math.isfinite(value):
        return None  # JSON has no word for it
    return value if type(value) in _SIMPLE else _text(value)


def _text(value: object) -> str:
    try:
        shown = value.getMessage() if isinstance(value, logging.LogRecord) else str(value)
        return shown.encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - arguments that do not fit, objects that refuse to be shown
        # Without its arguments a message is at least readable.
        return _text(value.msg) if isinstance(value, logging.LogRecord) else f"<a {type(value).__name__}>"


def _printable(text: str, apart: str = "") -> str:
    return text if text.isprintable() and not set(text) & set(apart) else repr(text)

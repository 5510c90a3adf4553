"""Reads a stored history back, and says in one sentence what is wrong with a file that is none."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from tests.chaos.history import (
    FORMAT,
    Demands,
    End,
    Header,
    History,
    Kind,
    NodeRead,
    Operation,
    Record,
    Role,
    Waited,
    Write,
)
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import SlotRange

T = TypeVar("T")


class Unreadable(Exception):
    """The file is no complete history."""


class Fields:
    """The fields of one JSON object, each taken out with the type that it must have."""

    def __init__(self, values: object) -> None:
        self._values: dict[str, object] = _is(dict, values)

    def text(self, name: str) -> str:
        return _is(str, self._values[name])

    def whole(self, name: str) -> int:
        return _is(int, self._values[name])

    def maybe_whole(self, name: str) -> int | None:
        return None if self._values[name] is None else self.whole(name)

    def seconds(self, name: str) -> float:
        return _seconds(self._values[name])

    def maybe_seconds(self, name: str) -> float | None:
        return None if self._values[name] is None else self.seconds(name)

    def texts(self, name: str) -> list[str]:
        return [_is(str, item) for item in _is(list, self._values[name])]

    def mapping(self, name: str, kind: type[T]) -> dict[str, T]:
        return {str(key): _is(kind, item) for key, item in _is(dict, self._values[name]).items()}

    def ranges(self, name: str) -> tuple[SlotRange, ...]:
        return tuple((_is(int, first), _is(int, last)) for first, last in _is(list, self._values[name]))

    def inner(self, name: str) -> "Fields":
        return Fields(self._values[name])

    def only(self) -> tuple[str, "Fields"]:
        (name,) = self._values
        return name, self.inner(name)


def _is(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} should be {kind.__name__}")
    return value


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int) else _is(float, value)


def _header(fields: Fields) -> Header:
    if (version := fields.whole("format")) != FORMAT:
        raise ValueError(f"it has format {version}, this program reads format {FORMAT}")
    demands = fields.inner("demands")
    return Header(
        target=fields.text("target"),
        run=fields.text("run"),
        seed=fields.whole("seed"),
        started=fields.text("started"),
        tags=tuple(fields.texts("tags")),
        versions=fields.mapping("versions", str),
        demands=Demands(demands.whole("writes"), demands.whole("replicas"), demands.maybe_seconds("pause")),
    )


def _write(fields: Fields) -> Write:
    return Write(
        kind=Kind(fields.text("kind")),
        element=fields.text("element"),
        tag=fields.text("tag"),
        sent=fields.seconds("sent"),
        done=fields.seconds("done"),
        outcome=Outcome(fields.text("outcome")),
        during=fields.text("during"),
        node=fields.text("node"),
        reason=fields.text("reason"),
        value=fields.maybe_whole("value"),
    )


def _waited(fields: Fields) -> Waited:
    return Waited(fields.text("element"), fields.whole("replicas"))


def _operation(fields: Fields) -> Operation:
    return Operation(fields.text("name"), fields.seconds("began"), fields.seconds("ended"))


def _read(fields: Fields) -> NodeRead:
    return NodeRead(
        node=fields.text("node"),
        role=Role(fields.text("role")),
        shard=fields.text("shard"),
        slots=fields.ranges("slots"),
        state=fields.text("state"),
        elements=frozenset(fields.texts("elements")),
        counters=fields.mapping("counters", int),
    )


def _end(fields: Fields) -> End:
    return End(fields.seconds("ended"), fields.text("unread"))


READERS: dict[str, Callable[[Fields], Record]] = {
    "header": _header,
    "write": _write,
    "waited": _waited,
    "operation": _operation,
    "noderead": _read,
    "end": _end,
}


def read_history(path: Path) -> History:
    try:
        with path.open(encoding="utf-8") as lines:
            return _assemble(path, lines)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}.") from error


def _assemble(path: Path, lines: Iterable[str]) -> History:
    history: History | None = None
    ended = False
    for number, line in enumerate(lines, start=1):
        record = _record(path, number, line)
        if ended:
            raise Unreadable(f"{path} goes on after its end, in line {number}.")
        if history is None:
            history = _opened(path, record)
        elif isinstance(record, Header):
            raise Unreadable(f"{path} holds a second history, from line {number} on.")
        else:
            history.add(record)
        ended = isinstance(record, End)
    if history is None or not ended:
        raise Unreadable(f"{path} is truncated: it has no end line, so it proves nothing.")
    return history


def _opened(path: Path, record: Record) -> History:
    if not isinstance(record, Header):
        raise Unreadable(f"{path} is no history: its first line is no header.")
    return History(record)


def _record(path: Path, number: int, line: str) -> Record:
    try:
        name, fields = Fields(json.loads(line)).only()
        return READERS[name](fields)
    except KeyError as error:
        raise Unreadable(f"{path} is no history: line {number} does not fit at {error}.") from error
    except (ValueError, TypeError) as error:
        raise Unreadable(f"{path} is truncated or no history: line {number}: {error}.") from error

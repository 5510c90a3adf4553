"""Who owns which field of an object, read from its managed fields: pure functions.

The server keeps for every manager the set of fields it applied, and takes a field from the set when somebody
else changes it. So a field that we applied and still own has the value we gave it, and nothing needs to be
compared: neither defaults nor "1024Mi" against "1Gi" can fool it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from valkey_operator.kube.objects import ManagedFields

# In the server's own words: `f:spec` a field, `k:{"name":"x"}` an element of a list by its keys, `v:1` by value.
Path = tuple[str, ...]
Fields = Mapping[str, Any]
HEAD = ("apiVersion", "kind", "metadata")
MARKS = ("labels", "annotations", "finalizers")


class Difference(NamedTuple):
    """A field that is not as we applied it."""

    path: str
    wanted: str
    found: str
    manager: str

    def __str__(self) -> str:
        return f"{self.path}: {self.wanted} wanted, {self.found} found, changed by {self.manager or 'nobody known'}"


def fingerprint(wanted: Fields) -> str:
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:32]


def lost(wanted: Fields, entries: Iterable[ManagedFields], manager: str) -> frozenset[Path]:
    """What of `wanted` this manager does not own (any more)."""
    ours: Fields = {}
    for entry in entries:
        if (entry.manager, entry.operation, entry.subresource) == (manager, "Apply", ""):
            ours = msgspec.json.decode(entry.fields_v1)
    content = {name: value for name, value in wanted.items() if name not in HEAD}
    marks = {name: wanted["metadata"].get(name) for name in MARKS}
    return frozenset(_unowned({**content, "metadata": marks}, ours, ()))


def differences(
    paths: Iterable[Path], wanted: Fields, found: Fields, *, hidden: bool
) -> tuple[Difference, ...]:
    """The same for people: what was wanted, what is there, who changed it."""
    sets = [(entry["manager"], entry.get("fieldsV1")) for entry in found["metadata"].get("managedFields", ())]

    def difference(path: Path) -> Difference:
        manager = next((name for name, fields in sets if _holds(fields, path)), "")
        return Difference(text(path), _short(wanted, path, hidden), _short(found, path, hidden), manager)

    return tuple(map(difference, sorted(paths)))


def text(path: Path) -> str:
    """`.spec.ports[port=6379,protocol=TCP].name`"""
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_named(step)}]" for step in path)


def _unowned(wanted: Any, owned: Fields, path: Path) -> Iterator[Path]:
    if isinstance(wanted, Mapping):
        steps = [(f"f:{name}", value) for name, value in wanted.items()]
    else:
        steps = [(_step(element, owned), element) for element in wanted]
    for step, value in steps:
        part, place = owned.get(step), (*path, step)
        if value is None or value == {} or value == []:
            continue  # the server keeps no record of nothing
        if part or (part is None and isinstance(value, Mapping) and step.startswith("f:")):
            yield from _unowned(value, part or {}, place)
        elif part is None:
            yield place


def _step(element: Any, owned: Fields) -> str:
    """How the server names this element of a list, as far as it has one such."""
    if not isinstance(element, Mapping):
        return f"v:{msgspec.json.encode(element).decode()}"
    known = (step for step in owned if step.startswith("k:") and _is(element, step))
    named = {"name": element["name"]} if "name" in element else element
    return next(known, f"k:{msgspec.json.encode(named).decode()}")


def _is(element: Any, step: str) -> bool:
    """A key that the server added by default need not be in the element."""
    value = msgspec.json.decode(step[2:])
    if step.startswith("v:"):
        return bool(element == value)
    return isinstance(element, Mapping) and all(element.get(name, key) == key for name, key in value.items())


def _holds(fields: Fields | None, path: Path) -> bool:
    for step in path:
        fields = None if fields is None else fields.get(step)
    return fields is not None


def _short(content: Any, path: Path, hidden: bool) -> str:
    for step in path:
        if step.startswith("f:"):
            content = content.get(step[2:]) if isinstance(content, Mapping) else None
        else:
            content = next((part for part in content or () if _is(part, step)), None)
    if content is None:
        return "nothing"
    shown = "(hidden)" if hidden else msgspec.json.encode(content).decode()
    return shown if len(shown) <= 120 else f"{shown[:117]}…"


def _named(step: str) -> str:
    keys = msgspec.json.decode(step[2:])
    pairs = [f"{name}={value}" for name, value in keys.items()] if isinstance(keys, dict) else [str(keys)]
    return ",".join(pairs)

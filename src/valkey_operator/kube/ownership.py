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

# A field's name, or the keys by which an element of a list is known.
Step = str | tuple[tuple[str, Any], ...]
Path = tuple[Step, ...]
Fields = Mapping[str, Any]


class Difference(NamedTuple):
    """A field that is not as we applied it."""

    path: str
    wanted: str
    found: str
    manager: str

    def __str__(self) -> str:
        return f"{self.path}: {self.wanted} wanted, {self.found} found, changed by {self.manager or 'nobody known'}"


def fingerprint(wanted: Mapping[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:32]


def lost(wanted: Mapping[str, Any], entries: Iterable[ManagedFields], manager: str) -> frozenset[Path]:
    """What of `wanted` this manager does not own (any more)."""
    ours = [entry for entry in entries if entry.manager == manager and entry.operation == "Apply"]
    main = next((_fields(entry) for entry in ours if not entry.subresource), {})
    content = {
        name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")
    }
    marks = {name: wanted.get("metadata", {}).get(name) for name in ("labels", "annotations", "finalizers")}
    return frozenset(_unowned({**content, "metadata": marks}, main, ()))


def differences(
    paths: Iterable[Path], wanted: Mapping[str, Any], found: Mapping[str, Any], entries: Iterable[ManagedFields],
    hidden: bool = False,
) -> tuple[Difference, ...]:  # fmt: skip
    """The same for people: what was wanted, what is there, who changed it."""
    sets = [(entry.manager, _fields(entry)) for entry in entries]
    return tuple(
        Difference(
            text(path), _short(_value(wanted, path), hidden), _short(_value(found, path), hidden),
            next((manager for manager, fields in sets if _holds(fields, path)), ""),
        )
        for path in sorted(paths, key=text)
    )  # fmt: skip


def _fields(entry: ManagedFields) -> Fields:
    fields: Fields = msgspec.json.decode(entry.fields_v1)
    return fields


def _unowned(wanted: Any, owned: Fields, path: Path) -> Iterator[Path]:
    if isinstance(wanted, Mapping):
        for name, value in wanted.items():
            yield from _unowned_part(value, owned.get(f"f:{name}"), (*path, name))
    elif isinstance(wanted, list) and owned:  # a list without keys is owned as a whole
        for element in wanted:
            step, part = _element(element, owned)
            yield from _unowned_part(element, part, (*path, step))


def _unowned_part(value: Any, part: Fields | None, path: Path) -> Iterator[Path]:
    if value is None or value == {} or value == []:
        return  # the server keeps no record of nothing
    if part is None and isinstance(value, Mapping):
        yield from _unowned(value, {}, path)
    elif part is None:
        yield path
    elif part:  # else owned as a whole
        yield from _unowned(value, part, path)


def _element(element: Any, owned: Fields) -> tuple[Step, Fields | None]:
    """The step to one element of a list, and what of it is owned."""
    if not isinstance(element, Mapping):
        return ((("", element),), owned.get(f"v:{msgspec.json.encode(element).decode()}"))
    for name, part in owned.items():
        if name.startswith("k:"):
            keys: dict[str, Any] = msgspec.json.decode(name[2:])
            if all(element.get(key, value) == value for key, value in keys.items()):
                return tuple(keys.items()), part
    known = [
        key for key in ("name", "key", "port", "containerPort", "mountPath", "type", "ip") if key in element
    ]
    return tuple((key, element[key]) for key in known[:1]), None


def _holds(fields: Fields, path: Path) -> bool:
    for step in path:
        if isinstance(step, str):
            inner = fields.get(f"f:{step}")
        else:
            parts = (part for name, part in fields.items() if name.startswith("k:") and _is(name, step))
            inner = next(parts, None)
        if inner is None:
            return False
        fields = inner
    return True


def _is(name: str, step: tuple[tuple[str, Any], ...]) -> bool:
    keys: dict[str, Any] = msgspec.json.decode(name[2:])
    return all(keys.get(key) == value for key, value in step)


def _value(content: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, str) and isinstance(content, Mapping):
            content = content.get(step)
        elif isinstance(content, list):
            matching = (part for part in content if _matches(part, step))
            content = next(matching, None)
        else:
            return None
    return content


def _matches(part: Any, step: Step) -> bool:
    if isinstance(step, str):
        return False
    return all(part == value if key == "" else part.get(key, value) == value for key, value in step)


def text(path: Path) -> str:
    named = (
        f".{step}" if isinstance(step, str) else f"[{','.join(f'{k}={v}' if k else str(v) for k, v in step)}]"
        for step in path
    )
    return "".join(named)


def _short(value: Any, hidden: bool) -> str:
    if value is None:
        return "nothing"
    text = "(hidden)" if hidden else msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}…"

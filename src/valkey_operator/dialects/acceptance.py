"""What was made, held against the types and rules of our API: what they refuse is taken out and told."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from valkey_operator.api.kinds import KINDS, LONGEST_NAMES
from valkey_operator.api.layers import APPLIES, effective
from valkey_operator.api.validation import faults
from valkey_operator.dialects.reading import Content

SPECS = {kind.name: kind.spec for kind in KINDS}
MOST_FAULTS = 1000
Path = list[str | int]
Fault = tuple[Path, str]


def trim(kind: str, name: str, spec: Content) -> tuple[bool, list[tuple[str, str]]]:
    """Takes out of `spec` what cannot stand there. Whether anything is left that can be made, and what was wrong."""
    told: list[tuple[str, str]] = []
    if _is_too_long(kind, name):
        longest = LONGEST_NAMES[kind]
        return False, [("metadata.name", f"the name {name} is too long: use at most {longest} letters")]
    for _ in range(MOST_FAULTS):
        fault = _first_fault(kind, spec)
        if fault is None:
            return True, told
        path, sentence = fault
        there = _there(spec, path)
        told.append((_shown(there or path), sentence))
        if not there:
            return False, told
        _remove(spec, there)
    return False, told


def is_ours(kind: str, spec: Any, name: str = "") -> bool:
    """Whether it could be applied as it is."""
    return isinstance(spec, dict) and not _is_too_long(kind, name) and _first_fault(kind, spec) is None


def _is_too_long(kind: str, name: str) -> bool:
    return len(name) > LONGEST_NAMES.get(kind, len(name))


def _first_fault(kind: str, spec: Content) -> Fault | None:
    """As JSON: there a number in quotes is text, as it is for an API server."""
    try:
        SPECS[kind].model_validate_json(json.dumps(spec), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        unknown = first["type"] == "extra_forbidden"
        sentence = "there is no such field here" if unknown else first["msg"].removeprefix("Value error, ")
        return list(first["loc"]), sentence
    return _value_fault(kind, spec)


def _value_fault(kind: str, spec: Content) -> Fault | None:
    """What only the whole of the values shows, such as a directive that is the operator's own."""
    if kind not in APPLIES:
        return None
    own = spec["template"] if kind == "ValkeyPool" else spec
    for fault in faults(kind, effective(kind, own).values):
        path = _path(spec, fault.field.removeprefix("spec."))
        if path:
            return path, fault.sentence
    return None


def _path(place: Any, field: str) -> Path:
    """Of a field by its name, nothing where it does not stand here; keys of labels have dots in them."""
    if not isinstance(place, dict):
        return []
    for key in place:
        if key == field:
            return [key]
        deeper = _path(place[key], field.removeprefix(f"{key}.")) if field.startswith(f"{key}.") else []
        if deeper:
            return [key, *deeper]
    return []


def _there(spec: Content, path: Path) -> Path:
    """As much of a path as leads to something."""
    place: Any = spec
    walked: Path = []
    for part in path:
        known = isinstance(place, dict) and part in place
        if not known and not (isinstance(place, list) and isinstance(part, int) and part < len(place)):
            break
        place = place[part]
        walked.append(part)
    return walked


def _remove(spec: Content, path: Path) -> None:
    """With what is empty then: an empty block may mean something else than none."""
    place: Any = spec
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    if not place and len(path) > 1:
        _remove(spec, path[:-1])


def _shown(path: Path) -> str:
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)

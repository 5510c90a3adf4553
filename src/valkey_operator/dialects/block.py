"""A part of an object in the making: values, and for some of them a comment that says where they come from."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import yaml

from valkey_operator.dialects.reading import STANDARD_TAG, Content

WIDTH = 1000  # never break a line: a broken one is harder to compare
# Kubernetes' YAML takes more for a number, a boolean or a date than PyYAML does: 1e3, 0891234, 0o17, 0X1F, y. It skips
# underscores in numbers, so they are left out before the text is held against this.
NOT_TEXT = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|[yYnN]"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[tT ].*)?",
    re.ASCII,
)


class Block:
    """Values by path, such as `persistence.size`, with comments."""

    def __init__(self) -> None:
        self.values: Content = {}
        self.comments: dict[str, str] = {}

    def put(self, path: str, value: Any, comment: str = "") -> None:
        """What is not given (None) is not put."""
        if value is None:
            return
        *parents, last = path.split(".")
        place = self.values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
        if comment:
            self.comments[path] = comment

    def has(self, path: str) -> bool:
        place: Any = self.values
        for part in path.split("."):
            if not isinstance(place, dict) or part not in place:
                return False
            place = place[part]
        return True

    def graft(self, path: str, other: Block) -> None:
        self.put(path, other.values)
        self.comments |= {f"{path}.{inner}": text for inner, text in other.comments.items()}

    def share(self, name: str, other: Block) -> None:
        """A copy of what another has under a name, with its comments."""
        self.put(name, copy.deepcopy(other.values.get(name)))
        self.comments |= {
            path: text for path, text in other.comments.items() if f"{path}.".startswith(f"{name}.")
        }


def as_yaml(content: Content, comments: dict[str, str], head: list[str]) -> str:
    """An object as people read it: comments stand above what they are about."""
    lines = [f"# {_one_line(line)}" for line in head]
    return "\n".join([*lines, *_lines(content, comments, "", 0)])


def _lines(content: Content, comments: dict[str, str], path: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in content.items():
        here = f"{path}.{key}".lstrip(".")
        if here in comments:
            yield f"{indent}# {_one_line(comments[here])}"
        if isinstance(value, dict) and value:
            yield indent + dump({key: None}).removesuffix(" null")
            yield from _lines(value, comments, here, depth + 1)
        else:
            yield from (f"{indent}{line}" for line in dump({key: value}).split("\n"))


def dump(content: Any) -> str:
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, width=WIDTH, allow_unicode=True).rstrip("\n")


class Dumper(yaml.SafeDumper):
    """Lists are indented, as people write them; nothing refers to what stands elsewhere."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """In quotes where another reader would take it for something else than text."""
        style = "'" if NOT_TEXT.fullmatch(data.replace("_", "")) else None
        return self.represent_scalar(f"{STANDARD_TAG}str", data, style=style)


Dumper.add_representer(str, Dumper.represent_str)


def _one_line(text: str) -> str:
    return " ".join(text.split())

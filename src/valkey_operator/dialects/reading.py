"""Manifests as they stand in a file: documents with their line, and scalars as they were written.

`tag: 8.10` must stay 8.10, so only whole decimal numbers, booleans and null are anything else than text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Content = dict[str, Any]

SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
# One draft explained its window behind the closing quote, which is no YAML: the explanation goes into the text.
EXPLAINED_WINDOW = re.compile(r'^(\s*tlsRefreshRestartWindow:\s*)"([^"\n]*)"[ \t]+(\([^\n]*)$', re.MULTILINE)


class BadManifest(Exception):
    """One sentence that begins with file and line."""


@dataclass(frozen=True)
class Document:
    """One object of a file. `text` is how it stood there, empty for one out of a List."""

    file: str
    line: int
    content: Content
    text: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def kind(self) -> str:
        return str(self.content.get("kind"))

    @property
    def group(self) -> str:
        return str(self.content.get("apiVersion")).rpartition("/")[0]

    @property
    def metadata(self) -> Content:
        found = self.content.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")


class Loader(yaml.SafeLoader):
    """YAML without what Kubernetes has no use for: fractions, dates, octal and sexagesimal numbers stay text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: ARG002 - always deep
    ) -> dict[Hashable, Any]:
        self.flatten_mapping(node)
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is there twice", key.start_mark
                )
            seen.add(key.value)
        return {str(key.value): self.construct_object(value, deep=True) for key, value in node.value}


for tag, form, first in (
    ("bool", r"true|True|TRUE|false|False|FALSE|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF", "tTfFyYnNoO"),
    ("int", r"-?(0|[1-9][0-9]*)", "-0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^({form})$"), list(first))


def read(text: str, file: str) -> list[Document]:
    """Every object of a file; Lists are taken apart."""
    return [found for line, part in _parts(text) for found in _objects(part, file, line)]


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The documents' texts, each with the number of the line before it."""
    starts = [0, *(match.start() for match in SEPARATOR.finditer(text))]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield text.count("\n", 0, start), text[start:end]


def _objects(part: str, file: str, before: int) -> Iterator[Document]:
    content, line = _load(part, file, before)
    if content is None:
        return
    if not isinstance(content, dict) or not content.get("apiVersion") or not content.get("kind"):
        raise BadManifest(f"{file}:{line}: this is no object: it has no apiVersion and kind")
    if content["kind"] == "List" or (str(content["kind"]).endswith("List") and "items" in content):
        for item in content.get("items") or []:
            if not isinstance(item, dict) or not item.get("kind"):
                raise BadManifest(f"{file}:{line}: the List has an item that is no object")
            yield Document(file, line, item)
    else:
        yield Document(file, line, content, SEPARATOR.sub("", part, count=1).strip("\n"))


def _load(part: str, file: str, before: int) -> tuple[Any, int]:
    """The content, and the line of the file that it begins at."""
    try:
        loader = Loader(EXPLAINED_WINDOW.sub(r"\1'\2 \3'", part))
        node = loader.get_single_node()
        if node is None:
            return None, before + 1
        content = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise BadManifest(f"{file}:{before + line + 1}: this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise BadManifest(f"{file}:{before + 1}: this is no YAML: {said}") from None
    except RecursionError:
        raise BadManifest(f"{file}:{before + 1}: this is no manifest: it is nested too deep") from None
    except ValueError:
        raise BadManifest(f"{file}:{before + 1}: this is no manifest: a number has too many digits") from None
    return content, before + node.start_mark.line + 1

"""A mapping of a source, and what nobody has taken out of it: that is told, and never lost in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valkey_operator.dialects.reading import Content

UNKNOWN = "nobody knows this field"
EMPTY: tuple[Any, ...] = (None, "", [], {})


def is_count(text: str) -> bool:
    """Of so few digits that anything may have it; the rest is judged where it is written."""
    return text.isdecimal() and len(text) <= 18


class Fields:
    """Values are taken by name; what has the wrong form is a fault, what is left over too. Null is nothing."""

    def __init__(self, content: Any, path: str = "spec") -> None:
        self.path = path
        self.faults: list[tuple[str, str]] = []
        self._parts: list[Fields] = []
        if not isinstance(content, dict):
            if content is not None:
                self.faults.append((path, "it has to be a mapping"))
            content = {}
        self._left: Content = {key: value for key, value in content.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def names(self) -> list[str]:
        return list(self._left)

    def see(self, key: str) -> Any:
        return self._left.get(key)

    def take(self, key: str) -> Any:
        """As it is; None when it is not there."""
        return self._left.pop(key, None)

    def part(self, key: str) -> Fields:
        """The mapping under a name; an empty one when there is none."""
        part = Fields(self.take(key), f"{self.path}.{key}")
        self._parts.append(part)
        return part

    def parts(self, key: str) -> list[Fields]:
        """The mappings of a list."""
        found = self.take(key)
        if found is None:
            return []
        if not isinstance(found, list):
            self.fault(key, "it has to be a list")
            return []
        parts = [Fields(item, f"{self.path}.{key}[{index}]") for index, item in enumerate(found)]
        self._parts += parts
        return parts

    def says(self, key: str) -> bool:
        """Whether there is anything, which is taken by that. False and 0 say something; what is empty does not."""
        return self.take(key) not in EMPTY

    def text(self, key: str) -> str | None:
        """Text, also where somebody wrote a number without quotes."""
        return self._as_text(self.take(key), key)

    def texts(self, key: str) -> list[str]:
        """The texts of a list."""
        found = self.take(key)
        if found is None:
            return []
        if not isinstance(found, list):
            self.fault(key, "it has to be a list")
            return []
        texts = [self._as_text(item, f"{key}[{index}]") for index, item in enumerate(found)]
        return [text for text in texts if text is not None]

    def references(self, key: str) -> list[str]:
        """Names in a list, each alone or as `{name: …}`; or one name without a list."""
        found = self.take(key)
        if found in EMPTY:
            return []
        listed = found if isinstance(found, list) else [found]
        self._left[key] = [item if isinstance(item, dict) else {"name": item} for item in listed]
        return [name for part in self.parts(key) if (name := part.text("name"))]

    def _as_text(self, found: Any, key: str) -> str | None:
        if found is None or isinstance(found, str):
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        self.fault(key, "it has to be text; put it in quotes")
        return None

    def count(self, key: str) -> int | None:
        found = self.take(key)
        if found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0):
            return found
        if isinstance(found, str) and is_count(found):
            return int(found)
        self.fault(key, "it has to be a whole number")
        return None

    def flag(self, key: str) -> bool | None:
        found = self.take(key)
        if found is None or isinstance(found, bool):
            return found
        self.fault(key, "it has to be true or false")
        return None

    def fault(self, key: str, sentence: str) -> None:
        self.faults.append((f"{self.path}.{key}", sentence))

    def left_over(self) -> Iterator[tuple[str, str]]:
        """Everything that could not be carried over, with the reason."""
        yield from self.faults
        for key in self._left:
            yield f"{self.path}.{key}", UNKNOWN
        for part in self._parts:
            yield from part.left_over()

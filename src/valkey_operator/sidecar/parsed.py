"""Small files that are asked for with every look, and are read only when they have changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# Of one sidecar there are fewer.
MOST = 32


def parsed(folder: Path, name: str, parse: Callable[[str], T]) -> T:
    """What `parse` made of it, for all who ask: not to be changed. Raises FileNotFoundError like a reading."""
    file = f"{folder}/{name}"  # several times a second: a path of its own would cost more than the rest
    found = os.stat(file)  # noqa: PTH116
    # Whatever is replaced is another file, be it by a mount or by a name.
    made: T = _made(file, parse, found.st_ino, found.st_mtime_ns, found.st_size)
    return made


def forget() -> None:
    """After a file was written here: one that follows another at once may look like the one before it."""
    _made.cache_clear()


@lru_cache(maxsize=MOST)
def _made(file: str, parse: Callable[[str], T], *_mark: int) -> T:
    return parse(Path(file).read_text())

"""Small files that are asked for with every look, and are read only when they have changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# Of one sidecar there are fewer.
MOST = 32


def parsed(file: Path, parse: Callable[[str], T]) -> T:
    """What `parse` made of it, for all who ask: not to be changed. Raises FileNotFoundError like a reading."""
    found = file.stat()
    # Whatever is replaced is another file, be it by a mount or by a name.
    made: T = _made(file, parse, found.st_ino, found.st_mtime_ns, found.st_size)
    return made


@lru_cache(maxsize=MOST)
def _made(file: Path, parse: Callable[[str], T], *_mark: int) -> T:
    return parse(file.read_text())

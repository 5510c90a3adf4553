"""Shared by the tests of the ground."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder with a short path: sockets lie in it, and pytest's own folders are too long for that."""
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        yield Path(folder).resolve()

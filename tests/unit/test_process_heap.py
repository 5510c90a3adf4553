"""What a process does about its memory."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import asyncio, gc, ssl
from valkey_operator.process import heap

before = len(gc.get_objects())
heap.keep_what_is_imported()
print(gc.get_freeze_count() > before // 2, len(gc.get_objects()) < before // 2)
"""


def test_the_collector_no_longer_walks_what_was_imported() -> None:
    """In a process of its own: it cannot be undone in parts."""
    told = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "True"]

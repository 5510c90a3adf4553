"""Waiting for something that announces itself nowhere: look often, give up in time, say what for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from devcluster.problem import Problem

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str, patience: float, every: float = 0.05) -> Found:
    """Look until the answer is true and return it; a Problem names what did not happen."""
    deadline = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > deadline:
            raise Problem(f"{what} did not happen within {patience:g} s")
        time.sleep(every)
    return found

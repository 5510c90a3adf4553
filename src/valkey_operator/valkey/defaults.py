"""What a directive is when nobody sets it, where that is the same in every version and can be set at run time."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def known() -> dict[str, str]:
    """Asked of real servers by tools/directives.py."""
    loaded: dict[str, str] = json.loads(Path(__file__).with_name("defaults.json").read_text())
    return loaded

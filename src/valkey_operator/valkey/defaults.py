"""What a directive is when nobody sets it, where that is the same in every version and can be set at run time."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files


@cache
def known() -> dict[str, str]:
    """Asked of real servers by tools/directives.py."""
    loaded: dict[str, str] = json.loads(files(__package__).joinpath("defaults.json").read_text())
    return loaded

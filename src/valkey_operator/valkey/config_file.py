"""Reads valkey.conf as the server does, and names its content by a fingerprint that both sides compute alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from valkey_operator.api.words import words

# May stand several times, each one for itself.
REPEATED = ("loadmodule",)


def parse(text: str) -> dict[str, str]:
    """The last of each directive, in the form in which CONFIG SET takes it."""
    found: dict[str, str] = {}
    # At nothing else does the server begin a line: a value may have letters that Unicode takes for a line's end.
    for line in text.split("\n"):
        stripped = line.strip(" \t\r")
        if not stripped or stripped.startswith("#"):
            continue
        # With a line that it cannot split the server does not start; what stands there is told all the same.
        name, *values = words(stripped) or stripped.split(" ")
        name, value = name.lower(), " ".join(values)
        found[name] = f"{found[name]}\n{value}" if name in REPEATED and name in found else value
    return found


def fingerprint(directives: Mapping[str, str]) -> str:
    content = json.dumps(sorted(directives.items()), separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:32]

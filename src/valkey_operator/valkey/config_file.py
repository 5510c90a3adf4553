"""Reads valkey.conf as the server does, and names its content by a fingerprint that both sides compute alike."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

# As the server splits a line: "with escapes", 'without', or plain.
WORD = re.compile(r""" *(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(\S+))""")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}
# May stand several times, each one for itself.
REPEATED = ("loadmodule",)


def parse(text: str) -> dict[str, str]:
    """The last of each directive, in the form in which CONFIG SET takes it."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        name, value = name.lower(), " ".join(_words(rest))
        found[name] = f"{found[name]}\n{value}" if name in REPEATED and name in found else value
    return found


def fingerprint(directives: Mapping[str, str]) -> str:
    content = json.dumps(sorted(directives.items()), separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _words(text: str) -> list[str]:
    return [_word(*match.groups()) for match in WORD.finditer(text.strip())]


def _word(double: str | None, single: str | None, plain: str | None) -> str:
    if double is not None:
        return ESCAPE.sub(_unescaped, double)
    return single.replace(r"\'", "'") if single is not None else plain or ""


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) == 3 else ESCAPED.get(code, code)

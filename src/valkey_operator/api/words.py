"""A line of valkey.conf as the server splits it into words: for who writes lines, who reads them, and who judges."""

from __future__ import annotations

import re

BLANK = " \t\n\v\f\r"
# Inside a word that began, fewer end it.
PLAIN = re.compile(r"[^ \t\n\r\0\"']*")
DOUBLE = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
SINGLE = re.compile(r"'((?:\\'|[^'\\]|\\(?!'))*)'", re.DOTALL)
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
ESCAPED = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def words(text: str) -> list[str] | None:
    """None where the server finds no end of a quote, or something behind it: with such a line it does not start."""
    found, rest = [], text.lstrip(BLANK)
    while rest:
        taken = _word(rest)
        if taken is None:
            return None
        word, rest = taken
        found.append(word)
        rest = rest.lstrip(BLANK)
    return found


def one_word(text: str) -> str:
    """As it stands where the server reads one word in it, as where people have quoted it themselves; else quoted."""
    split = words(text)
    is_one = split is not None and len(split) == 1
    return text if is_one and not CONTROL.search(text) else _quoted(text)


def saves(points: str) -> bool:
    """Does a server with these words behind `save` take snapshots? Points add up, and none are none."""
    return bool(points.split())


def _word(text: str) -> tuple[str, str] | None:
    """The first word, and what is behind it; a quote may begin in its middle, and ends it."""
    plain = PLAIN.match(text)
    at = plain.end() if plain else 0
    found = text[:at].encode()
    if text[at : at + 1] in ('"', "'"):
        quote = (DOUBLE if text[at] == '"' else SINGLE).match(text, at)
        if quote is None or text[quote.end() : quote.end() + 1] not in ("", *BLANK):
            return None
        found += _unescaped(quote[1]) if text[at] == '"' else quote[1].replace(r"\'", "'").encode()
        at = quote.end()
    # By bytes, for escapes write a letter as the several bytes that it is.
    return found.decode(errors="replace"), text[at:]


def _unescaped(text: str) -> bytes:
    parts, at = [], 0
    for escape in ESCAPE.finditer(text):
        code = escape[1]
        byte = bytes([int(code[1:], 16)]) if len(code) == 3 else ESCAPED.get(code, code.encode())
        parts += [text[at : escape.start()].encode(), byte]
        at = escape.end()
    return b"".join([*parts, text[at:].encode()])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return '"' + CONTROL.sub(lambda mark: f"\\x{ord(mark[0]):02x}", escaped) + '"'

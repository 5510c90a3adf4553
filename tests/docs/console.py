"""What a page says to type, and what it says one will see.

A block ```console holds commands (`$ …`, going on in lines that begin with `> `), each followed by what it prints: `…`
stands for anything in a line, alone in a line for any number of lines; blanks count as one. Nothing after a command: it
only has to succeed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY = "…"


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    line: int
    text: str
    printed: tuple[str, ...]

    def differs(self, output: str) -> str:
        """How what it printed is not what the page says; empty when it is."""
        if not self.printed or re.fullmatch(_pattern(self.printed), _calm(output.splitlines())):
            return ""
        said = "\n".join(self.printed)
        return f"line {self.line}: `{self.text}` should print\n{said}\nand printed\n{output}"


def blocks(page: str) -> list[tuple[str, int, str]]:
    """Of every fenced block its language, the number of its first line, and its text."""
    return [(found[1], page.count("\n", 0, found.start()) + 2, found[2]) for found in FENCE.finditer(page)]


def commands(page: Path) -> list[Command]:
    return [
        command
        for language, line, text in blocks(page.read_text())
        if language == "console"
        for command in commands_of(line, text)
    ]


def commands_of(first: int, text: str) -> list[Command]:
    """Of one block."""
    found: list[Command] = []
    for number, line in enumerate(text.splitlines(), first):
        if line.startswith("$ "):
            found.append(Command(number, line[2:], ()))
            continue
        assert found, f"line {number}: a console block begins with a command"
        last = found[-1]
        if line.startswith("> ") and not last.printed:
            found[-1] = Command(last.line, f"{last.text}\n{line[2:]}", ())
        else:
            found[-1] = Command(last.line, last.text, (*last.printed, line))
    return found


def _calm(lines: list[str]) -> str:
    calm = (" ".join(line.split()) for line in lines)
    return "".join(f"{line}\n" for line in calm if line)


def _pattern(printed: tuple[str, ...]) -> str:
    parts: list[str] = []
    for line in _calm(list(printed)).splitlines():
        if line == ANY:
            parts.append(r"(.*\n)*")
        else:
            parts.append(r"[^\n]*".join(map(re.escape, line.split(ANY))) + r"\n")
    return "".join(parts)

"""Asks real servers which directives they know, what they take and what they are by themselves, and writes it down.

    uv run python -m tools.directives

Every directive that a server lists is set to nonsense, and the server's own refusal tells its type; to a number that
is too small, and it tells its range. What only the file sets is asked by a start. Run it when a version of Valkey is
added; the results are api/directives.json, for the validation, and valkey/defaults.json, for
live changes.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import valkey

from devcluster.waiting import until
from tests.server_programs import server_command

VERSIONS = ("8.0", "8.1", "9.1")
SOURCE = Path(__file__).resolve().parents[1] / "src" / "valkey_operator"
TARGET = SOURCE / "api" / "directives.json"
DEFAULTS = SOURCE / "valkey" / "defaults.json"
# Told to the servers we ask: not what they are by themselves.
GIVEN = ("bind", "port", "dir", "save")
NONSENSE = "§"
REFUSALS = {
    "couldn't be parsed into an integer": "integer",
    "must be 'yes' or 'no'": "boolean",
    "must be a memory value": "memory",
    "must be a memory or percent value": "percent",
}
RANGE = re.compile(r"must be between (-?[0-9]+) and ([0-9]+) inclusive")
# Less than any of them takes.
TOO_LITTLE = str(-(2**63))


def main() -> None:
    found: dict[str, dict[str, Any]] = {}
    usual: dict[str, set[str]] = {}
    for number, version in enumerate(VERSIONS):
        for name, (value, facts) in _ask(version, 21_600 + number).items():
            usual.setdefault(name, set()).add(value)
            entry = found.setdefault(name, {"versions": []})
            entry["versions"].append(version)
            _widen(entry, facts)
            entry.update(facts)
    _write(TARGET, found)
    same = {name: values for name, values in usual.items() if name not in GIVEN and len(values) == 1}
    _write(DEFAULTS, {name: values.pop() for name, values in same.items()})
    print(f"wrote {len(found)} directives of {', '.join(VERSIONS)} to {TARGET.name}")


def _widen(entry: dict[str, Any], facts: dict[str, Any]) -> None:
    """What one version lets pass is not refused for another's sake."""
    if "range" in entry and "range" in facts:
        both = [entry["range"], facts["range"]]
        facts["range"] = [min(each[0] for each in both), max(each[1] for each in both)]


def _write(target: Path, content: dict[str, Any]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(content[name])}" for name in sorted(content)]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _ask(version: str, port: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Of each directive what it is at first, and what it takes."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""]
        with subprocess.Popen([*server_command(version), *place], stdout=subprocess.DEVNULL) as server:
            try:
                client = valkey.Valkey(port=port, decode_responses=True)
                until(lambda: _answers(client), f"an answer of Valkey {version}", 20)
                listed = dict(client.config_get("*"))  # type: ignore[arg-type] # the synchronous client answers at once
                return {name: (value, _facts(client, version, name)) for name, value in listed.items()}
            finally:
                server.terminate()


def _answers(client: valkey.Valkey) -> bool:
    try:
        return bool(client.ping())
    except valkey.ConnectionError:
        return False


def _facts(client: valkey.Valkey, version: str, name: str) -> dict[str, Any]:
    refusal = _refusal(client, version, name, NONSENSE)
    facts = _type(refusal)
    pairs = itertools.combinations(facts.get("choices", []), 2)
    if any(_takes(client, name, " ".join(pair)) for pair in pairs):
        facts["several"] = True
    if facts["type"] == "text" and not all(
        "wrong number" in _refusal_at_start(version, name, several) for several in ("a b", "a b c")
    ):
        facts["words"] = True
    if facts["type"] in ("integer", "memory") and name not in GIVEN:
        found = RANGE.search(_refusal(client, version, name, TOO_LITTLE))
        facts |= {"range": [int(found[1]), int(found[2])]} if found else {}
    return facts


def _refusal(client: valkey.Valkey, version: str, name: str, value: str) -> str:
    """In the server's words; empty when it takes the value."""
    try:
        client.config_set(name, value)
    except valkey.ResponseError as refusal:
        is_fixed = "immutable" in str(refusal) or "protected" in str(refusal)
        return _refusal_at_start(version, name, value) if is_fixed else str(refusal)
    return ""


def _refusal_at_start(version: str, name: str, value: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder, "valkey.conf")).write_text(f"port 0\ndir {folder}\n{name} {value}\n")
        command = [*server_command(version), str(file)]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=1, check=False).stderr
        except subprocess.TimeoutExpired:
            return ""


def _takes(client: valkey.Valkey, name: str, value: str) -> bool:
    try:
        client.config_set(name, value)
    except valkey.ResponseError:
        return False
    return True


def _type(refusal: str) -> dict[str, Any]:
    for words, kind in REFUSALS.items():
        if words in refusal:
            return {"type": kind}
    if choices := re.search(r"must be one of the following: (.*)", refusal):
        return {"type": "choice", "choices": choices[1].split(", ")}
    return {"type": "text"}


if __name__ == "__main__":
    main()

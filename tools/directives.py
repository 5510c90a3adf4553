"""Asks real servers which directives they know, what they take and what they are by themselves, and writes it down.

    uv run python -m tools.directives

Every directive that a server lists is set to nonsense, and the server's own refusal tells its type. Run it when a
version of Valkey is added; the results are api/directives.json, for the validation, and valkey/defaults.json, for
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
    "must be a memory or percent value": "memory",
}


def main() -> None:
    found: dict[str, dict[str, Any]] = {}
    usual: dict[str, set[str]] = {}
    for number, version in enumerate(VERSIONS):
        for name, (value, facts) in _ask(version, 21_600 + number).items():
            usual.setdefault(name, set()).add(value)
            entry = found.setdefault(name, {"versions": []})
            entry["versions"].append(version)
            entry.update(facts)
    _write(TARGET, found)
    same = {name: values for name, values in usual.items() if name not in GIVEN and len(values) == 1}
    _write(DEFAULTS, {name: values.pop() for name, values in same.items()})
    print(f"wrote {len(found)} directives of {', '.join(VERSIONS)} to {TARGET.name}")


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
                return {name: (value, _facts(client, name, value)) for name, value in listed.items()}
            finally:
                server.terminate()


def _answers(client: valkey.Valkey) -> bool:
    try:
        return bool(client.ping())
    except valkey.ConnectionError:
        return False


def _facts(client: valkey.Valkey, name: str, value: str) -> dict[str, Any]:
    try:
        client.config_set(name, NONSENSE)
    except valkey.ResponseError as refusal:
        facts = _type(str(refusal), value)
        pairs = itertools.combinations(facts.get("choices", []), 2)
        if any(_takes(client, name, " ".join(pair)) for pair in pairs):
            facts["several"] = True
        return facts
    return {"type": "text"}


def _takes(client: valkey.Valkey, name: str, value: str) -> bool:
    try:
        client.config_set(name, value)
    except valkey.ResponseError:
        return False
    return True


def _type(refusal: str, value: str) -> dict[str, Any]:
    for words, kind in REFUSALS.items():
        if words in refusal:
            return {"type": kind}
    if choices := re.search(r"must be one of the following: (.*)", refusal):
        return {"type": "choice", "choices": choices[1].split(", ")}
    if "immutable" in refusal:
        # Only the file may set it: what it holds now tells what it takes.
        return {"type": "boolean" if value in ("yes", "no") else "integer" if value.isdigit() else "text"}
    return {"type": "text"}


if __name__ == "__main__":
    main()

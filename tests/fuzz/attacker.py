"""The attacker's process: python -m tests.fuzz.attacker; a line of JSON in for each attack, one out when it is over."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.attacks import ATTACKS, Attack
from valkey_operator.contract import mtls


def _context(folder: Path) -> ssl.SSLContext:
    """Of somebody who trusts everybody, and shows what is in this folder, if there is anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if (folder / "tls.crt").exists():
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def _shown(folder: str) -> dict[str, ssl.SSLContext]:
    return {each.name: _context(each) for each in Path(folder).iterdir()}


async def run(asked: dict[str, Any]) -> int:
    attacks = {each.__name__: each for each in ATTACKS[asked["target"]]}
    to = Attack(
        asked["port"],
        asked["cases"],
        asked["hold"],
        Random(asked["seed"]),  # noqa: S311 - to be repeated, not to be secret
        _shown(asked["shown"]) if asked["shown"] else None,
        asked["path"],
        asked["body"].encode("latin-1"),
    )
    return await attacks[asked["attack"]](to)


if __name__ == "__main__":
    os.nice(10)  # an attacker would have a machine of its own
    mtls.save_memory()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for line in sys.stdin:
        print(json.dumps({"cases": asyncio.run(run(json.loads(line)))}), flush=True)

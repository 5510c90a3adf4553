"""`kubectl valkey version`: which version this is."""

from __future__ import annotations

import argparse

from valkey_operator import __version__
from valkey_operator.api.group import GROUP, VERSION
from valkey_operator.cli.command import Answer, Command


def run(options: argparse.Namespace) -> Answer:  # noqa: ARG001 - it asks for nothing
    return Answer(f"kubectl-valkey {__version__}, API {GROUP}/{VERSION}")


COMMAND = Command("version", "Show the version of the plugin and of the API it speaks.", run)

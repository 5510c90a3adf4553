"""The plugin's entry point: finds the command, runs it, turns problems into one sentence."""

from __future__ import annotations

import argparse
import signal
import sys

from valkey_operator.cli import (
    cancel,
    completion,
    convert,
    effective,
    reshard,
    rollback,
    status,
    switchover,
    version,
)
from valkey_operator.cli.command import Problem

COMMANDS = (
    status.COMMAND, switchover.COMMAND, reshard.COMMAND, cancel.COMMAND, rollback.COMMAND, effective.COMMAND,
    convert.COMMAND, version.COMMAND, completion.COMMAND,
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="kubectl valkey",
        description="Look after Valkey on Kubernetes.",
        epilog="`kubectl valkey COMMAND --help` explains a command.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        made = commands.add_parser(command.name, help=command.text, description=command.text)
        command.add_arguments(made)
        made.set_defaults(run=command.run)
    return top


def main() -> None:
    options = parser().parse_args()
    try:
        answer = options.run(options)
    except Problem as problem:
        sys.exit(f"kubectl valkey: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    if hasattr(signal, "SIGPIPE"):  # as with `| head`; nothing is asked of anybody any more
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if answer.text:
        print(answer.text, flush=True)
    if answer.told:
        print(answer.told, file=sys.stderr)
    sys.exit(answer.code)


if __name__ == "__main__":
    main()

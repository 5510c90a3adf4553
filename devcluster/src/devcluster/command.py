"""Runs a program of the machine and turns its failure into one readable sentence."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.problem import Problem

Argument = str | Path


def run(
    *arguments: Argument,
    stdin: str | None = None,
    timeout: float = 60,
    inside: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """Run a program to its end and return what it printed; `inside` is a network namespace's file."""
    command = [str(argument) for argument in arguments]
    if inside is not None:
        command = ["nsenter", f"--net={inside}", *command]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
            cwd=folder,
        )
    except FileNotFoundError:
        raise Problem(f"the program {command[0]} is not installed; install it and try again") from None
    except subprocess.TimeoutExpired:
        raise Problem(f"`{shlex.join(command)}` did not end within {timeout:g} s") from None
    if done.returncode:
        raise CommandFailed(command, done.returncode, done.stderr.strip() or done.stdout.strip())
    return done.stdout


class CommandFailed(Problem):
    """A program ended with a failure; its own words are kept in `said`."""

    def __init__(self, command: Sequence[str], code: int, said: str) -> None:
        words = said[-2000:] or "it said nothing"
        super().__init__(f"`{shlex.join(command)}` failed with exit code {code}: {words}")
        self.code = code
        self.said = said

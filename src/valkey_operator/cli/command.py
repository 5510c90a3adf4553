"""What a command is, and how it says that it cannot do what was asked."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


class Problem(Exception):
    """One sentence for the user; shown as it is, without a trace."""


@dataclass(frozen=True)
class Answer:
    """What is printed, and the exit code: 0 when all is well, 1 when it is not. 2 is argparse's, for a wrong usage.

    `told` goes to standard error, where it does not mix with what another program reads.
    """

    text: str
    code: int = 0
    told: str = ""


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """For commands that take none."""


@dataclass(frozen=True)
class Command:
    """A command of the plugin: what it is called, what it takes, and what it prints."""

    name: str
    text: str
    run: Callable[[argparse.Namespace], Answer]
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments

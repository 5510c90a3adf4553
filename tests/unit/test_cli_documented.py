"""The reference page of the plugin has every command and every option, and no other."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from valkey_operator.cli.command import Command
from valkey_operator.cli.main import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kubectl-valkey.md"
HEAD, *SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")


def options(command: Command) -> set[str]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


def arguments(command: Command) -> list[str]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return [action.dest.upper() for action in parser._actions if not action.option_strings]


def section(command: Command) -> str:
    """Several small commands may share one."""
    found = [text for text in SECTIONS if re.search(rf"\b{command.name}\b", text.partition("\n")[0])]
    assert len(found) == 1, f"{command.name} has {len(found)} sections"
    return found[0]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_described_with_all_its_options(command: Command) -> None:
    described = set(OPTION.findall(section(command))) | set(OPTION.findall(HEAD))
    assert options(command) - described == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_what_is_described_is_an_option(command: Command) -> None:
    assert set(OPTION.findall(section(command))) <= options(command)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_heading_names_the_arguments(command: Command) -> None:
    title = section(command).partition("\n")[0]
    assert re.findall(r"\b[A-Z]+\b", title.replace("-f FILE", "")) == arguments(command)


def test_no_section_is_about_a_command_that_is_gone() -> None:
    named = [name for text in SECTIONS for name in re.findall(r"\b[a-z]{2,}\b", text.partition("\n")[0])]
    assert sorted(named) == sorted(command.name for command in COMMANDS)

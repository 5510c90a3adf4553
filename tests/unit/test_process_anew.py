"""How a process begins anew: in its own place, with nothing of what it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FIRST_AND_SECOND = """
import asyncio, os, signal, socket, sys, threading, time
from valkey_operator.process import anew

def first():
{first}

def second():
{second}

if os.environ.get("IS_SECOND"):
    second()
else:
    os.environ["IS_SECOND"] = "yes"
    first()
"""


def tell(folder: Path, first: str, second: str) -> subprocess.CompletedProcess[str]:
    """What a program says that begins anew after `first`, and how it ends."""
    program = folder / "program.py"
    indented = ["\n".join(f"    {line}" for line in part.splitlines()) for part in (first, second)]
    program.write_text(FIRST_AND_SECOND.format(first=indented[0], second=indented[1]))
    asked = [sys.executable, "-u", str(program), "an argument"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)


def test_it_is_the_same_process_with_the_same_arguments(tmp_path: Path) -> None:
    said = "print(os.getpid(), sys.argv[1:], sys.flags.dont_write_bytecode)"
    told = tell(tmp_path, f"{said}\nanew.decide()\nanew.begin()", said)
    assert told.returncode == 0, told.stderr
    first, second = told.stdout.splitlines()
    assert first == second


def test_nothing_that_was_open_stays_open(tmp_path: Path) -> None:
    said = "print(sorted(set(os.listdir('/proc/self/fd'))))"
    opens = "kept = socket.socketpair(), os.memfd_create('key'), open('/dev/null'), asyncio.new_event_loop()"
    told = tell(tmp_path, f"{said}\n{opens}\n{said}\nanew.decide()\nanew.begin()", said)
    before, between, after = told.stdout.splitlines()
    assert before == after != between


def test_a_sigterm_meanwhile_ends_the_operator_that_begins(tmp_path: Path) -> None:
    """Also in a container, whose first process gets no signal that it does not ask for."""
    first = "anew.decide()\nos.kill(os.getpid(), signal.SIGTERM)\nprint('goes on')\nanew.begin()"
    second = (
        "import runpy\nprint('is there')\nrunpy.run_module('valkey_operator.operator', run_name='__main__')"
    )
    told = tell(tmp_path, first, second)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split("\n")[:2] == ["goes on", "is there"]


@pytest.mark.parametrize(
    "hangs", ["threading.Event().wait()", "time.sleep(60)", "asyncio.run(asyncio.sleep(60))"]
)
def test_what_does_not_close_in_time_is_cut_off(tmp_path: Path, hangs: str) -> None:
    told = tell(tmp_path, f"anew.decide(0.2)\n{hangs}", "print(signal.getitimer(signal.ITIMER_REAL))")
    assert told.stdout.splitlines() == ["(0.0, 0.0)"]


def test_a_program_that_is_gone_ends_the_process_and_says_so(tmp_path: Path) -> None:
    told = tell(tmp_path, "sys.executable = '/nowhere'\nanew.begin()", "pass")
    assert told.returncode == 1
    assert "the process cannot begin anew and ends" in told.stderr

"""`kubectl valkey` as people type it, within the process of a test."""

from __future__ import annotations

import signal
import sys

import pytest

from valkey_operator.cli import main


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str:
    """The exit code, or the sentence that ends it with 1.

    Before its last words the program gives SIGPIPE back its default, for good: the process of the tests would end,
    without a word, with the next write to somebody who is gone.
    """
    monkeypatch.setattr(sys, "argv", ["kubectl-valkey", *words])
    before = signal.getsignal(signal.SIGPIPE)
    try:
        with pytest.raises(SystemExit) as ended:
            main.main()
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert ended.value.code is not None
    return ended.value.code

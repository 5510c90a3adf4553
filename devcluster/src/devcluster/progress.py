"""What a person watching sees: one line a step, and for long steps how far and how long still."""

from __future__ import annotations

import sys
import time
from typing import TextIO


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Progress:
    """Prints to standard error, so that standard output stays for results."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", file=self._out, flush=True)

    def meter(self, label: str, total: int) -> Meter:
        return Meter(self, self._out, label, total)


class Meter:
    """A step of known length. On a terminal it repaints one line, elsewhere it prints one now and then."""

    def __init__(self, progress: Progress, out: TextIO, label: str, total: int) -> None:
        self._progress, self._out, self._label, self.total = progress, out, label, max(total, 1)
        self._started = time.monotonic()
        self._live = out.isatty()
        self._next = 0.0

    def show(self, done: int, detail: str = "") -> None:
        now, done = time.monotonic(), min(done, self.total)
        if now < self._next:
            return
        self._next = now + (0.2 if self._live else 15)
        text = f"{self._label}: {100 * done // self.total} % ({done} of {self.total}){self._left(done, now)}"
        if self._live:
            print(f"\r\033[K{text}  {detail[-50:]}", end="", file=self._out, flush=True)
        else:
            self._progress.say(text)

    def _left(self, done: int, now: float) -> str:
        elapsed = now - self._started
        if done < self.total * 0.05 or elapsed < 3:
            return ""
        return f", about {duration(elapsed * (self.total - done) / done)} left"

    def close(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=self._out, flush=True)
        self._progress.say(f"{self._label}: done in {duration(time.monotonic() - self._started)}")

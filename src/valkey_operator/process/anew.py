"""A process puts itself in its own place: the same program with the same arguments, and nothing that it remembered.

It does not end and let itself be started: the kubelet waits longer each time, up to five minutes. Its files and
connections are closed with it, as Python opens all of them so. A SIGTERM that comes meanwhile is kept: the new program
hears it as soon as it does what `operator.__main__` does first.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn

# For everything that is closed in good order; what is not by then is cut off.
LIMIT = 10.0

log = logging.getLogger(__name__)


def decide(limit: float = LIMIT) -> None:
    """From now on `begin` is only a matter of time."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGALRM, lambda *_: begin())
    signal.setitimer(signal.ITIMER_REAL, limit)


def begin() -> NoReturn:
    signal.setitimer(signal.ITIMER_REAL, 0)  # it would outlive the program, and end the next one
    log.warning("the process begins anew, and remembers nothing")
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell is wanted
    except OSError:
        log.exception("the process cannot begin anew and ends")
        os._exit(1)

"""The operator's process. As the first one of its container it gets no signal that it does not ask for."""

from __future__ import annotations

import os
import signal

# Until it can stop in good order, there is nothing to put in order; without this it is killed half a minute later.
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
# One that came while the process began anew: see `process.anew`.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

from valkey_operator.operator.main import main  # noqa: E402 - what takes a second comes after that

main()

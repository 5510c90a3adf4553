"""Our processes as far as they listen, with their real servers: python -m tests.fuzz.programs.KIND PLACE.json

One module each, so that none has in memory what the real one has not.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from valkey_operator.process import heap, logs

Place = dict[str, Any]


def start(serve: Callable[[Place], Coroutine[None, None, None]]) -> None:
    place: Place = json.loads(Path(sys.argv[1]).read_text())
    logs.configure("json", "info")
    heap.keep_what_is_imported()
    asyncio.run(serve(place))

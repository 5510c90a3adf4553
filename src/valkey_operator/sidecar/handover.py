"""The stop of a pod: the server's preStop hook asks through the shared volume, and waits for the answer.

There is no port for it: the kubelet has no certificate to show, and an open port would let any pod stop a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

log = logging.getLogger(__name__)


class Handover:
    """Our side of it."""

    def __init__(self, run: Path, hand_over: Callable[[], Awaitable[None]]) -> None:
        self._hand_over = hand_over
        self._has_answered = asyncio.Event()
        self._has_answered.set()
        self._questions = _made(run / "handover")
        self._answers = _opened(_made(run / "handed-over"))

    async def run(self) -> None:
        reader, answered = asyncio.StreamReader(), b""
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(_opened(self._questions), "rb")
        )
        with contextlib.closing(transport):
            async for question in reader:
                if question != answered:  # else it was asked again while it was being dealt with
                    await self._answer(question)
                    answered = question

    async def _answer(self, question: bytes) -> None:
        log.info("the pod is being stopped")
        self._has_answered.clear()
        await self._hand_over()
        os.write(self._answers, question)
        self._has_answered.set()

    async def answered(self) -> None:
        """Returns when nobody waits for an answer."""
        await self._has_answered.wait()


def _made(fifo: Path) -> Path:
    if not fifo.is_fifo():
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o660)
    return fifo


def _opened(fifo: Path) -> int:
    return os.open(fifo, os.O_RDWR | os.O_NONBLOCK)

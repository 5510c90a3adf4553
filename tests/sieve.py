"""Drives a controller through every place where it may be interrupted, and compares how the world ends.

A controller that is right wherever it was cut off depends on what it sees, not on what it remembers doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from pathlib import Path

from tests.interloper import Interloper, Match
from valkey_operator.kube.access import Access

Converge = Callable[[Access], Awaitable[None]]
Check = Callable[[], Awaitable[object]]
Reset = Callable[[], Awaitable[None]]


class Cut(Enum):
    """What happens at the n-th write."""

    BEFORE = "crashes before write"
    AFTER = "crashes after write"
    ANSWER_LOST = "gets no answer to write"


def each_way(_number: int) -> Sequence[Cut]:
    return tuple(Cut)


def ways_in_turn(number: int) -> Sequence[Cut]:
    """One for each write."""
    return (tuple(Cut)[number % len(Cut)],)


async def cut_after_every_action(
    kubeconfig: Path,
    converge: Converge,
    check: Check,
    reset: Reset,
    *,
    actions: Match = lambda _method, _path: True,
    cuts: Callable[[int], Sequence[Cut]] = each_way,
    patience: float = 60.0,
) -> list[tuple[str, str]]:
    """Returns the writes of the uncut run; raises when a cut one ends in another world.

    `converge` builds everything anew (client, caches, queue) and returns when it is idle. `check` asserts the
    world and returns what must be the same each time (so neither uids nor times). `reset` makes the world as
    it was before the first run, and is called before each.
    """
    async with Interloper(kubeconfig, actions) as between:
        await reset()
        await asyncio.wait_for(converge(between.access), patience)
        writes, wanted = list(between.writes), await check()
    for number, write in enumerate(writes, 1):
        for cut in cuts(number):
            await reset()
            try:
                async with asyncio.timeout(patience), Interloper(kubeconfig, actions) as between:
                    await _interrupted(between, converge, cut, number)
                    await converge(between.access)
                found = await check()
                assert found == wanted, f"the world ends as {found}, uncut as {wanted}"
            except Exception as error:
                error.add_note(
                    f"the controller that {cut.value} {number} of {len(writes)}, {' '.join(write)}"
                )
                raise
    return writes


async def _interrupted(between: Interloper, converge: Converge, cut: Cut, number: int) -> None:
    """Run until the cut, or the end where this run has fewer writes, and leave a connection that works."""
    if cut is Cut.BEFORE:
        between.cut_before(number)
    else:
        between.cut_after(number)
    running = asyncio.ensure_future(converge(between.access))
    cutting = asyncio.ensure_future(between.was_cut.wait())
    try:
        await asyncio.wait({running, cutting}, return_when=asyncio.FIRST_COMPLETED)
        was_cut = between.was_cut.is_set()
        if cut is Cut.ANSWER_LOST:
            between.heal()
            await asyncio.wait({running})
    finally:
        # Still cut off: what a process wants to tidy up as it ends, one that crashed would not.
        for task in (running, cutting):
            task.cancel()
        ended, _ = await asyncio.gather(running, cutting, return_exceptions=True)
        between.heal()
    # What a process says that was cut off is its own affair; one that was not must do its work.
    if isinstance(ended, Exception) and not was_cut:
        raise ended

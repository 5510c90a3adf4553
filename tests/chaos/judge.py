"""Judges a history: were acknowledged writes lost? Pure; it never talks to a server.

    uv run python -m tests.chaos.judge FILE…

prints the verdict of each stored history. It exits with 1 when one of them is not clean, and with 2
when a file cannot be read or is truncated.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from tests.chaos.history import History, Kind, NodeRead, Operation, Role, Write
from tests.chaos.outcomes import Outcome
from tests.chaos.slots import covers, slot_of
from tests.chaos.stored import Unreadable, read_history
from tests.chaos.verdict import Divergence, Pause, Phantom, Rollback, Verdict


def judge(history: History) -> Verdict:
    elements = [write for write in history.writes if write.kind is not Kind.COUNTER]
    present = _present(history)
    lost = tuple(w for w in elements if w.outcome is Outcome.OK and _is_absent(history, w, present))
    confirmed = {wait.element for wait in history.waits if wait.replicas >= 1}
    pauses = dict(_pauses(history))
    return Verdict(
        outcomes=Counter(write.outcome for write in history.writes),
        lost=lost,
        waited=len(confirmed),
        lost_after_wait=tuple(w for w in lost if w.element in confirmed),
        phantoms=tuple(_phantoms(elements, present)),
        recovered=sum(w.outcome is Outcome.INFO and w.element in present for w in elements),
        rollbacks=tuple(_rollbacks(history)),
        diverged=tuple(_diverged(history.reads)),
        pauses=pauses,
        nodes_read=len(history.reads),
        doubts=tuple(_doubts(history, confirmed)),
        too_long=tuple(_too_long(pauses, history.header.demands.pause)),
        operations=tuple(history.operations),
    )


def _primaries(history: History) -> list[NodeRead]:
    return [read for read in history.reads if read.role is Role.PRIMARY]


def _present(history: History) -> set[str]:
    """What a client can reach: an element counts only on the primary that serves its slot."""
    return {
        element
        for read in _primaries(history)
        for element in read.elements
        if covers(read.slots, slot_of(element))
    }


def _was_read(history: History, key: str) -> bool:
    """Absence is known only of slots whose primary was read: a failed read is no loss."""
    slot = slot_of(key)
    return any(covers(read.slots, slot) for read in _primaries(history))


def _is_absent(history: History, write: Write, present: set[str]) -> bool:
    return write.element not in present and _was_read(history, write.element)


def _phantoms(elements: list[Write], present: set[str]) -> Iterator[Phantom]:
    for write in elements:
        if write.outcome is Outcome.FAIL and write.element in present:
            yield Phantom(write.element, f"it was refused at {write.done:.3f} s: {write.reason}")
    for element in sorted(present - {write.element for write in elements}):
        yield Phantom(element, "it was never sent")


def _rollbacks(history: History) -> Iterator[Rollback]:
    final = _final_counters(history)
    by_counter: dict[str, list[Write]] = defaultdict(list)
    for write in history.writes:
        if write.kind is Kind.COUNTER:
            by_counter[write.element].append(write)
    for name in sorted(by_counter.keys() | final.keys()):
        faults = [*_falls(by_counter[name])]
        if _was_read(history, name):
            faults += _final_faults(by_counter[name], final.get(name, 0))
        yield from (Rollback(name, fault) for fault in faults)


def _final_counters(history: History) -> dict[str, int]:
    return {
        name: value
        for read in _primaries(history)
        for name, value in read.counters.items()
        if covers(read.slots, slot_of(name))
    }


def _falls(writes: list[Write]) -> Iterator[str]:
    for before, after in pairwise(write for write in writes if write.outcome is Outcome.OK):
        if _value(after) <= _value(before):
            during = f" during {after.during}" if after.during else ""
            yield f"it fell from {_value(before)} to {_value(after)} at {after.done:.3f} s{during}"


def _final_faults(writes: list[Write], final: int) -> Iterator[str]:
    acknowledged = [_value(write) for write in writes if write.outcome is Outcome.OK]
    least = max([len(acknowledged), *acknowledged])
    if final < least:
        yield f"it ended at {final}, below the {least} that were acknowledged"
    possible = sum(write.outcome is not Outcome.FAIL for write in writes)
    if final > possible:
        yield f"it ended at {final}, but at most {possible} writes can have run"


def _value(write: Write) -> int:
    return write.value or 0


def _diverged(reads: list[NodeRead]) -> Iterator[Divergence]:
    primaries = {read.shard: read for read in reads if read.role is Role.PRIMARY}
    for read in reads:
        what = "; ".join(_differences(read, primaries.get(read.shard)))
        if what:
            yield Divergence(read.node, read.shard, what)


def _differences(read: NodeRead, primary: NodeRead | None) -> Iterator[str]:
    if primary is None:
        yield "its shard has no primary"
        return
    if read.state != ("master" if read.role is Role.PRIMARY else "connected"):
        yield f"it should be a {read.role}, and its state is {read.state}"
    if missing := primary.elements - read.elements:
        yield f"{len(missing)} elements missing, first {min(missing)}"
    if extra := read.elements - primary.elements:
        yield f"{len(extra)} elements too many, first {min(extra)}"
    if wrong := dict(read.counters.items() ^ primary.counters.items()):
        yield f"{len(wrong)} counters differ, first {min(wrong)}"


def _pauses(history: History) -> Iterator[tuple[str, Pause]]:
    """The longest pause of each shard: that of its worst tag, from the start and to the very end."""
    acknowledged: dict[str, list[float]] = {tag: [] for tag in history.header.tags}
    for write in history.writes:
        if write.outcome is Outcome.OK and write.done <= history.end.ended:
            acknowledged.setdefault(write.tag, []).append(write.done)
    by_shard: dict[str, list[Pause]] = defaultdict(list)
    for tag, times in acknowledged.items():
        by_shard[_shard_of(history, tag)].append(_longest(tag, times, history))
    for shard, pauses in by_shard.items():
        yield shard, max(pauses, key=lambda pause: pause.seconds)


def _shard_of(history: History, tag: str) -> str:
    slot = slot_of(tag)
    return next((read.shard for read in _primaries(history) if covers(read.slots, slot)), "unknown")


def _longest(tag: str, times: list[float], history: History) -> Pause:
    ended = max(history.end.ended, 0.0)
    began, resumed = max(pairwise([0.0, *sorted(times), ended]), key=lambda gap: gap[1] - gap[0])
    under_way = tuple(dict.fromkeys(_overlapping(history.operations, began, resumed)))
    return Pause(tag, began, resumed, under_way, is_open=resumed == ended)


def _overlapping(operations: Iterable[Operation], began: float, ended: float) -> Iterator[str]:
    for operation in operations:
        if operation.began < ended and operation.ended > began:
            yield operation.name


def _too_long(pauses: dict[str, Pause], bound: float | None) -> Iterator[str]:
    for shard, pause in pauses.items():
        if bound is not None and pause.seconds > bound:
            yield f"shard {shard} took no write for {pause}, allowed are {bound:g} s"


def _doubts(history: History, confirmed: set[str]) -> Iterator[str]:
    demands = history.header.demands
    acknowledged = [write for write in history.writes if write.outcome is Outcome.OK]
    if len(acknowledged) < max(demands.writes, 1):
        yield f"{len(acknowledged)} acknowledged writes are too few, {demands.writes} are asked for"
    if silent := sorted({*history.header.tags} - {write.tag for write in acknowledged}):
        yield f"no write was ever acknowledged for tags {', '.join(silent)}"
    if history.end.unread:
        yield f"there is no final read: {history.end.unread}"
    elif unread := [write for write in acknowledged if not _was_read(history, write.element)]:
        yield f"{len(unread)} acknowledged writes lie in slots whose primary was not read back"
    if demands.replicas and not confirmed:
        yield "no write was ever confirmed by WAIT, so nothing is known about confirmed writes"
    if twice := _sent_twice(history):
        yield f"{twice} was sent more than once, so its fate proves nothing"
    yield from _unread_shards(history)


def _sent_twice(history: History) -> str | None:
    times = Counter(write.element for write in history.writes if write.kind is not Kind.COUNTER)
    return next((element for element, number in times.items() if number > 1), None)


def _unread_shards(history: History) -> Iterator[str]:
    replicas = Counter(read.shard for read in history.reads if read.role is Role.REPLICA)
    for read in _primaries(history):
        if not any(covers(read.slots, slot_of(tag)) for tag in history.header.tags):
            yield f"no tag lies in shard {read.shard}, so nothing was written to it: use more tags"
        if replicas[read.shard] < history.header.demands.replicas:
            yield (
                f"{replicas[read.shard]} replicas of shard {read.shard} were read, "
                f"{history.header.demands.replicas} are asked for"
            )


def main(paths: list[str]) -> int:
    if not paths:
        print("usage: python -m tests.chaos.judge FILE…", file=sys.stderr)
        return 2
    return max(_judge_file(Path(path)) for path in paths)


def _judge_file(path: Path) -> int:
    try:
        verdict = judge(read_history(path))
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path}: {verdict}")
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

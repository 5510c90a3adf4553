"""Figures of many runs: each is a line of JSON in the file that CHAOS_FIGURES names, if it names one.

    python -m tests.chaos.figures FILE

prints them by operation: how many runs, what was lost, and the longest write pause of a run: median, highest.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from tests.chaos.outcomes import Outcome
from tests.chaos.verdict import Verdict

HEAD = ("operation", "runs", "acknowledged", "lost", "phantoms", "pause median", "pause highest")


def note(operation: str, seed: int, verdict: Verdict) -> None:
    file = os.environ.get("CHAOS_FIGURES")
    if not file:
        return
    line = {
        "operation": operation,
        "seed": seed,
        "acknowledged": verdict.outcomes[Outcome.OK],
        "lost": len(verdict.lost),
        "phantoms": len(verdict.phantoms),
        "pause": round(verdict.longest_pause, 3),
    }
    with Path(file).open("a") as opened:
        print(json.dumps(line), file=opened)


def table(lines: list[str]) -> list[tuple[str, ...]]:
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    for line in map(json.loads, lines):
        runs[line["operation"]].append(line)
    return [HEAD, *(_row(name, found) for name, found in sorted(runs.items()))]


def _row(name: str, runs: list[dict[str, float]]) -> tuple[str, ...]:
    pauses = [run["pause"] for run in runs]
    sums = (str(sum(int(run[field]) for run in runs)) for field in ("acknowledged", "lost", "phantoms"))
    return name, str(len(runs)), *sums, f"{statistics.median(pauses):.2f} s", f"{max(pauses):.2f} s"


if __name__ == "__main__":
    for row in table(Path(sys.argv[1]).read_text().splitlines()):
        print("| " + " | ".join(row) + " |")

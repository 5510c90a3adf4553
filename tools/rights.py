"""What the operator may do, and the test that has used each right: written down, so that no right is there unused.

    uv run python -m tools.rights [--check]

Each end-to-end test notes in build/used-rights.json what the API server's audit log shows of the operator, in place of
what it noted before. This writes it into docs/reference/rights.md, which must name a test for every right in the chart
(tests/unit/test_chart_rights.py); with `--check`, as `make test` ends, it only looks. A right is unused when the test
beside it ran without it and no other used it. A test that was not run proves nothing: what the page says of it stays.
"""

from __future__ import annotations

import fcntl
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from devcluster.audit import Request
from tools import chart

NOTED = chart.ROOT / "build" / "used-rights.json"
PAGE = chart.ROOT / "docs" / "reference" / "rights.md"
HERE, THERE = "its own", "where Valkey runs"
# No request shows these.
UNSEEN = {
    "get /apis/valkey.io/*": "most Kubernetes clusters give it to everybody",
    "update */finalizers": "asked by an admission plugin that is off by default",
}
INTRODUCTION = """\
<!-- The last column is filled by `uv run python -m tools.rights` after `make test`. -->
# What the operator may do

Each right, in the namespaces that it is granted in, with a test in which the API server saw the operator use it. What
is granted where Valkey runs is the same for all namespaces (ClusterRole) and for some (Roles). Why it needs a right is
said beside it in [the chart](../../charts/valkey-operator/templates/_rights.tpl). Sidecars have none. `test_rights.py`
and `test_operator_rights.py` run code of the operator with the operator's token, for what it does only when an answer
gets lost, or a namespace is gone. For the policy that warns of kinds that are not built it needs no right: whoever
installs makes it, and the API server carries it out.

| namespace | resource | verb | seen in |
| --- | --- | --- | --- |
"""


class Right(NamedTuple):
    """One verb on one resource; the namespace is empty for what is in none."""

    place: str
    resource: str
    verb: str


def granted(namespace: str = "team-a") -> set[Right]:
    """By the chart, for a namespace that is not the operator's own."""
    setting = {"crds": {"install": False}, "watch": {"namespaces": [namespace]}}
    places = {chart.NAMESPACE: HERE, namespace: THERE, "": ""}
    roles = [each for each in yaml.safe_load_all(chart.rendered(setting)) if each and "rules" in each]
    return {right for role in roles for right in _of(role, places[role["metadata"].get("namespace", "")])}


def _of(role: dict[str, Any], place: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for resource in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ())):
            yield from (Right(place, resource, verb) for verb in rule["verbs"])


def used(requests: Iterable[Request]) -> set[Right]:
    """What these requests needed. One that applies what is not there yet needs two rights, and shows the first."""
    found = set()
    for each in requests:
        if each.resource and each.code not in (401, 403):
            verbs = [each.verb, "create"] if (each.verb, each.code) == ("patch", 201) else [each.verb]
            found |= {Right(_place(each), each.resource, verb) for verb in verbs}
    return found


def _place(request: Request) -> str:
    if request.resource in ("nodes", "namespaces"):  # a namespace is in none, though a request names one
        return ""
    if not request.namespace:  # all of them at once
        return THERE
    return HERE if request.namespace == chart.NAMESPACE else THERE


def note(requests: Iterable[Request], test: str) -> None:
    """Tests may run side by side."""
    NOTED.parent.mkdir(exist_ok=True)
    with NOTED.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = json.loads(file.read() or "{}")
        file.truncate(0)
        file.write(json.dumps({**before, test: sorted(used(requests))}, indent=1))


def noted() -> dict[str, set[Right]]:
    """By test, as pytest names it."""
    found = json.loads(NOTED.read_text()) if NOTED.exists() else {}
    return {test: {Right(*right) for right in rights} for test, rights in found.items()}


def table(text: str) -> dict[Right, str]:
    """Of a page as written below."""
    rows = re.findall(r"^\| (.*?) \| `(.*?)` \| (.*?) \| (.*?) \|$", text, flags=re.MULTILINE)
    return {Right(place, resource, verb): seen for place, resource, verb, seen in rows}


def page(seen: dict[Right, str]) -> str:
    rows = [
        f"| {right.place} | `{right.resource}` | {right.verb} | {seen[right]} |\n" for right in sorted(seen)
    ]
    return INTRODUCTION + "".join(rows)


def shown(
    rights: Iterable[Right], record: Mapping[str, set[Right]], before: Mapping[Right, str]
) -> dict[Right, str]:
    """For each right a test that used it: the one that was there before, if it can be."""
    ran = {_name(test) for test in record}
    found = {}
    for right in rights:
        users = sorted(_name(test) for test, used in record.items() if right in used)
        row = before.get(right, "")
        is_kept = row in users or row not in ran
        found[right] = (row if is_kept else "") or next(iter(users), "") or _unseen(right)
    return found


def _name(test: str) -> str:
    """As the page names a test: without its folder and its cases."""
    file, _, name = re.sub(r"\[.*", "", test).partition("::")
    return f"`{Path(file).name}` {name}"


def _unseen(right: Right) -> str:
    general = re.sub(r"^\w+(?=/finalizers)", "*", right.resource)
    return UNSEEN.get(f"{right.verb} {general}", "")


def _is_there(test: str) -> bool:
    file, _, name = re.sub(r"\[.*", "", test).partition("::")
    path = chart.ROOT / file
    return path.exists() and f"def {name}(" in path.read_text()


def main() -> int:
    record = {test: rights for test, rights in noted().items() if _is_there(test)}
    before = table(PAGE.read_text()) if PAGE.exists() else {}
    seen = shown(granted(), record, before)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(seen))
    unused = sorted(right for right, where in seen.items() if not where)
    for right in unused:
        print(f"no test has used: {right.verb} {right.resource} {right.place}")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())

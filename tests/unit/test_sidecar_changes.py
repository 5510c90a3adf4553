"""Which looks at a server are worth an event."""

from __future__ import annotations

import pytest

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.sidecar.changes import Changes
from valkey_operator.sidecar.disk import Space

GIB = 2**30
ROOMY = Space(50 * GIB, 100 * GIB)
Kind = contract.Event.Kind


def told(*looks: tuple[dict[str, str] | None, Space]) -> list[tuple[Kind, str]]:
    events: list[tuple[Kind, str]] = []
    changes = Changes(lambda kind, message: events.append((kind, message)))
    for info, space in looks:
        changes.see(info, space)
    return events


def test_a_role_that_changes_is_told_once_and_the_first_is_no_change() -> None:
    primary, replica = {"role": "master"}, {"role": "slave"}
    looks = [primary, primary, None, replica, replica, {}, replica, primary]
    assert told(*((look, ROOMY) for look in looks)) == [
        (Kind.KIND_ROLE_CHANGED, "from master to slave"),
        (Kind.KIND_ROLE_CHANGED, "from slave to master"),
    ]


FAILED_SAVE = {"rdb_last_bgsave_status": "err", "used_memory": str(10 * GIB)}
FAILED_WRITE = {"aof_last_write_status": "err", "used_memory": str(10 * GIB)}


@pytest.mark.parametrize(
    ("info", "space", "is_full"),
    [
        ({}, ROOMY, False),
        ({}, Space(3 * GIB, 100 * GIB), False),
        ({}, Space(1 * GIB, 100 * GIB), True),
        (FAILED_SAVE, ROOMY, False),  # for another reason than space
        (FAILED_SAVE, Space(5 * GIB, 100 * GIB), True),
        (FAILED_WRITE, Space(5 * GIB, 100 * GIB), True),
        (FAILED_SAVE, Space(0, 0), False),  # the volume cannot be seen
    ],
)
def test_a_volume_is_full_when_nothing_more_fits(info: dict[str, str], space: Space, is_full: bool) -> None:
    assert [kind for kind, _ in told((info, space))] == [Kind.KIND_DISK_FULL] * is_full


def test_a_full_volume_is_told_once_and_again_after_it_had_room() -> None:
    full = Space(0, 100 * GIB)
    looks: list[tuple[dict[str, str], Space]] = [({}, full), ({}, full), ({}, ROOMY), ({}, full)]
    assert told(*looks) == [(Kind.KIND_DISK_FULL, f"0 of {100 * GIB} bytes are free")] * 2


def test_beginning_to_serve_and_ending_are_told_once_each() -> None:
    events: list[tuple[Kind, str]] = []
    changes = Changes(lambda kind, message: events.append((kind, message)))
    for why_not in ("it loads", "it loads", "", "", "it is out of sync", "it has ended", ""):
        changes.see_readiness(why_not)
    ready = Kind.KIND_READINESS_CHANGED
    assert events == [(ready, ""), (ready, "it is out of sync"), (ready, "")]


def test_a_server_that_begins_to_answer_without_serving_is_told_once() -> None:
    events: list[tuple[Kind, str]] = []
    changes = Changes(lambda kind, message: events.append((kind, message)))
    alone = "it is in no cluster yet"
    for why_not, answers in (("it starts", False), (alone, True), (alone, True), ("", True), ("", True)):
        changes.see_readiness(why_not, answers=answers)
    ready = Kind.KIND_READINESS_CHANGED
    assert events == [(ready, alone), (ready, "")]

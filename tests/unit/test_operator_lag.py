"""How far replicas are behind, as a status tells it."""

from __future__ import annotations

import pytest

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.operator import lag
from valkey_operator.sidecar import observer

MEBIBYTE = 1 << 20


def said(**offsets: int) -> contract.Observation:
    """A primary that has written 100 MiB, and where its replicas are."""
    info = {"role": "master", "master_repl_offset": str(100 * MEBIBYTE)}
    for number, (name, offset) in enumerate(offsets.items()):
        state = "online" if offset else "wait_bgsave"
        info[f"slave{number}"] = (
            f"ip={name}.ns.svc,port=6379,state={state},offset={offset},lag=1,type=replica"
        )
    return contract.Observation(server=observer.server(info))


def test_only_those_that_follow_and_are_far_behind_are_told() -> None:
    seen = said(near=99 * MEBIBYTE, far=70 * MEBIBYTE, ahead=101 * MEBIBYTE, copying=0)
    assert lag.behind(seen) == {"far": 16 * MEBIBYTE}
    assert lag.behind(contract.Observation()) == {}


@pytest.mark.parametrize(
    ("exactly", "told"), [(-1, 0), (0, 0), (3.99, 0), (4, 4), (15.9, 4), (16, 16), (63, 16), (5000, 4096)]
)
def test_it_is_told_in_steps(exactly: float, told: int) -> None:
    assert lag.told(int(exactly * MEBIBYTE)) == told * MEBIBYTE

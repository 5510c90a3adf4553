"""The start gate among three real pods: each of its rules, provoked by what would call for it."""

from __future__ import annotations

import asyncio
import functools
import subprocess

import pytest

from devcluster.faults import Faults
from tests.e2e.conftest import Place
from tests.e2e.test_one_node import AOF_ALWAYS, POD, _answers
from tests.e2e.three_nodes import NODES, Three
from valkey_operator.contract.v1 import sidecar_pb2 as contract

A, B, C = NODES


@pytest.fixture
def three(place: Place) -> Three:
    return Three(place)


async def test_a_primary_that_was_stopped_cleanly_returns_as_primary(three: Three) -> None:
    """Rules 5, when all is new, 1 and 3."""
    three.make()
    assert (await three.observe(A)).gate.opened_by == "the_fullest_disk_starts"
    assert (await three.observe(B)).gate.opened_by == "a_replica_may_always_start"
    three.fill(0, 5)
    old = three.place.get("pod", f"{A}-0")["metadata"]["uid"]
    three.place.kubectl("delete", "pod", f"{A}-0")
    seen = await three.sees(A, lambda seen: seen.pod_uid != old and seen.server.answers)
    assert seen.gate.opened_by == "a_complete_primary_may_start"
    assert seen.server.role == contract.ROLE_PRIMARY
    three.place.eventually(lambda: [three.size(node) for node in NODES] == [5, 5, 5])


async def test_a_killed_primary_stays_out_until_a_replica_is_promoted(three: Three, faults: Faults) -> None:
    """Rule 4: its snapshot is older than what the replicas hold."""
    three.make()
    three.fill(0, 5)
    three.valkey(A, "SAVE")
    three.fill(5, 10)
    faults.kill(f"{three.place.namespace}/{A}-0", "valkey")
    closed = await three.is_closed_by("a_living_member_goes_first", A)
    assert f"lives in {B}, {C}" in closed.gate.waits_for
    assert closed.not_ready == closed.gate.waits_for
    await asyncio.sleep(3)
    assert not (await three.observe(A)).HasField("server")
    assert (three.size(B), three.size(C)) == (10, 10)
    assert (await three.order(B, 2, promote=contract.Promote())).result == contract.RESULT_DONE
    seen = await three.sees(A, lambda seen: seen.server.replication.link_is_up)
    assert seen.gate.opened_by == "a_replica_may_always_start"
    assert (seen.record.epoch, seen.record.primary) == (2, B)
    follow = contract.Replicate(primary=B)
    assert (await three.order(C, 2, replicate=follow)).result == contract.RESULT_DONE
    three.place.eventually(lambda: [three.size(node) for node in NODES] == [10, 10, 10])


def lie_down(three: Three, faults: Faults) -> None:
    """Kills the replicas' containers so that the kubelet waits ten seconds with the next start, then the primary."""
    for node in (B, C):
        faults.kill_container(f"{three.place.namespace}/{node}-0", "valkey")
        three.place.eventually(functools.partial(three.place.has_restarted, f"{node}-0"))
    for node in (B, C):
        faults.kill_container(f"{three.place.namespace}/{node}-0", "valkey")
    faults.kill(f"{three.place.namespace}/{A}-0", "valkey")


async def test_when_all_were_killed_the_fullest_disk_starts(three: Three, faults: Faults) -> None:
    """Rule 5, with the primary's own."""
    three.make()
    three.fill(0, 5)
    for node in (C, B, A):
        three.valkey(node, "SAVE")
    three.fill(5, 10)
    lie_down(three, faults)
    seen = await three.sees(A, lambda seen: seen.server.answers)
    assert seen.gate.opened_by == "the_fullest_disk_starts"
    assert three.size(A) == 5
    for node in (B, C):
        await three.sees(node, lambda seen: seen.server.replication.link_is_up)
    assert (three.size(B), three.size(C)) == (5, 5)


async def test_when_all_were_killed_a_fuller_disk_than_the_primarys_goes_first(
    three: Three, faults: Faults
) -> None:
    """Rule 5, with a replica's; it starts as a replica, and waits to be promoted."""
    three.make()
    three.fill(0, 5)
    three.valkey(A, "SAVE")
    three.fill(5, 10)
    three.valkey(B, "SAVE")
    lie_down(three, faults)
    closed = await three.is_closed_by("the_fullest_disk_starts", A)
    assert f"the disk of {B} holds more" in closed.gate.waits_for
    await three.sees(B, lambda seen: seen.server.answers and not seen.server.is_loading)
    assert (await three.order(B, 2, promote=contract.Promote())).result == contract.RESULT_DONE
    await three.sees(A, lambda seen: seen.server.replication.link_is_up)
    assert (three.size(A), three.size(B)) == (10, 10)


async def test_while_a_member_cannot_be_asked_only_the_operator_opens(three: Three, faults: Faults) -> None:
    """Rule 6."""
    three.make()
    three.fill(0, 5)
    three.valkey(A, "SAVE")
    refused = await three.order(A, 1, open_gate=contract.OpenGate())
    assert refused.guard == "a_server_waits_at_the_gate"
    with faults.cut(f"{three.place.namespace}/{C}-0"):
        faults.kill(f"{three.place.namespace}/{A}-0", "valkey")
        closed = await three.is_closed_by("every_member_must_have_answered", A)
        assert f"waits for an answer of {C}," in closed.gate.waits_for
        await asyncio.sleep(3)
        assert not (await three.observe(A)).HasField("server")
        opened = await three.order(A, 1, open_gate=contract.OpenGate())
        assert opened.result == contract.RESULT_DONE, opened.message
        seen = await three.sees(A, lambda seen: seen.server.answers)
        assert seen.gate.opened_by == "somebody_who_sees_more_has_allowed_it"
        assert three.size(A) == 5
    await three.sees(C, lambda seen: seen.server.replication.link_is_up)


async def test_a_member_without_a_pod_cannot_be_asked_until_it_has_one(three: Three, faults: Faults) -> None:
    """Rule 6: that its address leads nowhere does not say what became of it."""
    three.make()
    three.fill(0, 5)
    # Without the operator, which would put it back.
    three.place.kubectl("scale", "deployment/valkey-operator", "--replicas=0", "--namespace=valkey-system")
    try:
        three.place.kubectl("scale", f"statefulset/{C}", "--replicas=0")
        three.place.kubectl("wait", "--for=delete", f"pod/{C}-0", "--timeout=60s")
        faults.kill(f"{three.place.namespace}/{A}-0", "valkey")
        closed = await three.is_closed_by("every_member_must_have_answered", A)
        assert f"waits for an answer of {C}," in closed.gate.waits_for
    finally:
        three.place.kubectl(
            "scale", "deployment/valkey-operator", "--replicas=2", "--namespace=valkey-system"
        )
    await three.is_closed_by("a_living_member_goes_first", A)


async def test_a_killed_primary_with_aof_always_returns_with_every_acknowledged_write(
    three: Three, faults: Faults
) -> None:
    """Rule 3: whatever was acknowledged is on its disk."""
    three.make(aof={"enabled": True, "fsync": "always"})
    loop = three.place.command("exec", f"{B}-0", "--container=valkey", "--", "/bin/sh", "-c", WRITE)
    writing = await asyncio.create_subprocess_exec(*loop, stdout=subprocess.PIPE)
    await asyncio.sleep(3)
    faults.kill(f"{three.place.namespace}/{A}-0", "valkey")
    acknowledged = (await asyncio.wait_for(writing.communicate(), 30))[0].decode().split()
    assert len(acknowledged) > 20
    seen = await three.sees(A, lambda seen: seen.server.answers and not seen.server.is_loading)
    assert seen.gate.opened_by == "a_complete_primary_may_start"
    assert seen.server.role == contract.ROLE_PRIMARY
    assert int(three.valkey(A, "EXISTS", *acknowledged)) == len(acknowledged)
    await three.sees(B, lambda seen: seen.server.replication.link_is_up)
    assert int(three.valkey(B, "EXISTS", *acknowledged)) == len(acknowledged)


# Prints the name of each key that was acknowledged; ends with the first that was not.
WRITE = f"""
n=0
while [ "$(valkey-cli -h {A} SET k$n $n)" = OK ]; do echo k$n; n=$((n+1)); done
"""


def test_a_word_left_over_opens_no_gate(place: Place, faults: Faults) -> None:
    place.apply("Valkey", "one", AOF_ALWAYS)
    place.is_ready("one")
    with faults.pause(f"{place.namespace}/{POD}", "sidecar"):
        leave_word = "exec 3<>/run/valkey/gate; echo start >&3"
        place.kubectl("exec", POD, "--container=valkey", "--", "/bin/sh", "-c", leave_word)
        faults.kill(f"{place.namespace}/{POD}", "valkey")
        place.eventually(lambda: place.is_at_the_gate(POD))
        for _ in range(5):
            assert not _answers(place)
    place.eventually(lambda: _answers(place))


def test_the_sidecar_sees_the_image_of_the_server_and_tells_prometheus(place: Place) -> None:
    """Where the modules of an image are found; the image of these tests has none."""
    place.apply("Valkey", "one", AOF_ALWAYS)
    place.is_ready("one")
    look = "import os; print(os.listdir(f'/proc/{open(\"/run/valkey/pid\").read().strip()}/root/usr/bin'))"
    assert "valkey-server" in place.in_sidecar(POD, "python3.13", "-c", look)
    read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    page = place.in_sidecar(POD, "python3.13", "-c", read)
    assert "valkey_sidecar_server_up 1.0" in page
    assert "valkey_sidecar_server_starts_total 1.0" in page

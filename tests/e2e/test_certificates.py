"""Certificates between operator and sidecars, on real pods: renewed under traffic, and repaired."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.calls import calling, content, forwarded, operators
from tests.e2e.conftest import PLACE, Place
from tests.e2e.test_one_node import POD, SPEC
from valkey_operator.contract.channel import answered, opened
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import Credentials, thumbprints
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import NodeStub
from valkey_operator.pki.authority import Pair, issue_mtls_leaf

SECRET = "one-0-mtls"  # noqa: S105 - a name
# 200 and 3 in the long run (`make chaos`).
ROTATIONS = int(os.environ.get("ROTATIONS", "8"))
EXPIRIES = int(os.environ.get("EXPIRIES", "1"))


class Traffic:
    """Calls without a pause: on one connection that stays, and on a new one each time."""

    def __init__(self) -> None:
        self.kept = self.new = 0
        self.shown: list[str] = []

    async def run(self, place: Place, stop: asyncio.Event) -> None:
        peer = Scope(place.namespace, "Valkey", "one").node("one-0")
        credentials = Credentials.from_bytes(operators(place))
        async with forwarded(place, POD) as port, opened("127.0.0.1", credentials, peer, port) as kept:
            while not stop.is_set():
                credentials.replace(await asyncio.to_thread(operators, place))  # as the operator does
                await answered(NodeStub(kept).Observe(contract.ObserveRequest()), 30)
                self.kept += 1
                async with opened("127.0.0.1", credentials, peer, port) as channel:
                    seen = await answered(NodeStub(channel).Observe(contract.ObserveRequest()), 30)
                self.new += 1
                thumbprint = seen.fingerprints.sidecar_certificate
                if thumbprint not in self.shown[-1:]:
                    self.shown.append(thumbprint)


@asynccontextmanager
async def traffic(place: Place) -> AsyncIterator[Traffic]:
    """A call that fails fails the test."""
    running, stop = Traffic(), asyncio.Event()
    task = asyncio.create_task(running.run(place, stop))
    try:
        yield running
    finally:
        stop.set()
    await task


async def until(task_is_well: Callable[[], bool], patience: float = 60) -> None:
    ends = time.monotonic() + patience
    while not task_is_well():
        assert time.monotonic() < ends, f"not true within {patience} s"
        await asyncio.sleep(0.05)


def thumbprint(place: Place) -> str:
    return thumbprints(content(place, SECRET)["tls.crt"])[0]


def put(place: Place, changed: dict[str, bytes | None]) -> None:
    data = {
        part: None if value is None else base64.b64encode(value).decode() for part, value in changed.items()
    }
    place.kubectl("patch", "secret", SECRET, "--type=merge", "--patch", json.dumps({"data": data}))


def delete_it(place: Place) -> None:
    place.kubectl("delete", "secret", SECRET)


def take_its_key(place: Place) -> None:
    put(place, {"tls.key": None})


def spoil_it(place: Place) -> None:
    put(place, {"tls.crt": b"this is no certificate"})


def let_it_expire(place: Place) -> None:
    authority = content(place, "one-mtls-ca")
    identity = Scope(place.namespace, "Valkey", "one").node("one-0")
    signer = Pair(authority["tls.crt"], authority["tls.key"])
    leaf = issue_mtls_leaf(signer, identity, datetime.now(UTC) - timedelta(hours=2), timedelta(hours=1))
    put(place, {"tls.crt": leaf.certificate, "tls.key": leaf.key})


FAULTS = (delete_it, take_its_key, spoil_it, let_it_expire)


async def test_certificates_are_renewed_and_repaired_under_traffic_without_a_failed_call(
    place: Place,
) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    place.eventually(lambda: "one-cert-binding" in place.kubectl("get", "valkeycertificatebindings"))
    async with traffic(place) as calls:
        await until(lambda: bool(calls.shown))
        for number in range(ROTATIONS):
            before = calls.shown[-1]
            await asyncio.to_thread(FAULTS[number % len(FAULTS)], place)
            await until(lambda before=before: calls.shown[-1] != before)  # type: ignore[misc]
    assert len(set(calls.shown)) == ROTATIONS + 1
    assert calls.kept > ROTATIONS
    assert calls.new > ROTATIONS
    assert thumbprint(place) == calls.shown[-1]
    place.kubectl(
        "wait", "--for=condition=Ready", "valkeycertificatebinding/one-cert-binding", "--timeout=30s"
    )
    binding = place.get("valkeycertificatebinding", "one-cert-binding")["status"]
    assert [each["thumbprint"] for each in binding["active"]] == [calls.shown[-1]]
    assert set(calls.shown[-64:-1]) <= {each["thumbprint"] for each in binding["deprecated"]}


@pytest.mark.slow
async def test_a_certificate_that_lives_a_minute_is_renewed_in_time(place: Place) -> None:
    place.apply("Valkey", "one", {**SPEC, "sidecar": {"mtls": {"validity": "1m"}}})
    place.is_ready("one")
    begun = time.monotonic()
    async with traffic(place) as calls:
        await until(lambda: len(calls.shown) == 1 + EXPIRIES, 90 * EXPIRIES)
        # What was replaced is over by now, and calls still go through.
        await asyncio.sleep(max(0.0, 65 - (time.monotonic() - begun)))
        await until(lambda: len(calls.shown) > 1 + EXPIRIES)
    assert calls.new > EXPIRIES


async def test_a_root_that_is_lost_is_followed_by_another_without_a_failed_call(place: Place) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    system = Place(place.cluster, PLACE)
    lost = thumbprints(content(place, "valkey-root-ca", PLACE)["tls.crt"])[0]
    async with traffic(place) as calls:
        await until(lambda: bool(calls.shown))
        await asyncio.to_thread(system.kubectl, "delete", "secret", "valkey-root-ca")
        await until(lambda: len(calls.shown) > 1)
    now = content(place, "valkey-root-ca", PLACE)
    (new,) = thumbprints(now["tls.crt"])
    assert new != lost
    # What it has signed is still shown by somebody, perhaps: for an hour both are trusted.
    assert {lost, new} <= set(thumbprints(content(place, SECRET)["ca.crt"]))
    assert {lost, new} <= set(thumbprints(content(place, "valkey-operator-mtls", PLACE)["ca.crt"]))
    async with calling(place, operators(place)) as node:
        assert (await answered(node.Observe(contract.ObserveRequest()), 30)).node == "one-0"


async def test_what_the_operator_trusts_is_repaired_too(place: Place) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    before = thumbprint(place)
    put(place, {"ca.crt": b""})
    await until(lambda: thumbprint(place) != before and bool(content(place, SECRET)["ca.crt"]))
    async with calling(place, operators(place)) as node:
        assert (await answered(node.Observe(contract.ObserveRequest()), 30)).node == "one-0"


@pytest.mark.parametrize("kind", ["valkeyca", "valkeycertificatebundle", "valkeycertificatebinding"])
def test_certificates_are_shown_with_their_dates(place: Place, kind: str) -> None:
    place.apply("Valkey", "one", SPEC)
    place.is_ready("one")
    scope = ("--all-namespaces",) if kind == "valkeyca" else ()
    place.eventually(lambda: "True" in place.kubectl("get", kind, *scope))
    assert "<invalid>" not in place.kubectl("get", kind, *scope)

"""What goes wrong and stays so for a while: servers keep serving, and the status says what, where and what to do.

`HARDSHIP_SECONDS=60` (`make chaos`) holds a server for so long.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from devcluster.faults import Faults
from tests.chaos.history import Recorder
from tests.chaos.test_replicated import NODES, PORT, SPEC, Instance
from tests.chaos.test_unplanned import ALWAYS, is_bounded
from tests.chaos.wire import OPEN, Address, ErrorReply, NotSent, Unanswered, Wire
from tests.chaos.workload import Workload
from tests.e2e.conftest import Place

SECONDS = float(os.environ.get("HARDSHIP_SECONDS", "15"))
MEBIBYTE = 1 << 20


def pod_of(instance: Instance, node: str) -> str:
    return f"{instance.place.namespace}/{node}-0"


async def says(instance: Instance, *words: str, patience: float = 60) -> str:
    """Waits until the message of the status holds all these; the message."""

    def claim() -> bool:
        return all(word in instance.status().get("message", "") for word in words)

    await asyncio.to_thread(instance.place.eventually, claim, patience)
    return str(instance.status()["message"])


async def test_a_primary_that_hangs_is_ended_and_replaced_and_returns_as_a_replica(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        before = instance.primary
        with load.during("SIGSTOP of the primary"):
            begun = time.monotonic()
            with await asyncio.to_thread(faults.pause, pod_of(instance, before), "valkey"):
                await load.acknowledged(each=5, within=SECONDS + 15)
                took = time.monotonic() - begun
                await asyncio.sleep(max(0.0, SECONDS - took))
        await instance.is_well()
    verdict = await load.judge()
    print(f"writes again after {took:.1f} s\n{verdict}")
    last = instance.status()["lastFailover"]
    assert (last["from"], last["reason"], instance.primary) == (before, "ServerDied", last["to"])
    assert is_bounded(verdict, last["lossBound"])
    assert 10 <= took < 15
    assert not verdict.lost_after_wait, str(verdict)
    assert not verdict.phantoms, str(verdict)
    events = place.kubectl(
        "get", "events", "--field-selector=reason=ServerHung", "--output=jsonpath={..note}"
    )
    assert "it is ended, so that" in events or "it is ended" in place.kubectl("get", "events")


@pytest.mark.slow
async def test_a_lone_server_that_hangs_is_ended_only_if_its_data_is_on_disk(
    place: Place, faults: Faults
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make(replicas=1)
    server = f"{instance.primary}-0"
    place.valkey(server, "SET", "k", "v")
    with await asyncio.to_thread(faults.pause, pod_of(instance, instance.primary), "valkey"):
        message = await says(instance, "it is not ended, because nobody else has all its data")
        assert "cache-0" in message
        assert "kill -CONT" in message
    await instance.is_well(1)
    assert place.valkey(server, "GET", "k") == "v"
    await instance.patch({"persistence": ALWAYS})
    await instance.is_well(1)
    started = place.valkey(server, "INFO", "server").split("run_id:")[1].split()[0]
    assert place.valkey(server, "SET", "k", "w") == "OK"
    await asyncio.sleep(2)  # the change of the log's mode is noted with the next look
    await asyncio.to_thread(faults.pause, pod_of(instance, instance.primary), "valkey")
    await asyncio.to_thread(place.eventually, lambda: instance.status()["state"] != "Ready", 30)
    await instance.is_well(1)
    assert place.valkey(server, "GET", "k") == "w"
    assert started not in place.valkey(server, "INFO", "server")


async def test_a_full_volume_is_named_and_heals_by_growing_without_a_failover(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make(persistence={**SPEC["persistence"], "aof": {"enabled": True}})
    primary, epoch = instance.primary, instance.status()["primaryEpoch"]
    claim = f"{primary}-data"
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        with (
            load.during("a full volume"),
            await asyncio.to_thread(faults.fill, f"{place.namespace}/{claim}"),
        ):
            message = await says(instance, f"{primary}: its volume {claim}", "is full", "refuses writes")
            assert "grow spec.persistence.size" in message
            status = instance.status()
            assert (status["state"], status["reason"]) == ("Degraded", "DiskFull")
            assert place.valkey(f"{primary}-0", "PING") == "PONG"
            await asyncio.sleep(3)  # nobody is made primary for that
            await instance.patch({"persistence": {"size": "128Mi"}})
            await load.acknowledged(each=10, within=60)
            await instance.is_well()
    verdict = await load.judge()
    print(message, verdict, sep="\n")
    assert (instance.primary, instance.status()["primaryEpoch"]) == (primary, epoch)
    assert verdict.clean, str(verdict)


async def test_a_config_that_no_server_starts_with_stops_the_roll_and_going_back_heals_it(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        with load.during("a config that is refused"):
            await instance.patch({"config": {"loadmodule": "/no/such/module.so"}})
            message = await says(instance, "does not come up", "Can't load module from /no/such/module.so")
            print(message)
            status = instance.status()
            assert (status["readyReplicas"], status["state"]) == (2, "Degraded")
            await load.acknowledged(each=10)
            await instance.patch({"config": None})
            await instance.is_well()
    verdict = await load.judge()
    print(verdict)
    assert verdict.clean, str(verdict)


async def test_a_deleted_secret_is_made_again_and_nobody_notices(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    """Users, an identity, the authority behind it, the address for clients; and a pod that starts meanwhile."""
    instance = Instance(place, faults, 0)
    await instance.make()
    names = ("cache-system-users", "cache-0-mtls", "cache-mtls-ca", "cache-connection")
    before = {name: place.get("secret", name)["metadata"]["uid"] for name in names}
    epoch = instance.status()["primaryEpoch"]

    def are_there_again() -> bool:
        found = json.loads(place.kubectl("get", "secrets", "--output=json"))["items"]
        there = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
        return all(there.get(name) not in (None, before[name]) for name in names)

    async with Workload(instance.target(), Recorder(tmp_path / "history"), pace=0.02) as load:
        await load.acknowledged(each=10)
        with load.during("Secrets are deleted"):
            await asyncio.to_thread(place.kubectl, "delete", "secret", *names)
            await asyncio.to_thread(place.eventually, are_there_again, 30)
            replica = next(name for name in ("cache-2-0", "cache-1-0") if name != f"{instance.primary}-0")
            await asyncio.to_thread(place.kubectl, "delete", "pod", replica)
            await asyncio.sleep(1)
            await instance.is_well()
            # A sidecar that starts again has the new Secret, beside a server that may have the old one.
            for node in NODES:
                await asyncio.to_thread(faults.kill, pod_of(instance, node), "sidecar")
            await asyncio.sleep(2)
            await instance.is_well()
    verdict = await load.judge()
    print(verdict)
    assert verdict.clean, str(verdict)
    assert instance.status()["primaryEpoch"] == epoch


TINY = {"client-output-buffer-limit": "replica 16kb 16kb 0", "repl-backlog-size": "16kb"}


async def flood(address: Address, served: list[float], refused: list[str]) -> None:
    """Each of these values is more than a replica's buffer may hold."""
    while True:
        try:
            async with await Wire.open(address, OPEN) as wire:
                while True:
                    await wire.call("SET", "large", "x" * 200_000)
                    served.append(time.monotonic())
                    await asyncio.sleep(0.02)
        except (NotSent, Unanswered, ErrorReply) as why:
            refused.append(str(why))
            await asyncio.sleep(0.1)


async def test_a_replica_that_can_never_sync_is_named_and_holds_a_roll(place: Place, faults: Faults) -> None:
    instance = Instance(place, faults, 0)
    await instance.make(config=TINY)
    primary = instance.primary
    address = Address(place.get("service", "cache")["spec"]["clusterIP"], PORT)
    served: list[float] = []
    refused: list[str] = []
    flooding = asyncio.create_task(flood(address, served, refused))
    try:
        message = await says(instance, f"{primary} has cut off replicas", "raise client-output-buffer-limit")
        print(message)
        before = {node: place.get("pod", f"{node}-0")["metadata"]["uid"] for node in NODES}
        await instance.patch({"config": {"databases": "33"}})
        await asyncio.sleep(10)
        after = {node: place.get("pod", f"{node}-0")["metadata"]["uid"] for node in NODES}
        assert sum(before[node] != after[node] for node in NODES) <= 1, "a roll went on past it"
        assert after[primary] == before[primary] == place.get("pod", f"{primary}-0")["metadata"]["uid"]
        assert served[-1] > time.monotonic() - 5, "the primary did not keep serving"
        await instance.patch({"config": dict.fromkeys(TINY)})
        await asyncio.sleep(1)
    finally:
        flooding.cancel()
        await asyncio.wait({flooding})
        print(f"{len(served)} served; refused: {refused}")
    await instance.is_well()
    for node in NODES:
        assert place.valkey(f"{node}-0", "CONFIG", "GET", "databases").split()[-1] == "33"


@pytest.mark.slow
async def test_a_replica_that_falls_behind_is_told_with_how_much(place: Place, faults: Faults) -> None:
    instance = Instance(place, faults, 0)
    await instance.make()
    replica = next(node for node in NODES if node != instance.primary)
    address = Address(place.get("service", "cache")["spec"]["clusterIP"], PORT)

    def lagging() -> dict[str, int]:
        return {each["name"]: each["bytes"] for each in instance.status().get("lagging", ())}

    with await asyncio.to_thread(faults.cut, pod_of(instance, replica)):
        async with await Wire.open(address) as wire:
            for number in range(20):
                await wire.call("SET", f"large:{number % 4}", "x" * MEBIBYTE)
        await asyncio.to_thread(place.eventually, lambda: lagging() == {replica: 16 * MEBIBYTE}, 60)
    await asyncio.to_thread(place.eventually, lambda: not lagging(), 60)
    await instance.is_well()

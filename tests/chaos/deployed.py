"""A deployment under test: how it is, what is wished of it, and what goes wrong in the middle of that."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, ClassVar

from devcluster.faults import Faults
from devcluster.problem import Problem
from tests.e2e.conftest import PLACE, Place, by_name

# Within this time of its beginning a work is struck.
SOON = 3.0


class Misfortune(Enum):
    """In this order by seed: six seeds meet all of them once."""

    NONE = ""
    OPERATOR = "the operator dies"
    SIDECAR = "a sidecar dies"
    API_SERVER = "the API server restarts"
    DRAIN = "a machine is drained"
    REVERSED = "the wish is taken back and set again"

    @classmethod
    def of(cls, seed: int) -> Misfortune:
        return tuple(cls)[seed % len(cls)]


def longest_pause(seed: int) -> float | None:
    """Of writes in planned work where nothing goes wrong: half a second is usual, more only where a machine is busy."""
    return 5.0 if Misfortune.of(seed) is Misfortune.NONE else None


def titled(work: object, seed: int) -> str:
    misfortune = Misfortune.of(seed)
    return f"{work} while {misfortune.value}" if misfortune.value else str(work)


class Deployed:
    """What a Valkey and a ValkeyCluster have in common."""

    kind: ClassVar[str]
    name: ClassVar[str]
    # Comes and goes beside work that cannot be taken back itself.
    passing_wish: ClassVar[dict[str, Any]]

    def __init__(self, place: Place, faults: Faults, seed: int) -> None:
        self.place, self.faults = place, faults
        self.dice = random.Random(seed)  # noqa: S311 - it chooses moments
        self.misfortune = Misfortune.NONE
        self._has_gone_back = False

    @property
    def _is_reversed(self) -> bool:
        return self.misfortune is Misfortune.REVERSED

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.place.get(self.kind, self.name).get("status", {})
        return found

    async def becomes(self, claim: Callable[[], bool], patience: float) -> None:
        """Waits for it; where it does not come true, the error tells how the deployment was."""
        try:
            await asyncio.to_thread(self.place.eventually, claim, patience)
        except AssertionError as late:
            late.add_note(f"its status: {json.dumps(self.status(), indent=2)}")
            late.add_note(self.place.kubectl("get", "valkeynodes,pods", "--output=wide"))
            raise

    async def patch(self, spec: dict[str, Any], *, can_go_back: bool = True) -> None:
        """Struck by a change of mind: and back, and again, each at a moment that the dice choose."""
        if self._is_reversed and can_go_back:
            await self._patch_and_go_back(spec)
            await self._some_moment()
        await self._patch(spec)

    async def grow(self, size: str) -> None:
        """All volumes; it cannot be taken back."""
        async with self.beside():
            await self.patch({"persistence": {"size": size}}, can_go_back=False)
        await self.becomes(lambda: self._volume_sizes() == {size}, 120)

    def _volume_sizes(self) -> set[str]:
        """Of the nodes that there are: what is kept of others stays as it was."""
        nodes, claims = (self._items(kind) for kind in ("valkeynodes", "persistentvolumeclaims"))
        used = {f"{each['metadata']['name']}-data" for each in nodes}
        volumes = (each["status"] for each in claims if each["metadata"]["name"] in used)
        return {each.get("capacity", {}).get("storage", "") for each in volumes}

    def memory_limits(self) -> set[str]:
        """Of the servers, as their pods say."""
        servers = (by_name(each["spec"]["containers"])["valkey"] for each in self._pods())
        return {each["resources"].get("limits", {}).get("memory", "") for each in servers}

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """For work that cannot be taken back: struck by a change of mind, another wish comes and goes meanwhile."""
        passing = asyncio.create_task(self._pass())
        try:
            yield
            await passing
        finally:
            passing.cancel()

    async def _pass(self) -> None:
        if self._is_reversed:
            await self._some_moment()
            await self._patch_and_go_back(self.passing_wish)

    async def _patch_and_go_back(self, spec: dict[str, Any]) -> None:
        before = self.place.get(self.kind, self.name)["spec"]
        await self._patch(spec)
        await self._some_moment()
        await self._patch({field: before.get(field) for field in spec})
        self._has_gone_back = True

    async def _some_moment(self) -> None:
        await asyncio.sleep(self.dice.uniform(0, SOON))

    async def _patch(self, spec: dict[str, Any]) -> None:
        words = ("patch", self.kind, self.name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")
        await asyncio.to_thread(self.place.kubectl, *words)

    async def ask_for(self, primary: str) -> str:
        """The id of the request."""
        request = f"{self.dice.getrandbits(64):x}"
        note = f"valkey.io/switchover={primary}/{request}"
        await asyncio.to_thread(self.place.kubectl, "annotate", "--overwrite", self.kind, self.name, note)
        return request

    async def ask_for_another(self, primary: str, former: str) -> None:
        """Struck by a change of mind: then for the former one, and again, each at a moment that the dice choose."""
        request = await self.ask_for(primary)
        if not self._is_reversed:
            return
        for each in (former, primary):
            await self._some_moment()
            request = await self.ask_for(each)
        self._has_gone_back = True
        await self.becomes(lambda: self._has_done(request), 60)

    def _has_done(self, request: str) -> bool:
        last = self.status().get("lastSwitchover", {})
        return (last.get("id"), last.get("result")) == (request, "Done")

    def leading_operator(self) -> str:
        """Its pod; empty while nobody leads."""
        lease = Place(self.place.cluster, PLACE).get("lease", "valkey-operator")
        return str(lease["spec"]["holderIdentity"]).partition("_")[0]

    def leading_machine(self) -> str:
        """Where the operator that leads runs."""
        pod = Place(self.place.cluster, PLACE).get("pod", self.leading_operator())
        return str(pod["spec"]["nodeName"])

    async def kill_an_operator(self) -> str:
        """The one that leads, at a moment that the dice choose; its pod."""
        await asyncio.to_thread(self.place.eventually, self._is_led)
        await self._some_moment()
        leader = self.leading_operator()
        await asyncio.to_thread(kill_operator, self.place, self.faults, leader)
        return leader

    def _is_led(self) -> bool:
        """By one that lives: the lease of a dead one is its own for some seconds more."""
        pods = Place(self.place.cluster, PLACE).kubectl("get", "pods", "--output=name").split()
        return f"pod/{self.leading_operator()}" in pods

    @asynccontextmanager
    async def struck(self, misfortune: Misfortune) -> AsyncIterator[None]:
        """It happens within the first seconds, and is over at the end."""
        self.misfortune = misfortune
        self.place.api_restarts = misfortune is Misfortune.API_SERVER
        strike = asyncio.create_task(self._strike(misfortune))
        try:
            yield
            await strike
            assert self._has_gone_back or not self._is_reversed, "nothing was taken back"
        finally:
            strike.cancel()
            if misfortune is Misfortune.DRAIN:
                await asyncio.to_thread(self._uncordon_all)

    async def _strike(self, misfortune: Misfortune) -> None:
        if misfortune in (Misfortune.NONE, Misfortune.REVERSED):
            return
        if misfortune is Misfortune.OPERATOR:
            await self.kill_an_operator()
            return
        await self._some_moment()
        if misfortune is Misfortune.SIDECAR:
            await asyncio.to_thread(self._kill_a_sidecar)
        elif misfortune is Misfortune.API_SERVER:
            await asyncio.to_thread(self.faults.restart, "api")
        elif misfortune is Misfortune.DRAIN:
            await asyncio.to_thread(self._drain)

    def _items(self, kind: str) -> list[dict[str, Any]]:
        selector = f"--selector=valkey.io/cluster={self.name}"
        found: list[dict[str, Any]] = json.loads(self.place.kubectl("get", kind, selector, "--output=json"))[
            "items"
        ]
        return found

    def _pods(self) -> list[dict[str, Any]]:
        running = (each for each in self._items("pods") if each["status"].get("phase") == "Running")
        return [each for each in running if "deletionTimestamp" not in each["metadata"]]

    def _some_pod(self) -> dict[str, Any]:
        """One that is suspended has none: then of the first that are back."""
        found: list[dict[str, Any]] = []

        def claim() -> bool:
            found.extend(self._pods())
            return bool(found)

        self.place.eventually(claim, 180)
        return self.dice.choice(found)

    def _kill_a_sidecar(self) -> None:
        """One may go between the look and the kill: scaling ends pods too."""
        for tries_left in reversed(range(5)):
            pod = self._some_pod()["metadata"]["name"]
            try:
                self.faults.kill_container(f"{self.place.namespace}/{pod}", "sidecar")
            except Problem:
                if not tries_left:
                    raise
            else:
                return

    def _drain(self) -> None:
        """Of this deployment's pods only: the operator's are struck by other seeds."""
        machine = self._some_pod()["spec"]["nodeName"]
        options = ("--delete-emptydir-data", "--force", "--timeout=90s")
        selector = f"--pod-selector=valkey.io/cluster={self.name}"
        self.place.cluster.kubectl("drain", machine, *options, selector, timeout=120)

    def _uncordon_all(self) -> None:
        nodes = json.loads(self.place.cluster.kubectl("get", "nodes", "--output=json"))["items"]
        for each in nodes:
            self.place.cluster.kubectl("uncordon", each["metadata"]["name"])


def kill_operator(place: Place, faults: Faults, pod: str) -> None:
    """Without a word, and for good: one that is killed again and again would be started later and later."""
    faults.kill_container(f"{PLACE}/{pod}", "operator")
    Place(place.cluster, PLACE).kubectl("delete", "pod", pod, "--grace-period=0", "--force")

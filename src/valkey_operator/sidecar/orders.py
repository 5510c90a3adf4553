"""Carries out what the operator orders, one at a time; refuses what it cannot do, or was not meant for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.live_config import FENCE, FENCED
from valkey_operator.valkey.connection import Refused, Silent

log = logging.getLogger(__name__)

USUAL_LIMIT = 10.0


class Refusal(Exception):
    """Nothing was changed; `guard` is the rule that said no."""

    def __init__(self, guard: str, message: str) -> None:
        super().__init__(message)
        self.guard = guard


class Server(Protocol):
    async def call(self, *words: str | int) -> Any: ...

    async def shut_down(self, grace: float) -> bool: ...


class Pod(Protocol):
    """What an order may touch."""

    @property
    def pod_uid(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def record(self) -> Record: ...

    def running_server(self) -> Server | None: ...

    def observe(self) -> contract.Observation: ...

    def open_gate(self) -> bool: ...

    def note_record(self, record: Record) -> None: ...

    def note_directives(self, told: Mapping[str, str]) -> None: ...

    def address_of(self, node: str) -> tuple[str, int]: ...

    def write_users(self) -> None: ...

    def note_users(self) -> None: ...

    def directive(self, name: str, otherwise: str) -> str: ...

    async def stop(self) -> None: ...


class Orders:
    """One pod's."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._turn = asyncio.Lock()

    async def carry_out(self, order: contract.Order) -> contract.Outcome:
        limit = order.limit_milliseconds / 1000 or USUAL_LIMIT
        name = order.WhichOneof("order") or ""
        try:
            self._check(order, name)
            async with asyncio.timeout(limit), self._turn:
                self._note_primary(order, name)
                await self._known()[name](getattr(order, name))
        except Refusal as refusal:
            return self._outcome(contract.RESULT_REFUSED, str(refusal), refusal.guard)
        except (Refused, Silent, TimeoutError) as error:
            words = str(error) or f"not done in {limit:.0f} s"
            log.warning("the order %s failed: %s", name, words)
            return self._outcome(contract.RESULT_FAILED, f"{name}: {words}")
        log.info("carried out: %s", name)
        return self._outcome(contract.RESULT_DONE)

    def _check(self, order: contract.Order, name: str) -> None:
        if order.pod_uid != self._pod.pod_uid:
            raise Refusal("an_order_is_for_one_pod", f"this is pod {self._pod.pod_uid}, not {order.pod_uid}")
        if name not in self._known():
            raise Refusal("an_order_is_understood", f"this sidecar knows no order {name or 'of that kind'}")
        if order.epoch < self._pod.record.epoch:
            known = self._pod.record.epoch
            raise Refusal(
                "no_order_of_an_older_epoch", f"epoch {order.epoch} is over; this node is in {known}"
            )

    def _known(self) -> dict[str, Callable[[Any], Awaitable[None]]]:
        return {
            "promote": self._promote,
            "replicate": self._replicate,
            "set_config": self._set_config,
            "load_users": self._load_users,
            "save": self._save,
            "shut_down": self._shut_down,
            "fence": self._fence,
            "open_gate": self._open_gate,
        }

    def _server(self) -> Server:
        server = self._pod.running_server()
        if server is None:
            raise Refusal("a_server_runs", "the server does not run")
        return server

    def _note_primary(self, order: contract.Order, name: str) -> None:
        """Before it is done: a server that ends right after must not come back as what it was."""
        if name in ("promote", "replicate"):
            self._server()
            primary = self._pod.node if name == "promote" else order.replicate.primary
            if order.epoch > self._pod.record.epoch:
                self._pod.note_record(Record(order.epoch, primary))
            elif primary != self._pod.record.primary:
                known = self._pod.record.primary
                raise Refusal(
                    "one_primary_per_epoch", f"in epoch {order.epoch} the primary is {known}, not {primary}"
                )

    async def _promote(self, _order: contract.Promote) -> None:
        await self._server().call("REPLICAOF", "NO", "ONE")

    async def _replicate(self, order: contract.Replicate) -> None:
        await self._server().call("REPLICAOF", *self._pod.address_of(order.primary))

    async def _set_config(self, order: contract.SetConfig) -> None:
        """All or none, by the server itself."""
        words = [word for pair in sorted(order.directives.items()) for word in pair]
        if words:
            self._pod.note_directives(order.directives)
            await self._server().call("CONFIG", "SET", *words)

    async def _load_users(self, _order: contract.LoadUsers) -> None:
        self._pod.write_users()
        await self._server().call("ACL", "LOAD")
        self._pod.note_users()

    async def _save(self, _order: contract.Save) -> None:
        await self._server().call("BGSAVE")

    async def _shut_down(self, _order: contract.ShutDown) -> None:
        self._server()
        await self._pod.stop()

    async def _fence(self, order: contract.Fence) -> None:
        server = self._server()
        usual = self._pod.directive(FENCE, "0")
        await server.call("CONFIG", "SET", FENCE, FENCED if order.is_on else usual)
        if order.is_on:
            await server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _open_gate(self, _order: contract.OpenGate) -> None:
        if not self._pod.open_gate():
            raise Refusal("a_server_waits_at_the_gate", "no server waits at the gate")

    def _outcome(self, result: contract.Result, message: str = "", guard: str = "") -> contract.Outcome:
        observation = self._pod.observe()
        return contract.Outcome(result=result, message=message, guard=guard, observation=observation)

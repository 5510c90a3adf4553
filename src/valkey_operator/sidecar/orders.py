"""Carries out what the operator orders, one at a time; refuses what it cannot do, or was not meant for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from valkey_operator.api.guards import Guard
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.gate import Record
from valkey_operator.sidecar.refusals import Failure, Refusal
from valkey_operator.valkey.connection import Refused, Silent

log = logging.getLogger(__name__)

# How long writes were paused, in milliseconds; or what was asked for.
Answer = int | bytes | None
Known = Mapping[str, Callable[[contract.Order], Awaitable[Answer]]]
USUAL_LIMIT = 10.0
TAKE_OVER_LIMIT = 5.0


class Server(Protocol):
    async def call(self, *words: str | int) -> Any: ...

    async def shut_down(self, grace: float) -> bool: ...


class Pod(Protocol):
    """What an order may touch."""

    # One at a time: orders, and what the pod does for the same ends by itself.
    @property
    def turn(self) -> asyncio.Lock: ...

    @property
    def pod_uid(self) -> str: ...

    @property
    def node(self) -> str: ...

    @property
    def record(self) -> Record: ...

    def running_server(self) -> Server | None: ...

    # What only a server in a cluster can do, or does in another way; nothing when it is in none.
    def cluster_orders(self) -> Known: ...

    def observe(self) -> contract.Observation: ...

    def open_gate(self) -> bool: ...

    def step_aside(self) -> None: ...

    def note_record(self, record: Record) -> None: ...

    def note_directives(self, told: Mapping[str, str]) -> None: ...

    def address_of(self, node: str) -> tuple[str, int]: ...

    async def load_users(self) -> None: ...

    async def stop(self) -> None: ...

    async def observe_now(self) -> contract.Observation: ...

    @property
    def is_primary(self) -> bool: ...

    async def may_be_primary(self) -> bool: ...

    def begin_office(self) -> None: ...

    def end_office(self) -> None: ...

    async def hand_over(self, epoch: int, to: str, limit: float) -> int: ...

    async def take_over(self, epoch: int, by: str) -> None: ...

    async def order_fence(self, is_on: bool) -> None: ...


class Orders:
    """One pod's."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._under_way: set[asyncio.Task[int]] = set()

    async def carry_out(self, order: contract.Order) -> contract.Outcome:
        limit = order.limit_milliseconds / 1000 or USUAL_LIMIT
        name = order.WhichOneof("order") or ""
        obeyed = self._hand_over(order, limit) if name == "hand_over" else self._obey(order, name, limit)
        return await self._outcome_of(name, obeyed, limit)

    async def _obey(self, order: contract.Order, name: str, limit: float) -> Answer:
        self._check(order, name)
        async with asyncio.timeout(limit), self._pod.turn:
            self._check(order, name)  # another may have come first
            self._note_primary(order, name)
            return await self._known()[name](order)

    async def _hand_over(self, order: contract.Order, limit: float) -> int:
        """Goes on when whoever ordered it is gone: after the demotion there is nobody else to end it well."""
        task = asyncio.create_task(self._hand_over_in_turn(order, limit))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[int]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the handover did not end well: %s", error)

    async def _hand_over_in_turn(self, order: contract.Order, limit: float) -> int:
        begun = time.monotonic()
        async with self._pod.turn:
            self._check(order, "hand_over")
            left = max(0.0, begun + limit - time.monotonic())
            return await self._pod.hand_over(order.epoch, order.hand_over.to, left)

    async def take_over(self, request: contract.TakeOverRequest, peer: str) -> contract.Outcome:
        """Asked by `peer`, another node of the deployment, which speaks for nobody but itself."""

        async def obey() -> None:
            by = getattr(request, "from")  # a word of Python
            if request.pod_uid and request.pod_uid != self._pod.pod_uid:
                raise Refusal(
                    Guard.AN_ORDER_IS_FOR_ONE_POD, f"this is pod {self._pod.pod_uid}, not {request.pod_uid}"
                )
            if by != peer:
                raise Refusal(Guard.A_NODE_HANDS_OVER_ITS_OWN_OFFICE, f"{peer} speaks for {by}")
            async with asyncio.timeout(TAKE_OVER_LIMIT), self._pod.turn:
                await self._pod.take_over(request.epoch, by)

        return await self._outcome_of("take_over", obey(), TAKE_OVER_LIMIT)

    async def _outcome_of(self, name: str, done: Awaitable[Answer], limit: float) -> contract.Outcome:
        try:
            answer = await done
        except Refusal as refusal:
            log.warning("the order %s is refused: %s", name, refusal)
            return await self._outcome(contract.RESULT_REFUSED, str(refusal), refusal.guard)
        except Failure as failure:
            return await self._outcome(contract.RESULT_FAILED, f"{name}: {failure}", failure.guard)
        except (Refused, Silent, OSError) as error:  # a time that is over is an OSError, a full disk too
            words = str(error) or f"not done in {limit:.0f} s"
            log.warning("the order %s failed: %s", name, words)
            return await self._outcome(contract.RESULT_FAILED, f"{name}: {words}")
        log.info("carried out: %s", name)
        outcome = await self._outcome(contract.RESULT_DONE)
        if isinstance(answer, bytes):
            outcome.functions = answer
        else:
            outcome.write_pause_milliseconds = answer or 0
        return outcome

    def _check(self, order: contract.Order, name: str) -> None:
        if order.pod_uid != self._pod.pod_uid:
            raise Refusal(
                Guard.AN_ORDER_IS_FOR_ONE_POD, f"this is pod {self._pod.pod_uid}, not {order.pod_uid}"
            )
        if name not in (*self._known(), "hand_over"):
            raise Refusal(
                Guard.AN_ORDER_IS_UNDERSTOOD, f"this sidecar knows no order {name or 'of that kind'}"
            )
        if order.epoch < self._pod.record.epoch:
            known = self._pod.record.epoch
            raise Refusal(
                Guard.NO_ORDER_OF_AN_OLDER_EPOCH, f"epoch {order.epoch} is over; this node is in {known}"
            )

    def _known(self) -> Known:
        return {
            "promote": self._promote,
            "replicate": self._replicate,
            "set_config": self._set_config,
            "load_users": self._load_users,
            "save": self._save,
            "shut_down": self._shut_down,
            "fence": self._fence,
            "open_gate": self._open_gate,
            "note_primary": self._note,
            "step_aside": self._step_aside,
            **self._pod.cluster_orders(),
        }

    def _server(self) -> Server:
        server = self._pod.running_server()
        if server is None:
            raise Refusal(Guard.A_SERVER_RUNS, "the server does not run")
        return server

    def _note_primary(self, order: contract.Order, name: str) -> None:
        """Before it is done: a server that ends right after must not come back as what it was.

        The servers of a cluster know it by themselves.
        """
        if name in ("promote", "replicate") and name not in self._pod.cluster_orders():
            self._server()
            self._note_record(
                Record(order.epoch, self._pod.node if name == "promote" else order.replicate.primary)
            )

    def _note_record(self, wished: Record) -> None:
        known = self._pod.record
        if wished.epoch > known.epoch:
            self._pod.note_record(wished)
        elif wished.primary != known.primary:
            raise Refusal(
                Guard.ONE_PRIMARY_PER_EPOCH,
                f"in epoch {wished.epoch} the primary is {known.primary}, not {wished.primary}",
            )

    async def _promote(self, _order: contract.Order) -> None:
        self._pod.begin_office()
        await self._server().call("REPLICAOF", "NO", "ONE")

    async def _replicate(self, order: contract.Order) -> None:
        await self._server().call("REPLICAOF", *self._pod.address_of(order.replicate.primary))
        self._pod.end_office()

    async def _note(self, order: contract.Order) -> None:
        primary = order.note_primary.primary
        if primary != self._pod.node and await self._pod.may_be_primary():
            raise Refusal(
                Guard.A_RUNNING_PRIMARY_IS_NOT_DEPOSED,
                f"a server runs here that is, or may be, primary: not {primary}",
            )
        self._note_record(Record(order.epoch, primary))

    async def _set_config(self, order: contract.Order) -> None:
        """All or none, by the server itself."""
        words = [word for pair in sorted(order.set_config.directives.items()) for word in pair]
        if words:
            self._pod.note_directives(order.set_config.directives)
            await self._server().call("CONFIG", "SET", *words)

    async def _load_users(self, _order: contract.Order) -> None:
        self._server()
        await self._pod.load_users()

    async def _save(self, _order: contract.Order) -> None:
        await self._server().call("BGSAVE")

    async def _shut_down(self, _order: contract.Order) -> None:
        self._server()
        await self._pod.stop()

    async def _fence(self, order: contract.Order) -> None:
        self._server()
        await self._pod.order_fence(order.fence.is_on)

    async def _open_gate(self, _order: contract.Order) -> None:
        if not self._pod.open_gate():
            raise Refusal(Guard.A_SERVER_WAITS_AT_THE_GATE, "no server waits at the gate")

    async def _step_aside(self, _order: contract.Order) -> None:
        self._pod.step_aside()

    async def _outcome(
        self, result: contract.Result, message: str = "", guard: Guard | None = None
    ) -> contract.Outcome:
        observation = await self._pod.observe_now()
        return contract.Outcome(result=result, message=message, guard=guard or "", observation=observation)

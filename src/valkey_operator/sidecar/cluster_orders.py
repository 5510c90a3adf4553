"""Orders to a server that is in a cluster: whom it knows, what it owns, whom it follows.

Each looks at the server first and refuses what would lose data. Nothing here empties a server, and nothing takes slots
from whoever owns them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from valkey_operator.api.guards import Guard
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.model.cluster import ClusterView, as_ranges, as_text
from valkey_operator.model.gate import Lineage
from valkey_operator.sidecar import observer
from valkey_operator.sidecar.cluster_words import slots_of
from valkey_operator.sidecar.haste import Haste
from valkey_operator.sidecar.refusals import Failure, Refusal
from valkey_operator.valkey.connection import Connection, Refused

LOOK_AGAIN = 0.01
# A server gives a planned failover up after five seconds, and says nothing.
FAILOVER = 6.0
# For the former primary to follow; that is a matter of milliseconds.
FOLLOWS, ASK_AGAIN = 2.0, 0.05
log = logging.getLogger(__name__)


class Server(Protocol):
    info: Mapping[str, str] | None
    cluster: ClusterView | None

    async def keys(self) -> int: ...

    async def call(self, *words: str | int) -> Any: ...

    async def look_now(self) -> None: ...

    async def connect(self) -> Connection: ...


class Pod(Protocol):
    """What these orders touch."""

    def running_server(self) -> Server | None: ...

    async def peer(self, node: str, host: str = "") -> contract.Observation | None: ...

    @property
    def haste(self) -> Haste: ...


Known = Mapping[str, Callable[[contract.Order], Awaitable[int | bytes | None]]]


async def seen(pod: Pod) -> tuple[Server, ClusterView]:
    """As it is at this moment."""
    server = pod.running_server()
    if server is None:
        raise Refusal(Guard.A_SERVER_RUNS, "the server does not run")
    await server.look_now()
    if server.cluster is None:
        raise Refusal(Guard.A_SERVER_IS_IN_A_CLUSTER, "the server does not answer, or is in no cluster")
    return server, server.cluster


class ClusterOrders:
    """One pod's, but for those that move slots."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self.taken_over: contract.TakenOver | None = None

    def known(self) -> Known:
        return {
            "promote": self._promote,
            "replicate": self._replicate,
            "meet": self._meet,
            "forget": self._forget,
            "assign_slots": self._assign,
            "take_office": self._take_office,
            "reset_node": self._reset,
            "hurry": self._hurry,
            "dump_functions": self._dump_functions,
            "load_functions": self._load_functions,
        }

    async def _meet(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        there = [each for each in order.meet.nodes if each.node_id != view.own_id]
        for address in await asyncio.gather(*map(self._checked, there)):
            place, _, bus = address.partition("@")
            await server.call("CLUSTER", "MEET", *place.rsplit(":", 1), *([bus] if bus else []))

    async def _checked(self, wished: contract.Acquaintance) -> str:
        """The address, when the node says by itself, under its own identity, that it is the one and is there."""
        said = await self._pod.peer(wished.node, wished.address.rpartition(":")[0])
        if said is None:
            raise Refusal(Guard.NOBODY_IS_MET_UNCHECKED, f"{wished.node} does not say who it is")
        view = said.server.cluster
        found = next((each.address for each in view.nodes if each.id == view.node_id), "")
        if (view.node_id, found) != (wished.node_id, wished.address):
            raise Refusal(
                Guard.NOBODY_IS_MET_UNCHECKED,
                f"{wished.node} is {view.node_id or 'nobody'} at {found or 'no address'}, "
                f"not {wished.node_id} at {wished.address}",
            )
        return wished.address

    async def _forget(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        there = [view.by_id[each] for each in order.forget.node_ids if each in view.by_id]
        for member in there:
            # Members of another deployment, met by mistake, are alive and well.
            is_foreign = member.family and view.own.family and member.family != view.own.family
            may_live = is_foreign or order.forget.though_they_seem_connected
            if member.is_connected and not member.is_failed and not may_live:
                raise Refusal(Guard.A_CONNECTED_NODE_IS_NOT_FORGOTTEN, f"{member.id} is connected")
            if member.slots and not order.forget.though_they_own_slots:
                slots = as_text(member.slots)
                raise Refusal(Guard.AN_OWNER_OF_SLOTS_IS_NOT_FORGOTTEN, f"{member.id} owns slots {slots}")
        for member in there:
            try:
                await server.call("CLUSTER", "FORGET", member.id)
            except Refused as refusal:
                if "Unknown node" not in str(refusal):  # another one's word for it was quicker
                    raise

    async def _assign(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        wished = slots_of(order.assign_slots.slots)
        taken = {slot for slot in wished if view.owner_of(slot) not in ("", view.own_id)}
        if taken:
            owners = ", ".join(sorted({view.owner_of(slot) for slot in taken}))
            raise Refusal(Guard.SLOTS_OF_OTHERS_STAY_THEIRS, f"slots {as_text(taken)} belong to {owners}")
        if not view.own.is_primary:
            raise Refusal(Guard.ONLY_A_PRIMARY_OWNS_SLOTS, f"this node is a replica of {view.own.primary_id}")
        epoch = order.assign_slots.config_epoch
        if epoch and view.is_alone and not view.own.config_epoch:
            await server.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        missing = as_ranges(wished - view.own.slots)
        if missing and not view.is_alone:
            # Newer than any claim of the former owner that somebody may still remember; first, for who is cut off after
            # it has taken them misses none and does not come here again.
            await server.call("CLUSTER", "BUMPEPOCH")
        if missing:
            await server.call("CLUSTER", "ADDSLOTSRANGE", *(end for each in missing for end in each))

    async def _replicate(self, order: contract.Order) -> None:
        """The one to follow may not be known here yet: that is a matter of a few pings."""
        server, view = await seen(self._pod)
        primary = order.replicate.primary
        if view.own.primary_id == primary:
            return
        if view.own.slots:
            raise Refusal(Guard.AN_OWNER_OF_SLOTS_STAYS_PRIMARY, f"it owns slots {as_text(view.own.slots)}")
        if view.own.is_primary and await server.keys():
            raise Refusal(Guard.A_PRIMARY_WITH_KEYS_IS_NOT_EMPTIED, "it has keys, though it owns no slots")
        while True:
            try:
                await server.call("CLUSTER", "REPLICATE", primary)
            except Refused as refusal:
                if "Unknown node" not in str(refusal):
                    raise
                await asyncio.sleep(LOOK_AGAIN)
            else:
                return

    async def _promote(self, order: contract.Order) -> int:
        wish = order.promote
        if wish.former and not wish.force:
            return await self._take_over(wish, wish.former)
        return await self._fail_over(wish)

    async def take_over(self, by: str) -> None:
        """Asked by the primary itself, which is about to stop."""
        said = await self._pod.peer(by)
        if said is None:
            raise Refusal(Guard.A_REPLICA_FOLLOWS_WHO_HANDS_OVER, f"{by} does not say who it is")
        await self._take_over(contract.Promote(former_id=said.server.cluster.node_id), by)

    async def _take_over(self, wish: contract.Promote, by: str) -> int:
        found = None
        self.taken_over = contract.TakenOver(former=by, is_under_way=True)
        try:
            pause = await self._fail_over(wish)
            found = await self._with_every_write(by)
        finally:
            self.taken_over = found
        return pause

    async def _fail_over(self, wish: contract.Promote) -> int:
        """For how many milliseconds nobody took writes, where the former primary lived until then."""
        server, view = await seen(self._pod)
        former = wish.former_id
        if view.own.is_primary and former not in ("", view.own_id):
            return 0  # it was done before
        _check_follows(view, former)
        info = server.info or {}
        if info.get("master_sync_in_progress") == "1":
            raise Refusal(Guard.A_REPLICA_IS_LOADED, "the replica has not got all its data yet")
        is_linked = info.get("master_link_status") == "up"
        if wish.force and is_linked:
            raise Refusal(Guard.A_DEAD_PRIMARY_DOES_NOT_TALK, f"{former} still talks to this replica")
        if not wish.force and not is_linked:
            raise Refusal(Guard.THE_REPLICA_IS_CONNECTED, "the replica is not in sync with its primary")
        begun = time.monotonic()
        await server.call("CLUSTER", "FAILOVER", *(["FORCE"] if wish.force else []))
        await _in_office(server)
        return 0 if wish.force else int((time.monotonic() - begun) * 1000)

    async def _with_every_write(self, by: str) -> contract.TakenOver | None:
        """The word of the former primary for it: that this server is in office does not say how it came there."""
        ends = time.monotonic() + FOLLOWS
        while time.monotonic() < ends:
            said = await self._pod.peer(by)
            server, view = await seen(self._pod)
            if said is not None and has_all_of(said.server.replication, observer.lineage(server.info or {})):
                return contract.TakenOver(former=by, epoch=view.own.config_epoch)
            await asyncio.sleep(ASK_AGAIN)
        log.warning("took over from %s, and does not know whether every write is here", by)
        return None

    async def _take_office(self, order: contract.Order) -> None:
        server, view = await seen(self._pod)
        if not order.take_office.proof:
            raise Refusal(Guard.A_TAKEOVER_NEEDS_PROOF, "nobody says how the primary is known to be dead")
        if view.own.is_primary:
            return
        _check_follows(view, order.take_office.former_id)
        info = server.info or {}
        if info.get("master_sync_in_progress") == "1":
            raise Refusal(Guard.A_REPLICA_IS_LOADED, "the replica has not got all its data yet")
        if info.get("master_link_status") == "up":
            raise Refusal(Guard.A_DEAD_PRIMARY_DOES_NOT_TALK, "the primary still talks to this replica")
        voters = [each for each in view.by_id.values() if each.is_primary and each.slots]
        if view.sees_a_majority:
            able = sum(each.may_vote for each in voters)
            raise Refusal(Guard.A_VOTE_IS_IMPOSSIBLE, f"{able} of {len(voters)} primaries can vote")
        log.warning("takes over from %s without a vote: %s", view.own.primary_id, order.take_office.proof)
        await server.call("CLUSTER", "FAILOVER", "TAKEOVER")
        await _in_office(server)

    async def _reset(self, _order: contract.Order) -> None:
        server, view = await seen(self._pod)
        if view.own.slots:
            raise Refusal(Guard.AN_OWNER_OF_SLOTS_IS_NOT_RESET, f"it owns slots {as_text(view.own.slots)}")
        keys = await server.keys()
        if keys:
            raise Refusal(Guard.A_NODE_WITH_KEYS_IS_NOT_RESET, f"it holds {keys} keys")
        await server.call("CLUSTER", "RESET", "HARD")

    async def _hurry(self, order: contract.Order) -> None:
        server, _ = await seen(self._pod)
        if order.hurry.milliseconds:
            await self._pod.haste.begin(server, order.hurry)
        else:
            await self._pod.haste.end(server)

    async def _dump_functions(self, _order: contract.Order) -> bytes:
        server, _ = await seen(self._pod)
        connection = await server.connect()
        try:
            dumped: bytes = await connection.call("FUNCTION", "DUMP")
        finally:
            connection.close()
        return dumped

    async def _load_functions(self, order: contract.Order) -> None:
        server, _ = await seen(self._pod)
        connection = await server.connect()
        try:
            await connection.call("FUNCTION", "RESTORE", order.load_functions.functions, "REPLACE")
        finally:
            connection.close()


def has_all_of(former: contract.Replication, own: Lineage) -> bool:
    """The former primary follows, and went on where it was: one that had more would have got a whole copy."""
    follows = former.link_is_up and former.history == own.history
    went_on = former.former_history == own.before and former.former_history_end <= own.until
    return follows and bool(own.before) and went_on


def _check_follows(view: ClusterView, former: str) -> None:
    if view.own.is_primary:
        raise Refusal(Guard.ONLY_A_REPLICA_TAKES_OVER, "this node is a primary already")
    if former and view.own.primary_id != former:
        raise Refusal(
            Guard.A_REPLICA_FOLLOWS_WHO_HANDS_OVER, f"the replica follows {view.own.primary_id}, not {former}"
        )


async def _in_office(server: Server) -> None:
    try:
        async with asyncio.timeout(FAILOVER):
            while True:
                if (await server.call("ROLE"))[0] == "master":
                    return
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        raise Failure(
            Guard.THE_REPLICA_TAKES_OVER, "the other primaries have not voted for it in time"
        ) from None

"""Asks the other nodes that hold the same data: what they know, whether they follow, whether they take over.

Whoever cannot be asked is not gone: it may be the primary, behind a network that is cut.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from valkey_operator.contract.channel import Unanswered, answered, opened
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.mtls import Credentials, Unusable
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.contract.v1.sidecar_grpc import PeerStub
from valkey_operator.model.gate import Disk, Member, Record, Silence
from valkey_operator.sidecar.cluster_gate import record_of

LIMIT = 2.0
# What a replica says that has never been in sync.
NEVER_IN_SYNC = 1
log = logging.getLogger(__name__)

Address = Callable[[str], tuple[str, int]]


class Members:
    """The other nodes, each at its own Service, which leads to it even while it is not ready."""

    def __init__(self, scope: Scope, identity: Path, address_of: Address) -> None:
        self._scope, self._identity, self._address_of = scope, identity, address_of
        self._credentials: Credentials | None = None

    @asynccontextmanager
    async def opened(self, name: str, host: str = "") -> AsyncIterator[PeerStub]:
        """A way to one of them, at its Service or at this address, which is made with the first call; every failure is
        an `Unanswered`."""
        credentials = self._shown()
        service, port = self._address_of(name)
        async with opened(host or service, credentials, self._scope.node(name), port) as channel:
            yield PeerStub(channel)

    def _shown(self) -> Credentials:
        """Looked at each time: the certificate may have come just now."""
        try:
            if self._credentials is None:
                self._credentials = Credentials.from_folder(self._identity)
        except Unusable as problem:
            raise Unanswered(f"there is no certificate to show: {problem}") from None
        self._credentials.reload()
        return self._credentials

    async def observed(self, names: Collection[str]) -> dict[str, contract.Observation]:
        """As they are at this moment; who does not answer is left out."""
        said = await asyncio.gather(*map(self.observe, names))
        return {name: each for name, each in zip(names, said, strict=True) if each is not None}

    async def all_follow(self, names: Collection[str], record: Record) -> bool:
        """Each of them says, within the limit, that it follows this primary in this epoch."""
        question = contract.LeaseQuestion(epoch=record.epoch, primary=record.primary)
        return all(await asyncio.gather(*(self._follows(name, question) for name in names)))

    async def _follows(self, name: str, question: contract.LeaseQuestion) -> bool:
        try:
            async with self.opened(name) as peer:
                return (await answered(peer.AcknowledgeLease(question), LIMIT)).follows
        except Unanswered as why:
            log.debug("%s does not say whether it follows: %s", name, why)
            return False

    async def observe(self, name: str, host: str = "") -> contract.Observation | None:
        try:
            async with self.opened(name, host) as peer:
                return await answered(peer.Observe(contract.ObserveRequest(fresh=True)), LIMIT)
        except Unanswered as why:
            log.info("%s does not say how it is: %s", name, why)
            return None

    async def ask(self, names: Collection[str]) -> dict[str, Member | Silence]:
        """All at once."""
        said = await asyncio.gather(*map(self._ask, names))
        return dict(zip(names, said, strict=True))

    async def _ask(self, name: str) -> Member | Silence:
        """As it is at this moment: a second ago a server may have been empty that has data now."""
        try:
            async with self.opened(name) as peer:
                return member(await answered(peer.Observe(contract.ObserveRequest(fresh=True)), LIMIT))
        except Unanswered as why:
            return Silence(str(why))


def member(seen: contract.Observation) -> Member:
    is_up = seen.HasField("server")
    return Member(
        is_up=is_up,
        record=record_of(seen)
        if seen.server.HasField("cluster")
        else Record(seen.record.epoch, seen.record.primary),
        has_data=is_up and _may_hold_data(seen.server),
        disk=Disk(
            has_data=seen.disk.has_data,
            was_stopped_cleanly=seen.disk.was_stopped_cleanly,
            is_synced_always=seen.disk.is_synced_always,
            has_append_only_file=seen.disk.has_append_only_file,
            history=seen.disk.history,
            offset=seen.disk.offset,
        ),
    )


def _may_hold_data(server: contract.Server) -> bool:
    """A server that is silent or loads may; one whose keys were all deleted holds that fact, and its offset tells."""
    is_in_doubt = not server.answers or server.is_loading
    return is_in_doubt or server.keys > 0 or server.replication.offset > NEVER_IN_SYNC

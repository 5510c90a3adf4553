"""Writes what differs, and nothing else; what it wrote is in the cache before the next look.

Where the outcome of a write is not known (no answer, or cut in the middle), the object is looked at directly
before anything is decided again: a stale cache never causes a second write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import msgspec

from valkey_operator.kube import errors, ownership
from valkey_operator.kube.client import Body, Client, JsonObject, decode
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, ManagedObject, Object, ObjectT
from valkey_operator.kube.ownership import Difference, Path

# Carries the fingerprint of what was applied last: the same wish need not be sent again.
APPLIED = "valkey.io/applied"
# Nothing in them is anybody's in particular: what is applied is merged with what is there, without a conflict.
MERGED = ("Secret", "ConfigMap")

ManagedT = TypeVar("ManagedT", bound=ManagedObject)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Applied(Generic[ManagedT]):
    """What came of an apply; `undone` tells what somebody else had changed."""

    item: ManagedT
    outcome: Literal["unchanged", "created", "changed", "restored"]
    undone: tuple[Difference, ...] = ()


class Writer:
    """Writes under one field manager's name."""

    def __init__(self, client: Client, manager: str) -> None:
        self._client = client
        self._manager = manager
        self._doubts: dict[tuple[str, Key], Informer[Any]] = {}
        self._settling = asyncio.Lock()
        # Fields that are changed on the way in, by an admission webhook: ours to wish, not to fight over.
        self._rewritten: dict[tuple[str, Key], tuple[str, frozenset[Path]]] = {}

    async def apply(
        self, informer: Informer[ManagedT], wanted: Mapping[str, Any], *, force: bool = False
    ) -> Applied[ManagedT]:
        """Make the object so. Silent when it is; somebody else's change of the same wish is undone and told.

        A new wish for a field that another manager owns raises `OwnershipConflict`, an object that others have made
        that or `Taken`, unless `force`.
        """
        metadata, mark = wanted["metadata"], ownership.fingerprint(wanted)
        key = Key(metadata.get("namespace", ""), metadata["name"])
        body: JsonObject = dict(wanted)
        body["metadata"] = {**metadata, "annotations": {**metadata.get("annotations", {}), APPLIED: mark}}
        seen, name = informer.store.get(key), (str(informer.resource), key)
        undone: tuple[Difference, ...] = ()
        if seen is not None:
            if seen.metadata.annotations.get(APPLIED) == mark:
                if informer.store.is_whole(key):
                    return Applied(seen, "unchanged")
                lost = ownership.lost(body, seen.metadata.managed_fields, self._manager)
                if not lost or self._rewritten.get(name) == (mark, lost):
                    informer.store.note_whole(key)
                    return Applied(seen, "unchanged")
                found, force = await self._client.get(informer.resource, key, dict), True
                undone = ownership.differences(lost, body, found, hidden=informer.resource.kind == "Secret")
            body["metadata"]["uid"] = seen.metadata.uid  # never into another object of the same name
        elif informer.selection.labels and informer.resource.kind in MERGED and not force:
            await self._refuse_somebody_elses(informer, key)
        item = await self._send(informer, key, body, force)
        self._note_rewritten(name, mark, ownership.lost(body, item.metadata.managed_fields, self._manager))
        return Applied(item, "created" if seen is None else "restored" if undone else "changed", undone)

    async def status(
        self, informer: Informer[ObjectT], seen: ObjectT, before: Mapping[str, Any],
        after: Mapping[str, Any], *, compare: bool = False,
    ) -> ObjectT:  # fmt: skip
        """Write the whole status, once per change. With `compare` only onto the very version that was seen:
        for records that decide (epoch, primary, operation)."""
        if before == after:
            return seen
        metadata = {"name": seen.metadata.name, "uid": seen.metadata.uid}
        if compare:
            metadata["resourceVersion"] = seen.metadata.resource_version
        return await self._send(informer, seen.key, {"metadata": metadata, "status": after}, True, "status")

    async def patch(
        self, informer: Informer[ObjectT], seen: ObjectT, body: Body, *, form: Literal["merge", "json"],
        subresource: str = "",
    ) -> ObjectT:  # fmt: skip
        """Change some fields of what somebody else has made; the body must name its UID."""
        with self._in_doubt(informer, seen.key):
            item = await self._client.patch(
                informer.resource, seen.key, body, informer.type, form=form, subresource=subresource,
                manager=self._manager,
            )  # fmt: skip
        informer.store.put(item)
        return item

    async def delete(
        self, informer: Informer[ObjectT], seen: ObjectT, *, after_its_own: bool = False
    ) -> None:
        """Delete the very object that was seen; `after_its_own` not before everything it owns is gone."""
        with self._in_doubt(informer, seen.key):
            try:
                answer = await self._client.delete(
                    informer.resource, seen.key, uid=seen.metadata.uid, after_its_own=after_its_own
                )
            except errors.NotFound:
                answer = msgspec.Raw(b'{"kind":"Status"}')
            # The object comes back where it only begins to go (finalizers, grace), else a Status.
            if decode(answer, _Kind, f"delete {informer.resource} {seen.key}").kind == "Status":
                informer.store.delete(seen, by_us=True)
            else:
                informer.store.put(informer.read(answer))

    async def evict(self, informer: Informer[ObjectT], seen: ObjectT) -> None:
        with self._in_doubt(informer, seen.key):
            await self._client.evict(seen.key, uid=seen.metadata.uid)
            await informer.refresh(seen.key)  # the answer does not show the pod

    async def settle(self) -> None:
        """Look at everything whose state is not known; raises as long as it cannot be seen."""
        async with self._settling:  # one looks; whoever comes meanwhile waits for what it sees
            while self._doubts:
                doubt, informer = self._doubts.popitem()
                try:
                    await informer.refresh(doubt[1])
                except BaseException:
                    self._doubts[doubt] = informer
                    raise

    async def _send(
        self, informer: Informer[ObjectT], key: Key, body: JsonObject, force: bool, subresource: str = ""
    ) -> ObjectT:
        body = {"apiVersion": informer.resource.api_version, "kind": informer.resource.kind, **body}
        how: JsonObject = {"manager": self._manager, "force": force, "subresource": subresource}
        with self._in_doubt(informer, key):
            item = await self._client.apply(informer.resource, key, body, informer.type, **how)
        informer.store.put(item)
        return item

    async def _refuse_somebody_elses(self, informer: Informer[Any], key: Key) -> None:
        """The cache shows only what carries our label. Made ours, it would be deleted with its new owner."""
        try:
            there = await self._client.get(informer.resource, key, Object)
        except errors.NotFound:
            return
        if APPLIED not in there.metadata.annotations:
            raise errors.Taken(informer.resource.kind, key.name)

    @contextlib.contextmanager
    def _in_doubt(self, informer: Informer[Any], key: Key) -> Iterator[None]:
        try:
            yield
        except (errors.Unreachable, errors.Unreadable, errors.ApiError, asyncio.CancelledError) as error:
            if (
                not isinstance(error, errors.ApiError) or error.code >= 500
            ):  # it may have been done all the same
                self._doubts[str(informer.resource), key] = informer
            raise

    def _note_rewritten(self, name: tuple[str, Key], mark: str, lost: frozenset[Path]) -> None:
        self._rewritten.pop(name, None)
        if lost:
            self._rewritten[name] = (mark, lost)
            fields = ", ".join(sorted(map(ownership.text, lost)))
            log.warning("%s %s: admission changes %s, which stays so", *name, fields)


class _Kind(msgspec.Struct):
    kind: str = ""

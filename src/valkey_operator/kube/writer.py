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
from valkey_operator.kube.client import Client, JsonObject, decoder
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Key, ManagedObject, Object, ObjectT
from valkey_operator.kube.ownership import Difference, Path

# Carries the fingerprint of what was applied last: the same wish need not be sent again.
APPLIED = "valkey.io/applied"

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
        # Fields that are changed on the way in, by an admission webhook: ours to wish, not to fight over.
        self._rewritten: dict[tuple[str, Key, str], frozenset[Path]] = {}

    async def apply(
        self, informer: Informer[ManagedT], wanted: Mapping[str, Any], *, force: bool = False
    ) -> Applied[ManagedT]:
        """Make the object so. Silent when it is; somebody else's change of the same wish is undone and told.

        A new wish for a field that another manager owns raises `OwnershipConflict`, unless `force`.
        """
        resource, mark = informer.resource, ownership.fingerprint(wanted)
        metadata = wanted["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        annotations = {**metadata.get("annotations", {}), APPLIED: mark}
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body: JsonObject = {**head, **wanted, "metadata": {**metadata, "annotations": annotations}}
        seen = informer.store.get(key)
        undone: tuple[Difference, ...] = ()
        if seen is not None and seen.metadata.annotations.get(APPLIED) == mark:
            drift = self._lost(body, seen, (str(resource), key, mark))
            if not drift:
                return Applied(seen, "unchanged")
            undone, force = await self._explain(informer, body, drift, key), True
        if seen is not None:
            body["metadata"]["uid"] = seen.metadata.uid  # never into another object of the same name
        with self._in_doubt(informer, key):
            item = await self._client.apply(
                resource, key, body, informer.type, manager=self._manager, force=force
            )
        informer.store.put(item)
        self._note_rewritten(body, item, (str(resource), key, mark))
        return Applied(item, "created" if seen is None else "restored" if undone else "changed", undone)

    async def status(
        self, informer: Informer[ObjectT], seen: ObjectT, before: Mapping[str, Any], after: Mapping[str, Any], *,
        compare: bool = False,
    ) -> ObjectT:  # fmt: skip
        """Write the whole status, once per change. With `compare` only onto the very version that was seen:
        for records that decide (epoch, primary, operation)."""
        if before == after:
            return seen
        resource, metadata = informer.resource, seen.metadata
        marks = {"name": metadata.name, "uid": metadata.uid}
        if metadata.namespace:
            marks["namespace"] = metadata.namespace
        if compare:
            marks["resourceVersion"] = metadata.resource_version
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": marks, "status": after}
        with self._in_doubt(informer, seen.key):
            item = await self._client.apply(
                resource,
                seen.key,
                body,
                informer.type,
                manager=self._manager,
                force=True,
                subresource="status",
            )
        informer.store.put(item)
        return item

    async def delete(
        self, informer: Informer[ObjectT], seen: ObjectT, *, compare: bool = False, grace: int | None = None
    ) -> None:
        """Delete the very object that was seen, with `compare` only if nobody changed it since."""
        version = seen.metadata.resource_version if compare else ""
        with self._in_doubt(informer, seen.key):
            try:
                answer = await self._client.delete(
                    informer.resource, seen.key, uid=seen.metadata.uid, version=version, grace=grace
                )
            except errors.NotFound:
                answer = None
        left = _left(answer, informer.type)
        if left is None:
            informer.store.delete(seen, by_us=True)
        else:
            informer.store.put(left)

    async def evict(self, informer: Informer[ObjectT], seen: ObjectT) -> None:
        with self._in_doubt(informer, seen.key):
            await self._client.evict(seen.key, uid=seen.metadata.uid)
            await informer.refresh(seen.key)  # the answer does not show the pod

    async def settle(self) -> None:
        """Look at everything whose state is not known; raises as long as it cannot be seen."""
        for doubt, informer in list(self._doubts.items()):
            await informer.refresh(doubt[1])
            self._doubts.pop(doubt, None)

    @contextlib.contextmanager
    def _in_doubt(self, informer: Informer[Any], key: Key) -> Iterator[None]:
        try:
            yield
        except (errors.Unreachable, errors.ServerFault, asyncio.CancelledError):
            self._doubts[str(informer.resource), key] = informer
            raise

    def _lost(self, body: JsonObject, item: ManagedObject, wish: tuple[str, Key, str]) -> frozenset[Path]:
        lost = ownership.lost(body, item.metadata.managed_fields, self._manager)
        return frozenset() if lost == self._rewritten.get(wish) else lost

    def _note_rewritten(self, body: JsonObject, item: ManagedObject, wish: tuple[str, Key, str]) -> None:
        still = ownership.lost(body, item.metadata.managed_fields, self._manager)
        self._rewritten = {known: paths for known, paths in self._rewritten.items() if known[:2] != wish[:2]}
        if still:
            self._rewritten[wish] = still
            fields = ", ".join(map(ownership.text, still))
            log.warning("%s %s: admission changes %s, which stays so", wish[0], wish[1], fields)

    async def _explain(
        self, informer: Informer[Any], body: JsonObject, drift: frozenset[Path], key: Key
    ) -> tuple[Difference, ...]:
        found = await self._client.get(informer.resource, key, msgspec.Raw)
        entries = decoder(ManagedObject).decode(found).metadata.managed_fields
        hidden = informer.resource.kind == "Secret"
        return ownership.differences(drift, body, msgspec.json.decode(found), entries, hidden)


def _left(answer: msgspec.Raw | None, type_: type[ObjectT]) -> ObjectT | None:
    """A delete answers with the object where it only begins (finalizers, grace), else with a Status."""
    if answer is None or decoder(_Kind).decode(answer).kind == "Status":
        return None
    item: ObjectT = decoder(type_).decode(answer)
    return item


class _Kind(msgspec.Struct):
    kind: str = ""


__all__ = ["APPLIED", "Applied", "Object", "Writer"]

"""Secrets with certificates: read, seen without their keys, written.

Keys are read when something is to be signed or a Secret rewritten, and kept no longer than until what was written has
been looked at. What was seen in a Secret is kept for as long as the Secret stays the same.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from valkey_operator.contract.identity import Identity
from valkey_operator.kube import errors
from valkey_operator.kube.client import Client
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Fields, Key, ManagedObject
from valkey_operator.kube.resources import SECRETS
from valkey_operator.kube.writer import Writer
from valkey_operator.pki.inspection import Wanted
from valkey_operator.pki.store import Contained, Content, Root, bundle, contained


class _Data(Fields, frozen=True, gc=False):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Vault:
    """The Secrets with certificates, of all namespaces."""

    def __init__(self, client: Client, writer: Writer, secrets: Informer[ManagedObject]) -> None:
        self._client, self._writer, self._secrets = client, writer, secrets
        self._seen: dict[Key, tuple[object, Contained]] = {}
        self._written: dict[Key, tuple[str, Content]] = {}
        self._taken: dict[Key, str] = {}
        secrets.store.on_change(lambda before, after: self._forget(before) if after is None else None)

    async def leaf(self, key: Key, identity: Identity, roots: Sequence[Root], now: datetime) -> Contained:
        return await self._look(key, Wanted(now, trust=bundle(roots), identity=identity), roots)

    async def authority(self, key: Key, roots: Sequence[Root], now: datetime) -> Contained:
        return await self._look(key, Wanted(now, trust=bundle(roots), is_authority=True), roots)

    async def read(self, key: Key) -> Content | None:
        """Everything in it, keys as well; None when it is not there."""
        try:
            found = await self._client.get(SECRETS, key, _Data)
        except errors.NotFound:
            return None
        return {name: base64.b64decode(text) for name, text in found.data.items()}

    async def write(self, metadata: Mapping[str, Any], content: Content, *, is_repaired: bool = True) -> None:
        """All of it at once. One that we have not made is `Taken`, unless what was there before `is_repaired`."""
        data = {name: base64.b64encode(value).decode() for name, value in content.items()}
        key = Key(metadata["namespace"], metadata["name"])
        force = is_repaired or self.is_ours(key)
        try:
            await self._writer.apply(self._secrets, {"metadata": metadata, "data": data}, force=force)
        except errors.Taken as why:
            self._taken[key] = str(why)
            raise
        self._taken.pop(key, None)
        if key in self._seen:  # it is looked at again; nobody looks at a root, whose key would stay
            self._written[key] = (self.mark(key), content)

    def is_ours(self, key: Key) -> bool:
        return key in self._secrets.store

    def taken(self, key: Key) -> str:
        """Why it could not be written when it was tried last: somebody else has made it. Empty when it could."""
        return self._taken.get(key, "")

    def mark(self, key: Key) -> str:
        """Another one after every change of the Secret; empty when it is not there, or not ours."""
        found = self._secrets.store.get(key)
        return f"{found.metadata.uid}/{found.metadata.resource_version}" if found else ""

    async def _look(self, key: Key, wanted: Wanted, roots: Sequence[Root]) -> Contained:
        mark, known = self.mark(key), self._seen.get(key)
        version = (mark, tuple(root.thumbprint for root in roots))
        if known and known[0] == version:
            return known[1]
        written = self._written.pop(key, None)
        if written and written[0] == mark:
            content: Content | None = written[1]
        else:
            content = await self.read(key) if mark else None
        found = contained(content, wanted, roots) if content is not None else Contained()
        self._seen[key] = (version, found)
        return found

    def _forget(self, gone: object) -> None:
        for known in (self._seen, self._written):
            known.pop(getattr(gone, "key", Key("", "")), None)

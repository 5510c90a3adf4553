"""Who the operator is to sidecars: its own certificate, followed from its Secret by every replica."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable

import msgspec

from valkey_operator.contract.mtls import CERTIFICATE, KEY, TRUST, Credentials, Material, Unusable
from valkey_operator.kube.informer import Informer
from valkey_operator.kube.objects import Object
from valkey_operator.pki.trust import Report

SECRET = "valkey-operator-mtls"  # noqa: S105 - a name
PARTS = (CERTIFICATE, KEY, TRUST)
log = logging.getLogger(__name__)


class OwnSecret(Object, frozen=True, gc=False):
    """The only Secret that is watched with its content."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


class OwnIdentity:
    """Credentials as soon as there are any, and always the newest that are whole."""

    def __init__(self, informer: Informer[OwnSecret]) -> None:
        self.credentials: Credentials | None = None
        self.on_change: Callable[[], None] = lambda: None
        self._there = asyncio.Event()
        informer.store.on_change(self._changed)

    async def wait(self) -> Credentials:
        await self._there.wait()
        assert self.credentials is not None
        return self.credentials

    @property
    def report(self) -> Report | None:
        held = self.credentials
        return Report(held.thumbprint, held.trusted) if held else None

    def _changed(self, _before: Object | None, after: Object | None) -> None:
        """A Secret that is gone or broken changes nothing here; the leader makes a new one."""
        if not isinstance(after, OwnSecret):
            return
        try:
            self._take(Material(*(base64.b64decode(after.data.get(part, "")) for part in PARTS)))
        except (Unusable, ValueError) as problem:
            log.warning("the Secret %s is not taken: %s", SECRET, problem)

    def _take(self, material: Material) -> None:
        if self.credentials is None:
            self.credentials = Credentials.from_bytes(material)
            self._there.set()
        elif not self.credentials.replace(material):
            return
        log.info("shows the certificate %s", self.credentials.thumbprint[:16])
        self.on_change()

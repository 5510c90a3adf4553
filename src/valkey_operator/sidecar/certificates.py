"""The certificates of this pod's mounted Secret: taken as soon as they are there, and followed when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from valkey_operator.contract.mtls import Credentials, Unusable
from valkey_operator.contract.v1 import sidecar_pb2 as contract

# The kubelet swaps a link and tells nobody; a look at three files costs microseconds.
PERIOD = 1.0
log = logging.getLogger(__name__)


class Certificates:
    """One set for all that this sidecar says and hears."""

    def __init__(self, folder: Path, tell: Callable[[contract.Event.Kind, str], None]) -> None:
        self._folder, self._tell = folder, tell
        self._loaded = asyncio.Event()
        self._credentials: Credentials | None = None
        self._problem = ""

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(PERIOD)

    async def credentials(self) -> Credentials:
        """As soon as there are any; they are kept new from here."""
        await self._loaded.wait()
        assert self._credentials is not None
        return self._credentials

    def look(self) -> None:
        if self._credentials is None:
            self._load()
        elif self._credentials.reload():
            log.info("shows a new certificate")
            self._tell(
                contract.Event.KIND_CERTIFICATE_RELOADED, f"certificate {self._credentials.thumbprint}"
            )
        else:
            self._say(self._credentials.problem)

    def fingerprints(self) -> contract.Fingerprints:
        """Of what is shown and trusted; empty as long as there is nothing."""
        if self._credentials is None:
            return contract.Fingerprints()
        trust = ",".join(sorted(self._credentials.trusted))
        return contract.Fingerprints(sidecar_certificate=self._credentials.thumbprint, trust=trust)

    def _load(self) -> None:
        try:
            self._credentials = Credentials.from_folder(self._folder)
        except Unusable as problem:
            log.debug("the operator cannot be talked to yet: %s", problem)
        else:
            self._loaded.set()

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("the certificate before is still shown: %s", problem)
        self._problem = problem

"""Who we are to the API server: a token that may be rotated under us, or a program that makes one.

A token never enters a log, an error or a process argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from valkey_operator.kube.errors import Misconfigured
from valkey_operator.kube.objects import UNDECODABLE

# Kubernetes writes a new token well before the old one ends (at 80 % of its life, of at least ten minutes).
TOKEN_FILE_AGE = 60.0
PLUGIN_LIMIT = 60.0
EXPIRY_MARGIN = timedelta(seconds=30)
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """What one request shows: a bearer token, or a certificate with its key in PEM, or neither."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)


class Credentials(Protocol):
    async def identity(self) -> Identity: ...

    def forget(self, refused: Identity) -> None:
        """The server refused this identity: the next one should be another, where there is one."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same identity for ever."""

    shown: Identity = Identity()

    async def identity(self) -> Identity:
        return self.shown

    def forget(self, refused: Identity) -> None:
        """There is no other."""


@dataclass
class TokenFile:
    """A token that somebody else keeps fresh in a file."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _shown: Identity | None = None
    _read_at: float = float("-inf")

    async def identity(self) -> Identity:
        if self._shown is None or self.clock() - self._read_at > TOKEN_FILE_AGE:
            try:
                self._shown, self._read_at = self._read(), self.clock()
            except Misconfigured:
                if self._shown is None:
                    raise
                # Half of a rotation: what was good goes on, and the next call looks again.
        return self._shown

    def forget(self, refused: Identity) -> None:
        if self._shown is refused:  # else another request has renewed it already
            self._read_at = float("-inf")

    def _read(self) -> Identity:
        try:
            token = self.path.read_text("ascii").strip()
        except OSError as error:
            raise Misconfigured(f"the token file {self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            token = ""
        # Without a token we would ask as nobody, and hear which rights nobody lacks.
        if not token.isprintable() or not token:
            raise Misconfigured(f"the token file {self.path} holds no token")
        return Identity(token)


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _PluginAnswer(msgspec.Struct):
    status: _PluginStatus


@dataclass
class Plugin:
    """A program named in the kubeconfig that prints an ExecCredential."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    api_version: str
    hint: str = ""
    _shown: Identity | None = None
    _expires: datetime = NEVER
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def identity(self) -> Identity:
        async with self._asking:
            if self._shown is None or self._expires - datetime.now(UTC) < EXPIRY_MARGIN:
                self._shown = await self._ask()
            return self._shown

    def forget(self, refused: Identity) -> None:
        if self._shown is refused:  # else another request has renewed it already
            self._shown = None

    async def _ask(self) -> Identity:
        wish = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        told = msgspec.json.encode(wish).decode()
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": told}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, process_group=0
            )
        except OSError as error:
            hint = f"; {self.hint}" if self.hint else ""
            raise self._problem(f"cannot be run: {error.strerror}{hint}") from None
        answer, complaint = await self._finish(process)
        if process.returncode:
            last = complaint.decode(errors="replace").strip().splitlines()[-1:]
            raise self._problem(f"failed: {' '.join(last) or 'it said nothing'}")
        try:
            status = msgspec.json.decode(answer, type=_PluginAnswer).status
        except UNDECODABLE:
            raise self._problem("printed no ExecCredential") from None
        self._expires = status.expiration_timestamp or NEVER
        pair = status.client_certificate_data.encode(), status.client_key_data.encode()
        if not status.token and not all(pair):  # else we would ask as nobody
            raise self._problem("printed no ExecCredential")
        return Identity(status.token, *pair)

    async def _finish(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(PLUGIN_LIMIT):
                return await process.communicate()
        except (TimeoutError, asyncio.CancelledError) as cut_off:
            # With all it has started: those hold its output open, and then its end is not noticed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            if isinstance(cut_off, TimeoutError):
                raise self._problem(f"did not end in {PLUGIN_LIMIT:.0f} s") from None
            raise

    def _problem(self, what: str) -> Misconfigured:
        return Misconfigured(f"the credential program {self.command[0]} {what}")

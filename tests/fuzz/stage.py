"""One of our processes, an attacker beside it, and a look at both from outside."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.certificates import Authority
from tests.fuzz.honest import UID, Call, api_server, heartbeats, observers
from tests.mtls import ISSUING, NOW, material
from tests.pki import NODE, OPERATOR, SCOPE, Issuing, secret
from valkey_operator.contract.identity import Scope
from valkey_operator.pki.authority import Pair, issue_mtls_leaf

ENVIRONMENT = {
    **os.environ,
    "PYTHONOPTIMIZE": "2",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}
PORTS = {"operator": "health", "sidecar": "probes", "webhook": ""}
OTHER = Scope("prod", "ValkeyCluster", "other")


@dataclass
class Stage:
    """`kind` is the process; its ports follow each other."""

    kind: str
    folder: Path
    port: int
    server: asyncio.subprocess.Process
    attacker: asyncio.subprocess.Process

    def honest(self, count: int) -> list[tuple[Call, float]]:
        if self.kind == "operator":
            return heartbeats(self.port, count)
        return (
            observers(self.port) if self.kind == "sidecar" else api_server(self.port, self.folder / "ca.crt")
        )

    async def attacked(self, target: str, attack: str, cases: int, hold: float, seed: int) -> int:
        """How many cases were tried."""
        is_channel = target.endswith("/channel")
        path, body = MESSAGES[target]
        asked: dict[str, Any] = {
            "target": target, "attack": attack, "cases": cases, "hold": hold, "seed": seed,
            "port": self.port if is_channel else self.port + 1,
            "shown": str(self.folder / "shown") if is_channel else "",
            "path": path, "body": body.decode("latin-1"),
        }  # fmt: skip
        assert self.attacker.stdin is not None
        assert self.attacker.stdout is not None
        self.attacker.stdin.write(json.dumps(asked).encode() + b"\n")
        answer = json.loads(await self.attacker.stdout.readline())
        tried: int = answer["cases"]
        return tried

    def memory(self, field: str) -> float:
        """In MiB; VmHWM is the peak since it was last forgotten."""
        for line in Path(f"/proc/{self.server.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise AssertionError(f"the {self.kind} has ended")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    @property
    def log(self) -> Path:
        return self.folder / "log"


# The path and the content of a right request; the webhook's is as large as one may be.
MESSAGES = {
    "operator/channel": ("/v1/heartbeat", b"\x0a\x06\x0a\x04evil"),
    "operator/health": ("/livez", b""),
    "webhook/channel": ("/check", b'{"apiVersion":"admission.k8s.io/v1"' + b" " * ((7 << 20) - 100) + b"}"),
    "sidecar/channel": ("/valkey.operator.v1.Peer/Observe", b"\x0a\x05uid-1"),
    "sidecar/probes": ("/live", b""),
}


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Stage]:
    port = _free_ports()
    _write(kind, folder, port)
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"tests.fuzz.programs.{kind}",
            str(folder / "place.json"),
            stderr=log,
            env=ENVIRONMENT,
        )
    attacker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fuzz.attacker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for number in range(2 if PORTS[kind] else 1):
            await _answers(port + number)
        yield Stage(kind, folder, port, server, attacker)
    finally:
        for process in (attacker, server):
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _write(kind: str, folder: Path, port: int) -> None:
    for name in ("run", "data", "config", "users", "identity", "shown"):
        (folder / name).mkdir()
    (folder / "config" / "valkey.conf").write_text("port 0\n")
    (folder / "users" / "users.acl").write_text("")
    (folder / "users" / "sidecar-password").write_text("x")
    _write_certificates(kind, folder)
    ports = {"channel": port, PORTS[kind]: port + 1}
    environment = {
        "NAMESPACE": NODE.namespace, "KIND": NODE.kind, "DEPLOYMENT": NODE.deployment, "NODE": NODE.node,
        "POD_UID": UID, "POD_IP": "127.0.0.1", "OPERATOR_ADDRESS": "127.0.0.1:1",
        "OPERATOR_NAMESPACE": OPERATOR.namespace, "TRUST_DOMAIN": OPERATOR.trust_domain,
    }  # fmt: skip
    place = {
        "kind": kind, "folder": str(folder), "identity": str(folder / "identity"), "ports": ports, "uid": UID,
        "scope": [SCOPE.namespace, SCOPE.kind, SCOPE.deployment],
        "environment": environment,
    }  # fmt: skip
    (folder / "place.json").write_text(json.dumps(place))


def _write_certificates(kind: str, folder: Path) -> None:
    """The server's own, and what attackers have got hold of: the insider's is one that this server expects."""
    expired = issue_mtls_leaf(ISSUING.root, OPERATOR, NOW - timedelta(days=9), timedelta(days=1))
    others = {
        "operator": ISSUING.operator(),
        "stranger": issue_mtls_leaf(ISSUING.authority(OTHER), OTHER.node("o"), NOW, timedelta(days=1)),
        "foreign": Issuing(NOW).operator(),
        "expired": expired,
        "insider": ISSUING.node("evil"),
    }
    if kind == "webhook":
        authority = Authority("webhook")
        (folder / "ca.crt").write_bytes(authority.certificate)
        issued = authority.issue("127.0.0.1")
        own, others = Pair(issued.certificate, issued.key), {}
        (folder / "shown" / "insider").mkdir()
    else:
        own = ISSUING.operator() if kind == "operator" else ISSUING.node()
        (folder / "shown" / "nobody").mkdir()
    held = secret(own, ISSUING.root)
    for name, content in held.items():
        (folder / "identity" / name).write_bytes(content)
    for who, pair in others.items():
        (folder / "shown" / who).mkdir()
        (folder / "shown" / who / "tls.crt").write_bytes(material(pair).certificate)
        (folder / "shown" / who / "tls.key").write_bytes(material(pair).key)


def _free_ports() -> int:
    """Two that follow each other, below those that the kernel gives to clients."""
    for first in range(21000 + os.getpid() % 1000 * 10, 32000, 2):
        with suppress(OSError), socket.create_server(("", first)), socket.create_server(("", first + 1)):
            return first
    raise AssertionError("no port is free")


async def _answers(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return

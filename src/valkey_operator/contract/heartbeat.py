"""Where a sidecar tells the operator how its node is; the messages and answers are described in the contract itself."""

from __future__ import annotations

import socket
from typing import NamedTuple

PORT = 9444
PATH = "/v1/heartbeat"
LEASE = "/v1/lease"
# Of one message to the operator, in bytes: that of a cluster of a thousand nodes has a fifth of it. Empty parts take
# forty times as much in memory.
LARGEST = 1024 * 1024
# In the answer of an operator that does not lead: the address of the one that does.
LEADER = "Valkey-Operator-Leader"


class Address(NamedTuple):
    """A host, by name or by IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """What `str` gives; raises ValueError with a sentence for anything else."""
        host, _, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
            raise ValueError(
                f"{text[:120]!r} is no host with a port, such as valkey-operator.valkey-system.svc:{PORT}"
            )
        return cls(host, int(port))

    @property
    def is_numeric(self) -> bool:
        """It needs no DNS."""
        return is_ip_address(self.host)


def is_ip_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False

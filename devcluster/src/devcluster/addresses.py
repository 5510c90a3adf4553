"""Which addresses a cluster uses.

Every cluster gets one /20 of 198.18.0.0/15, the range set aside for test networks: it is routed
nowhere, and 32 clusters fit side by side. Within the /20:

    +0   the switch: host .1, API server .2, DNS .53, exchange .254, node N at .10+N
    +4   Services (a /22)
    +8   pods: node N has the /24 at +8+N
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

RANGE = ipaddress.IPv4Network("198.18.0.0/15")
CLUSTERS = 32
MOST_NODES = 5


@dataclass(frozen=True)
class AddressPlan:
    """The addresses of cluster number `index` of this machine."""

    index: int

    def _address(self, block: int, last: int) -> str:
        return str(RANGE.network_address + self.index * 4096 + block * 256 + last)

    @property
    def whole(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"{self._address(0, 0)}/20")

    @property
    def host(self) -> str:
        return self._address(0, 1)

    @property
    def api(self) -> str:
        return self._address(0, 2)

    @property
    def dns(self) -> str:
        return self._address(0, 53)

    @property
    def exchange(self) -> str:
        return self._address(0, 254)

    @property
    def services(self) -> str:
        return f"{self._address(4, 0)}/22"

    @property
    def first_service(self) -> str:
        return self._address(4, 1)

    @property
    def pods(self) -> str:
        return f"{self._address(8, 0)}/21"

    def node(self, number: int) -> str:
        return self._address(0, 10 + number)

    def node_pods(self, number: int) -> str:
        return f"{self._address(8 + number, 0)}/24"

"""Ports to listen at; of nothing else in here, so that this is imported in no time."""

from __future__ import annotations

import socket


def opened(host: str, port: int) -> socket.socket:
    """No host means every address of the machine, of IPv4 and IPv6 alike."""
    if host:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):  # a node without IPv6
        return socket.create_server(("", port))

"""One DNS question, to see whether the cluster's DNS answers."""

from __future__ import annotations

import socket
import struct


def resolve(name: str, server: str, timeout: float = 1) -> str | None:
    """The address of a name, asked of one server; None when it does not answer or does not know."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.rstrip(".").split("."))
    question = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(timeout)
        try:
            udp.sendto(question, (server, 53))
            answer = udp.recv(512)
        except OSError:
            return None
    count = struct.unpack(">H", answer[6:8])[0]
    # The one answer we ask for is an address record at the end of the packet.
    return socket.inet_ntoa(answer[-4:]) if count else None

"""Bytes that an attacker sends: HTTP/1.1, HTTP/2 and gRPC by hand, right and wrong."""

from __future__ import annotations

import gzip
import struct
from random import Random

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
BOMB = gzip.compress(b"\0" * (256 << 20), 9)


def frame(
    kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", length: int | None = None
) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def grpc_head(encoder: Encoder, path: str, more: list[tuple[str, str]] | None = None) -> bytes:
    return encoder.encode(
        [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", path),
            (":authority", "x"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *(more or []),
        ]
    )


def grpc_message(body: bytes, size: int | None = None, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(body) if size is None else size) + body


def data_frames(stream: int, content: bytes) -> bytes:
    step = 16384
    return b"".join(frame(DATA, 0, stream, content[at : at + step]) for at in range(0, len(content), step))


def call(path: str, message: bytes, stream: int = 1) -> bytes:
    """A whole session with one call."""
    head = frame(HEADERS, END_HEADERS, stream, grpc_head(Encoder(), path))
    return PREFACE + frame(SETTINGS) + head + data_frames(stream, message) + frame(DATA, END_STREAM, stream)


def random_frames(random: Random, count: int = 20) -> bytes:
    """Frames whose kind, flags, stream, length and content have nothing to do with each other."""
    parts = [PREFACE, frame(SETTINGS)]
    for _ in range(count):
        payload = random.randbytes(random.choice((0, 1, 4, 5, 8, 9, 100, 16384)))
        length = None if random.random() < 0.8 else random.randrange(1 << 24)
        stream = random.choice((0, 1, 2, 3, 5, 2**31 - 1, 2**32 - 1, random.getrandbits(31)))
        parts.append(frame(random.randrange(12), random.getrandbits(8), stream, payload, length))
    return b"".join(parts)


def mutated(random: Random, content: bytes) -> bytes:
    """A few bytes flipped, a piece cut out, doubled, or the end missing."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 6)):
        if not changed:
            break
        at = random.randrange(len(changed))
        until = min(len(changed), at + random.randint(1, 40))
        match random.randrange(4):
            case 0:
                changed[at] = random.getrandbits(8)
            case 1:
                del changed[at:until]
            case 2:
                changed[at:at] = changed[at:until]
            case _:
                changed[at:until] = random.randbytes(until - at)
    return bytes(changed[: random.randrange(len(changed) + 1)] if random.random() < 0.2 else changed)


def post(path: str, body: bytes, more: str = "", length: object = None) -> bytes:
    size = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {size}\r\n\r\n".encode() + body


def get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def odd_requests(path: str, body: bytes) -> list[bytes]:
    """What HTTP/1.1 can be got wrong in, with lies about lengths and packed bodies among it."""
    chunked = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n".encode()
    return [
        post(path, body, length=-1),
        post(path, body, length=10**30),
        post(path, body, length="1e3"),
        post(path, body, length=len(body) + 1),
        post(path, body, "Content-Length: 3\r\n"),
        post(path, body, "Transfer-Encoding: chunked\r\n"),
        post(path, body, "Content-Type: text/html\r\n"),
        post(path, body, "Expect: 100-continue\r\n"),
        post(path, body, "Expect: the-unexpected\r\n"),
        post(path, body, "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"),
        post(path, BOMB, "Content-Encoding: gzip\r\n"),
        post(path, b"\xff" * 64, "Content-Encoding: deflate\r\n"),
        post(path, b"\xff" * 64, "Content-Encoding: br\r\n"),
        post(path, b"[" * 500_000),
        post(path, b'{"a":' * 500_000),
        post(path, b'{"request":{"uid":"\xff\xfe"}}'),
        chunked + b"\r\n" + b"zz\r\n",
        chunked + b"\r\n" + b"ffffffffffffffffffff\r\nx",
        chunked + b"\r\n" + b"1;" + b"e" * 100_000,
        chunked + b"\r\n" + b"10000\r\n" + b"\0" * 65536 + b"\r\n",
        chunked + b"\r\n" + b"0\r\n" + b"Trailer: x\r\n" * 5000,
        get("/" + "a" * 100_000),
        get("/", "X: " + "a" * 100_000 + "\r\n"),
        get("/", "".join(f"X{number}: y\r\n" for number in range(5000))),
        get("/../../etc/passwd"),
        get("/%00%ff"),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b" " * 1000 + b"HTTP/1.1\r\n\r\n",
        b"\r\n" * 5000,
        b"\0" * 10_000,
        PREFACE,
        get("/nothing") * 2000,
    ]

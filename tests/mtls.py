"""A server and clients that talk TLS as operator and sidecars do, on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.pki import NODE, OPERATOR, Issuing, secret
from valkey_operator.contract.identity import Identity
from valkey_operator.contract.mtls import Credentials, Material, Refusal, expected_peer, refusal_of
from valkey_operator.pki.authority import Pair

NOW = datetime.now(UTC)
ISSUING = Issuing(NOW)
AUTHORITY = ISSUING.authority()


def material(pair: Pair, *roots: Pair) -> Material:
    return Material(*secret(pair, *(roots or (ISSUING.root,))).values())


def node(name: str = NODE.node, issuing: Issuing = ISSUING) -> Credentials:
    return Credentials.from_bytes(material(issuing.node(name), issuing.root))


NOT_ACCEPTED = "the peer's certificate is not accepted"
OPERATORS = material(ISSUING.operator())


@dataclass
class Server:
    """Says hello to whom it expects, the refusal to others, and keeps both."""

    credentials: Credentials
    allowed: tuple[Identity, ...] = (OPERATOR,)
    port: int = 0
    met: list[Identity | Refusal] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = expected_peer(writer.get_extra_info("ssl_object"), self.allowed)
        self.met.append(peer)
        try:
            while line := await reader.readline():
                writer.write(line if not isinstance(peer, Refusal) else f"{peer}\n".encode())
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(credentials: Credentials, *allowed: Identity) -> AsyncIterator[Server]:
    server = Server(credentials, allowed or (OPERATOR,))
    credentials.on_refusal = lambda refusal: server.refused.append(str(refusal))
    context = credentials.server_context()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as opened:
        server.port = opened.sockets[0].getsockname()[1]
        yield server


async def ask(server: Server, context: ssl.SSLContext, expected: Identity = NODE) -> str:
    """What the server answers to hello, or why there is no answer, at either end."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    except ssl.SSLError as error:
        return str(refusal_of(error))
    try:
        peer = expected_peer(writer.get_extra_info("ssl_object"), [expected])
        return str(peer) if isinstance(peer, Refusal) else await exchange(reader, writer)
    except ssl.SSLError as error:
        return str(refusal_of(error))
    finally:
        writer.transport.abort()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(b"hello\n")
    return (await reader.readline()).decode().strip()


def client(shown: Material) -> ssl.SSLContext:
    return Credentials.from_bytes(shown).client_context()

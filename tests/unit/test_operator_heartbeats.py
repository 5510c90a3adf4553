"""Who may say what at the operator's port: real HTTP over real TLS, on loopback."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import aiohttp
import pytest

from tests.heartbeats import KEY, UID, Operator, lead, operator, started
from tests.mtls import ISSUING, NOW, client, material
from tests.pki import NODE, OPERATOR, SCOPE, Issuing, forged
from valkey_operator.contract.heartbeat import LARGEST, LEADER, PATH, Address
from valkey_operator.contract.identity import Scope
from valkey_operator.contract.v1 import sidecar_pb2 as contract
from valkey_operator.operator import heartbeats
from valkey_operator.pki.authority import Pair, issue_mtls_leaf
from valkey_operator.process.guests import Guests

STARTED = contract.Event(kind=contract.Event.KIND_SERVER_STARTED, message="process 7", at=1)


@dataclass(frozen=True)
class Answered:
    status: int
    text: str
    headers: dict[str, str]


@pytest.fixture
async def leader() -> AsyncIterator[Operator]:
    made = operator(1, leader=1)
    async with started(made):
        yield made


def heartbeat(sequence: int = 1, node: str = NODE.node, uid: str = UID) -> bytes:
    observation = contract.Observation(node=node, pod_uid=uid, run=1, sequence=sequence)
    return contract.Heartbeat(observation=observation, events=[STARTED]).SerializeToString()


async def post(to: Operator, pair: Pair, body: bytes, path: str = PATH) -> Answered:
    shown = client(material(pair))
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
        session.post(f"https://{to.address}{path}", ssl=shown, data=io.BytesIO(body)) as answer,
    ):
        content = await answer.read()
        return Answered(answer.status, content.decode("latin-1").strip(), dict(answer.headers))


async def test_a_node_is_heard(leader: Operator) -> None:
    answer = await post(leader, ISSUING.node(), heartbeat())
    assert answer.status == 200
    assert contract.HeartbeatAnswer.FromString(answer.text.encode()) == contract.HeartbeatAnswer()
    assert leader.observations.get(KEY) is not None
    assert list(leader.events) == [STARTED]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"\xff" * 10, 400, "the body is no heartbeat in protobuf"),
        (b"", 400, "the heartbeat holds no observation"),
        (heartbeat(node="cache-0-1"), 403, f"{NODE} does not speak for node 'cache-0-1'"),
        (heartbeat(uid="uid-0"), 409, f"the pod of node {KEY} is {UID}, not 'uid-0'"),
        (
            contract.Heartbeat(
                observation=contract.Observation(node=NODE.node, pod_uid=UID), events=[STARTED] * 1001
            ).SerializeToString(),
            400,
            "the heartbeat holds more than 1000 events",
        ),
        (b"\0" * (LARGEST + 1), 413, f"the heartbeat has more than {LARGEST} bytes"),
    ],
)
async def test_what_is_wrong_in_a_message_is_said(
    leader: Operator, body: bytes, status: int, sentence: str
) -> None:
    answer = await post(leader, ISSUING.node(), body)
    assert (answer.status, answer.text) == (status, sentence)
    assert leader.heard == []


async def test_one_that_does_not_say_how_large_it_is_has_the_same_limit(leader: Operator) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"\0" * (LARGEST // 4)

    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://{leader.address}{PATH}", ssl=client(material(ISSUING.node())), data=parts()
        ) as answer,
    ):
        assert answer.status == 413


async def test_a_replay_is_refused_and_a_newer_one_is_taken(leader: Operator) -> None:
    pair = ISSUING.node()
    statuses = [(await post(leader, pair, heartbeat(number))).status for number in (2, 2, 1, 3)]
    assert statuses == [200, 409, 409, 200]
    assert [seen.sequence for seen in leader.heard] == [2, 3]


async def test_a_node_without_a_pod_is_told_to_try_again(leader: Operator) -> None:
    leader.pods.clear()
    answer = await post(leader, ISSUING.node(), heartbeat())
    assert answer.status == 409
    assert "has no pod, or not exactly one" in answer.text


async def test_a_node_that_nobody_asks_for_is_told_so(leader: Operator) -> None:
    leader.pods.clear()
    leader.missing = heartbeats.Missing.NODE
    answer = await post(leader, ISSUING.node(), heartbeat())
    assert answer.status == 410
    assert "nobody asks for node" in answer.text


OTHER = Scope("prod", "ValkeyCluster", "other")
FOREIGN = Scope("prod", "ValkeyCluster", "cache", "example.com")


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        pytest.param(ISSUING.operator(), f"{OPERATOR} is no node", id="the operator itself"),
        pytest.param(
            ISSUING.node(scope=FOREIGN),
            f"{FOREIGN.node(NODE.node)} is of another trust domain than valkey.io",
            id="a foreign trust domain",
        ),
        pytest.param(
            ISSUING.node("cache-0-1"), f"{SCOPE.node('cache-0-1')} does not speak for node", id="a sibling"
        ),
        pytest.param(
            ISSUING.node(scope=OTHER), f"node {KEY} is {NODE}, not {OTHER.node(NODE.node)}",
            id="a node of that name of another deployment",
        ),
        pytest.param(
            forged(ISSUING.authority(OTHER), OTHER.node("x"), str(NODE), now=NOW),
            "the peer is not known: the subject of the certificate is not that of",
            id="a forgery by the authority of another deployment",
        ),
        pytest.param(
            forged(ISSUING.authority(), NODE, str(NODE), str(SCOPE.node("x")), now=NOW),
            "the peer is not known: the certificate has 2 URI names",
            id="one with two names",
        ),
    ],
)  # fmt: skip
async def test_nobody_speaks_for_another(leader: Operator, pair: Pair, sentence: str) -> None:
    answer = await post(leader, pair, heartbeat())
    assert answer.status == 403
    assert answer.text.startswith(sentence)
    assert leader.heard == []


def _expired() -> Pair:
    past = NOW - timedelta(days=30)
    return issue_mtls_leaf(Issuing.authority(ISSUING), NODE, past, timedelta(days=1))


@pytest.mark.parametrize(
    "pair",
    [pytest.param(_expired(), id="expired"), pytest.param(Issuing(NOW).node(), id="of another root")],
)
async def test_a_certificate_that_is_not_accepted_ends_in_the_handshake(leader: Operator, pair: Pair) -> None:
    with pytest.raises(aiohttp.ClientError):
        await post(leader, pair, heartbeat())
    assert leader.heard == []


async def test_without_a_certificate_nobody_gets_through_the_handshake(
    leader: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    nothing_shown = ssl.create_default_context(cadata=ISSUING.root.certificate.decode())
    nothing_shown.check_hostname = False
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            with pytest.raises(aiohttp.ClientError):
                await session.post(f"https://{leader.address}{PATH}", ssl=nothing_shown, data=heartbeat())
    assert leader.heard == []
    assert caplog.text.count("the peer shows no certificate") == 1


async def test_a_standby_names_the_leader_and_takes_nothing() -> None:
    standby = operator(2, leader=1)
    async with started(standby):
        answer = await post(standby, ISSUING.node(), heartbeat())
    assert (answer.status, answer.headers[LEADER]) == (421, f"127.0.0.1:{standby.port}")
    assert standby.heard == []


@pytest.mark.parametrize(
    "leader", ["", "valkey-operator-9_without-address", "valkey-operator-2_127.0.0.2_5eed"]
)
async def test_when_nobody_leads_that_is_said(leader: str) -> None:
    standby = operator(2)

    class Fenced:
        """Its own time has run out, and nobody else is in the lease yet."""

        leads, identity = False, "valkey-operator-2_127.0.0.2_5eed"

    fenced = Fenced()
    fenced.leader = leader  # type: ignore[attr-defined]
    standby.lead = fenced  # type: ignore[assignment]
    async with started(standby):
        answer = await post(standby, ISSUING.node(), heartbeat())
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_a_stranger_does_not_learn_who_leads() -> None:
    standby = operator(2, leader=1)
    async with started(standby):
        answer = await post(standby, ISSUING.operator(), heartbeat())
    assert (answer.status, LEADER in answer.headers) == (403, False)


async def test_the_same_mistake_is_logged_once(leader: Operator, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        await post(leader, ISSUING.node(), heartbeat(uid="uid-0"))
    await post(leader, ISSUING.node(), heartbeat(uid="uid-2"))
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert warnings[0] == f"a heartbeat of {NODE} was refused: the pod of node {KEY} is {UID}, not 'uid-0'"


async def test_a_standby_that_sends_on_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    standby = operator(2, leader=1)
    async with started(standby):
        await post(standby, ISSUING.node(), heartbeat())
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_the_memory_of_mistakes_is_bounded(leader: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MOST_WARNINGS", 3)
    made = heartbeats.Heartbeats(
        leader.lead,
        lambda _: heartbeats.Missing.POD,
        leader.observations,
        leader.grant,
        "valkey.io",
        Guests(8, 8),
    )
    for number in range(10):
        made._warn("somebody", f"mistake {number}")
    assert len(made._warned) <= 3


async def test_a_message_that_does_not_come_is_not_waited_for(
    leader: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "LIMIT", 0.2)
    reader, writer = await asyncio.open_connection(*leader.address, ssl=client(material(ISSUING.node())))
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    assert b" 408 " in await asyncio.wait_for(reader.readline(), 10)
    writer.transport.abort()
    await asyncio.sleep(0.1)


async def test_one_that_hangs_up_in_the_middle_harms_nobody(
    leader: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection(*leader.address, ssl=client(material(ISSUING.node())))
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    await writer.drain()
    writer.transport.abort()
    assert (await post(leader, ISSUING.node(), heartbeat())).status == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_there_is_nothing_else_at_this_port(leader: Operator) -> None:
    assert (await post(leader, ISSUING.node(), heartbeat(), "/metrics")).status == 404


async def test_one_that_begins_to_lead_takes_what_it_refused_before() -> None:
    standby = operator(2, leader=1)
    async with started(standby):
        assert (await post(standby, ISSUING.node(), heartbeat())).status == 421
        lead(2, standby)
        assert (await post(standby, ISSUING.node(), heartbeat())).status == 200


@pytest.mark.parametrize(
    ("identity", "address"),
    [
        ("valkey-operator-7d9f-abcde_10.0.0.7_1a2b3c4d", "10.0.0.7"),
        ("valkey-operator-7d9f-abcde_fd00:10::7_1a2b3c4d", "fd00:10::7"),
        ("valkey-operator-7d9f-abcde_1a2b3c4d", ""),
        ("valkey-operator_evil.example.com_1a2b3c4d", ""),
        ("a_b_c_d", ""),
        ("", ""),
    ],
)
def test_the_address_in_a_leaders_name(identity: str, address: str) -> None:
    assert heartbeats.pod_address(identity) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("valkey-operator.valkey-system.svc:9444", Address("valkey-operator.valkey-system.svc", 9444)),
        ("10.0.0.7:9444", Address("10.0.0.7", 9444)),
        ("[fd00::7]:9444", Address("fd00::7", 9444)),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":9444", "host:0", "host:65536", "host:x", "fd00::7:9444", "host:²"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no host with a port"):
        Address.parse(text)


async def raw(to: Operator, pair: Pair) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*to.address, ssl=client(material(pair)))


async def status(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], content: bytes) -> bytes:
    """Of the answer; nothing where the connection has ended."""
    reader, writer = streams
    try:
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"Content-Length: (\d+)", head)
        await reader.readexactly(int(size[1]) if size else 0)
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    return head[9:12]


def request(body: bytes, more: str = "") -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_node_has_a_few_connections_and_the_oldest_makes_place_for_the_next(leader: Operator) -> None:
    own = [await raw(leader, ISSUING.node()) for _ in range(heartbeats.EACH + 1)]
    other = await raw(leader, ISSUING.node("cache-0-1"))
    assert await status(other, request(heartbeat())) == b"403"
    for number, each in enumerate(own, 1):
        assert await status(each, request(heartbeat(number))) == b"200"
    assert await status(own[0], request(heartbeat(10))) == b""
    assert [await status(each, request(heartbeat(number))) for number, each in enumerate(own[1:], 10)] == [
        b"200"
    ] * 4
    assert await status(other, request(heartbeat())) == b"403"
    for _, writer in (*own, other):
        writer.transport.abort()


async def test_what_is_packed_stays_packed(leader: Operator) -> None:
    """A few bytes could be a gigabyte."""
    streams = await raw(leader, ISSUING.node())
    packed = request(gzip.compress(heartbeat()), "Content-Encoding: gzip\r\n")
    assert await status(streams, packed) == b"400"
    streams[1].transport.abort()
    assert leader.heard == []


@pytest.mark.parametrize(
    "content",
    [
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 1000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
    ],
    ids=["a bad chunk", "another HTTP", "no HTTP", "too many headers"],
)
async def test_bad_http_is_refused_and_leaves_no_stack_trace(
    leader: Operator, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    streams = await raw(leader, ISSUING.node())
    assert await status(streams, content) == b"400"
    streams[1].transport.abort()
    assert [record.message for record in caplog.records if record.exc_info] == []

"""Commands in a real pod, and connections to its ports."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.fixtures import own_namespace
from tests.caches import PATIENCE, nothing_left_running
from tests.devcluster import servers
from valkey_operator.kube import access, errors, streams
from valkey_operator.kube.client import Client, Request
from valkey_operator.kube.objects import Key, Object
from valkey_operator.kube.resources import PODS, Resource

ACCOUNTS = Resource("ServiceAccount", "serviceaccounts")
Problems = list[errors.KubeError]


@pytest.fixture(scope="module")
def pod(cluster: Cluster) -> Iterator[Key]:
    """One server for all tests of this file."""
    with own_namespace(cluster) as namespace:
        servers.start(cluster, namespace, "one")
        yield Key(namespace, "one")


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    opened = Client(access.from_kubeconfig(str(cluster.kubeconfig)))
    async with nothing_left_running(), asyncio.timeout(PATIENCE), opened as client:
        yield client


# Commands


async def test_a_command_tells_what_it_printed_and_how_it_ended(client: Client, pod: Key) -> None:
    done = await streams.execute(client, pod, ["sh", "-c", "echo yes; echo no >&2; exit 3"])
    assert done == (b"yes\n", b"no\n", 3)


async def test_a_command_that_ends_well_has_the_code_zero(client: Client, pod: Key) -> None:
    assert await streams.execute(client, pod, ["valkey-cli", "ping"], "valkey") == (b"PONG\n", b"", 0)


async def test_a_command_that_is_killed_has_the_code_of_its_signal(client: Client, pod: Key) -> None:
    assert (await streams.execute(client, pod, ["sh", "-c", "kill -KILL $$"])).exit_code == 137


async def test_a_megabyte_goes_in_and_comes_out_intact(client: Client, pod: Key) -> None:
    content = os.urandom(1024 * 1024)
    done = await streams.execute(client, pod, ["cat"], stdin=content)
    assert (done.stdout == content, done.stderr, done.exit_code) == (True, b"", 0)


async def test_an_empty_input_ends(client: Client, pod: Key) -> None:
    assert await streams.execute(client, pod, ["cat"], stdin=b"") == (b"", b"", 0)


async def test_words_reach_the_command_as_they_are(client: Client, pod: Key) -> None:
    words = ["a b", "", "&x=1", "#é%20", "--"]
    done = await streams.execute(client, pod, ["sh", "-c", 'printf "<%s>" "$@"', "sh", *words])
    assert done.stdout.decode() == "".join(f"<{word}>" for word in words)


async def test_a_terminal_takes_what_is_typed(client: Client, pod: Key) -> None:
    shown = b""
    async with streams.start(client, pod, ["sh"], stdin=True, tty=True) as running:
        await running.resize(132, 50)
        await running.send(b"test -t 0 && echo $((6 * 7)); exit 5\n")
        async for channel, content in running:
            assert channel == streams.STDOUT
            shown += content
    assert b"\r\n42\r\n" in shown.replace(b"$ ", b"")
    assert running.exit_code == 5


async def test_a_terminal_takes_the_size_it_is_given(client: Client, pod: Key) -> None:
    # bash looks at the size again after each subshell.
    loop = b"until [ $COLUMNS,$LINES = 132,50 ]; do (:); done; exit 6\n"
    async with streams.start(client, pod, ["bash", "--norc", "-i"], stdin=True, tty=True) as running:
        await running.resize(132, 50)
        await running.send(loop)
        async for _ in running:
            pass
    assert running.exit_code == 6


async def test_a_command_can_be_left_while_it_runs(client: Client, pod: Key) -> None:
    async with streams.start(client, pod, ["sh", "-c", "echo up; exec cat"], stdin=True) as running:
        async for _, content in running:
            assert content == b"up\n"
            break
    assert running.exit_code is None


async def test_sending_to_a_command_that_was_left_is_an_error(client: Client, pod: Key) -> None:
    async with streams.start(client, pod, ["cat"], stdin=True) as running:
        pass
    with pytest.raises(errors.Unreachable, match=f"run cat in pod {pod}: "):
        await running.send(b"late")


@pytest.mark.parametrize(
    ("name", "container", "kind", "said"),
    [
        ("one", "sidecar", errors.ApiError, "container sidecar is not valid for pod one"),
        ("nobody", "", errors.NotFound, 'pods "nobody" not found'),
    ],
)
async def test_where_no_command_can_run_one_sentence_says_so(
    client: Client, pod: Key, name: str, container: str, kind: type[errors.ApiError], said: str
) -> None:
    place = Key(pod.namespace, name)
    with pytest.raises(kind) as refused:
        await streams.execute(client, place, ["sh"], container)
    assert str(refused.value) == f"run sh in pod {place}: {said}"


async def test_a_program_that_is_not_there_is_named(client: Client, pod: Key) -> None:
    with pytest.raises(errors.ServerFault, match='"no-such-program": executable file not found'):
        await streams.execute(client, pod, ["no-such-program"])


@pytest.fixture
async def pending(client: Client, namespace: str) -> Key:
    """A pod that no node takes."""
    spec = {
        "nodeName": "",
        "nodeSelector": {"no": "where"},
        "containers": [{"name": "x", "image": servers.IMAGE}],
    }
    return (await client.create(PODS, namespace, {"metadata": {"name": "pending"}, "spec": spec}, Object)).key


async def test_a_pod_that_does_not_run_is_named(client: Client, pending: Key) -> None:
    with pytest.raises(errors.ApiError, match="pod pending does not have a host assigned"):
        await streams.execute(client, pending, ["sh"])


@pytest.fixture
async def nobody(client: Client, pod: Key) -> AsyncIterator[Client]:
    """Somebody without rights."""
    path = ACCOUNTS.path(Key(pod.namespace, "default"), "token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    made = await client.ask(Request("create", "POST", path, "make a token", body), dict)
    async with Client(access.with_token(client.access, made["status"]["token"])) as opened:
        yield opened


async def test_a_missing_right_to_run_is_named(nobody: Client, pod: Key) -> None:
    with pytest.raises(errors.Forbidden, match='cannot get resource "pods/exec"'):
        await streams.execute(nobody, pod, ["sh"])


async def test_a_missing_right_to_forward_is_named(nobody: Client, pod: Key, problems: Problems) -> None:
    with pytest.raises(errors.Forbidden, match='cannot get resource "pods/portforward"'):
        await streams.port_forward(nobody, pod, 6379, problems.append).__aenter__()


# Ports


@pytest.fixture
def problems() -> Iterator[Problems]:
    """What forwarding reports; a test that expects something takes it away."""
    heard: Problems = []
    yield heard
    assert heard == []


async def ask(port: int, command: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(command)
        return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_forwarded_port_answers(client: Client, pod: Key, problems: Problems) -> None:
    async with streams.port_forward(client, pod, 6379, problems.append) as port:
        assert await ask(port, b"PING\r\n") == b"+PONG\r\n"


async def test_two_connections_at_once_are_two(client: Client, pod: Key, problems: Problems) -> None:
    async with streams.port_forward(client, pod, 6379, problems.append) as port:
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in (first, second):
            writer.write(b"CLIENT ID\r\n")
        identities = {await reader.readline() for reader, _ in (first, second)}
        for _, writer in (first, second):
            writer.close()
    assert len(identities) == 2


async def test_a_large_value_passes_a_forwarded_port_intact(
    client: Client, pod: Key, problems: Problems
) -> None:
    content = os.urandom(1024 * 1024)
    async with streams.port_forward(client, pod, 6379, problems.append) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%b\r\n" % (len(content), content))
        assert await reader.readline() == b"$%d\r\n" % len(content)
        assert await reader.readexactly(len(content)) == content
        writer.close()


async def test_the_end_of_the_server_ends_the_local_connection(
    client: Client, pod: Key, problems: Problems
) -> None:
    async with streams.port_forward(client, pod, 6379, problems.append) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"QUIT\r\n")
        assert await reader.read() == b"+OK\r\n"
        writer.close()


async def test_the_end_of_forwarding_ends_open_connections(
    client: Client, pod: Key, problems: Problems
) -> None:
    async with streams.port_forward(client, pod, 6379, problems.append) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
    assert await reader.read() == b""
    writer.close()


async def test_a_port_where_nothing_listens_is_reported_and_the_next_is_tried(
    client: Client, pod: Key, problems: Problems
) -> None:
    async with streams.port_forward(client, pod, 6380, problems.append) as port:
        assert await ask(port, b"PING\r\n") == b""
        assert await ask(port, b"PING\r\n") == b""
    said = [str(problem) for problem in problems]
    problems.clear()
    assert said == [f"forward to port 6380 of pod {pod}: nothing listens there"] * 2


async def test_a_missing_pod_is_refused_before_listening(
    client: Client, pod: Key, problems: Problems
) -> None:
    with pytest.raises(errors.NotFound, match='pods "nobody" not found'):
        async with streams.port_forward(client, Key(pod.namespace, "nobody"), 6379, problems.append):
            pass


async def test_a_local_port_that_is_taken_is_named(client: Client, pod: Key, problems: Problems) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        local = taken.getsockname()[1]
        with pytest.raises(errors.Misconfigured, match=f"port {local} of this machine cannot be used: "):
            async with streams.port_forward(client, pod, 6379, problems.append, local):
                pass

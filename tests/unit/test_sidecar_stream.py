"""When a replica that has copied its primary gets what is written there, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replicas import running
from valkey_operator.sidecar.stream import Stream

DOWN = {"role": "slave", "master_link_status": "down"}
UP = {"role": "slave", "master_link_status": "up"}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")  # short: a socket's path has a limit


@pytest.mark.parametrize("version", ["8.0", "8.1", "9.1"])
async def test_a_replica_that_has_just_copied_gets_what_is_written(folder: Path, version: str) -> None:
    """By itself it does after a second, now and then."""
    async with running(folder, version) as (primary, replica):
        await replica.pod.starts()
        connection = await primary.connect()
        try:
            await connection.call("SET", "key", "1")
            assert await connection.call("WAIT", 1, 500) == 1
        finally:
            connection.close()


def test_the_word_is_said_when_the_link_comes_up_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    stream = Stream()
    for info in (None, {"role": "master"}):
        stream.see(info)
        assert not stream.is_near
    stream.see(DOWN)
    assert (stream.needs_word, stream.is_near) == (False, True)
    now += 1.0
    stream.see(UP)
    assert (stream.needs_word, stream.is_near) == (True, True)
    now += 1.0
    stream.see(UP)
    assert (stream.needs_word, stream.is_near) == (False, False)
    now += 60.0
    stream.see(DOWN)
    assert not stream.is_near  # for as long as that lasts
    stream.see(UP)
    assert stream.needs_word

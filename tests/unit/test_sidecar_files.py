"""The notes beside the server's files: what is in force, and which run of the sidecar this is."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from tests.sidecar_program import CONFIG, USERS, prepare, settings
from valkey_operator.sidecar import files
from valkey_operator.valkey import config_file


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_is_in_force_is_what_the_server_has_read_not_what_is_mounted(tmp_path: Path) -> None:
    prepare(place := settings(tmp_path, "operator:9444"))
    assert files.in_force(place) == {}
    files.write(place, place.node)
    (place.config / "valkey.conf").write_text(CONFIG + "maxmemory 1gb\n")
    (place.users / "users.acl").write_text(USERS + "user more on nopass\n")
    files.write_users(place)  # and the server refuses to load them
    assert files.in_force(place) == config_file.parse(CONFIG)
    assert files.users_in_force(place) == sha256(USERS)
    files.note_users(place)
    assert files.users_in_force(place) == sha256(USERS + "user more on nopass\n")


def test_a_clock_that_is_put_back_makes_no_run_look_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(place := settings(tmp_path, "operator:9444"))
    first = files.begin_run(place)
    assert abs(first - time.time() * 1000) < 60_000
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    assert [files.begin_run(place), files.begin_run(place)] == [first + 1, first + 2]

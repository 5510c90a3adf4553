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


def test_the_servers_of_a_cluster_are_told_where_they_are_and_follow_nobody_by_the_file(
    tmp_path: Path,
) -> None:
    prepare(place := settings(tmp_path, "operator:9444"))
    (place.config / "valkey.conf").write_text(CONFIG + "cluster-enabled yes\n")
    files.write(place, "another")
    said = config_file.parse((place.run / "valkey.conf").read_text())
    assert said["cluster-announce-ip"] == place.pod_ip
    assert said["cluster-announce-hostname"] == place.server_of(place.node)[0]
    assert "replicaof" not in said


def test_a_clock_that_is_put_back_makes_no_run_look_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(place := settings(tmp_path, "operator:9444"))
    first = files.begin_run(place)
    assert abs(first - time.time() * 1000) < 60_000
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    assert [files.begin_run(place), files.begin_run(place)] == [first + 1, first + 2]

"""Files that are read only when they have changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from valkey_operator.sidecar.parsed import parsed


def replace(file: Path, content: str) -> None:
    arriving = file.with_name("new")
    arriving.write_text(content)
    arriving.rename(file)


def test_a_file_is_read_again_only_when_another_is_there(tmp_path: Path) -> None:
    file = tmp_path / "f"
    replace(file, '{"a": 1}')
    first = parsed(tmp_path, "f", json.loads)
    assert parsed(tmp_path, "f", json.loads) is first
    replace(file, '{"a": 2}')
    assert parsed(tmp_path, "f", json.loads) == {"a": 2}


def test_one_of_the_same_length_written_in_place_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("1")
    assert parsed(tmp_path, "f", int) == 1
    file.write_text("2")
    os.utime(file, ns=(1, 1))
    assert parsed(tmp_path, "f", int) == 2


def test_the_mount_of_a_config_map_is_followed(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f").write_text(version)
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "f").symlink_to("data/f")
    assert parsed(tmp_path, "f", int) == 1
    (tmp_path / "arriving").symlink_to("2")
    (tmp_path / "arriving").rename(tmp_path / "data")
    assert parsed(tmp_path, "f", int) == 2


def test_a_file_that_is_gone_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("1")
    parsed(tmp_path, "f", int)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        parsed(tmp_path, "f", int)

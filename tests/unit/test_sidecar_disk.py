"""What the sidecar reads from the volume, and the notes it leaves there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from valkey_operator.model.gate import Disk, Lineage, Record
from valkey_operator.render.scripts import SUPERVISOR
from valkey_operator.sidecar.disk import Kept, Volume, read_snapshot_facts


def text(word: str) -> bytes:
    return bytes([len(word)]) + word.encode()


def snapshot(**facts: str) -> bytes:
    head = b"REDIS0011"
    for name, value in facts.items():
        head += b"\xfa" + text(name.replace("_", "-")) + text(value)
    return head + b"\xfe\x00\xff"


def test_the_head_of_a_snapshot_tells_its_history(tmp_path: Path) -> None:
    file = tmp_path / "dump.rdb"
    file.write_bytes(snapshot(valkey_ver="9.1.2", repl_id="a" * 40, repl_offset="4711"))
    assert read_snapshot_facts(file)["repl-id"] == "a" * 40
    assert read_snapshot_facts(file)["repl-offset"] == "4711"


def test_numbers_in_it_may_be_packed(tmp_path: Path) -> None:
    file = tmp_path / "dump.rdb"
    head = b"REDIS0011" + b"\xfa" + text("a") + b"\xc0\x40" + b"\xfa" + text("b") + b"\xc1\x00\x01"
    file.write_bytes(head + b"\xfa" + text("repl-offset") + b"\xc2\x15\xcd\x5b\x07" + b"\xff")
    assert read_snapshot_facts(file) == {"a": "64", "b": "256", "repl-offset": "123456789"}


@pytest.mark.parametrize("content", [b"", b"REDIS", b"REDIS0011", b"REDIS0011\xfa\x3f", b"\x00" * 100])
def test_a_broken_snapshot_tells_nothing_and_harms_nobody(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "dump.rdb"
    file.write_bytes(content)
    assert read_snapshot_facts(file) == {}


SNAPSHOTS = Kept(snapshots=True)
LOG = Kept(appendonly=True, synced_always=True)


def log(folder: Path) -> None:
    (folder / "appendonlydir").mkdir()
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("file x seq 1 type b")


def test_an_empty_volume_has_nothing(tmp_path: Path) -> None:
    assert Volume(tmp_path).seen(appendonly=False) == Disk()
    assert Volume(tmp_path).seen(appendonly=True) == Disk()


def test_a_clean_stop_is_one_until_the_next_start(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.note_start(SNAPSHOTS)
    (tmp_path / "dump.rdb").write_bytes(snapshot())
    assert volume.seen(appendonly=False) == Disk(has_data=True)
    volume.note_clean_stop()
    assert Volume(tmp_path).seen(appendonly=False).is_complete
    volume.note_start(SNAPSHOTS)
    assert not Volume(tmp_path).seen(appendonly=False).is_complete


def test_with_an_append_only_file_the_snapshot_is_not_the_data(tmp_path: Path) -> None:
    """A server with `appendonly yes` and only a dump.rdb starts empty."""
    volume = Volume(tmp_path)
    volume.note_start(LOG)
    (tmp_path / "dump.rdb").write_bytes(snapshot())
    assert not volume.seen(appendonly=True).has_data
    log(tmp_path)
    seen = volume.seen(appendonly=True)
    assert seen.has_data
    assert seen.has_append_only_file
    assert seen.is_complete


def test_a_log_beside_which_a_new_one_is_begun_is_not_the_data_until_the_next_start(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.note_start(LOG)
    log(tmp_path)
    (tmp_path / "appendonlydir" / "temp-appendonly.aof.incr").write_text("")
    assert volume.seen(appendonly=True) == Disk()
    assert volume.starts_with_log(True)
    volume.note_start(LOG)
    assert volume.seen(appendonly=True).is_complete


def test_what_the_next_server_will_not_load_is_not_data(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.note_start(LOG)
    log(tmp_path)
    assert volume.seen(appendonly=True).is_complete
    assert volume.seen(appendonly=False) == Disk()


def test_what_the_last_run_did_not_keep_is_not_data(tmp_path: Path) -> None:
    """A snapshot of an earlier configuration may be a year old, however clean the last stop was."""
    (tmp_path / "dump.rdb").write_bytes(snapshot())
    log(tmp_path)
    volume = Volume(tmp_path)
    volume.note_start(Kept())
    volume.note_clean_stop()
    assert not volume.seen(appendonly=False).has_data
    assert not volume.seen(appendonly=True).has_data


def test_what_somebody_has_put_on_a_new_volume_is_data(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(snapshot())
    seen = Volume(tmp_path).seen(appendonly=False)
    assert seen.has_data
    assert not seen.is_complete


def test_a_full_disk_keeps_no_server_from_starting_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(tmp_path)
    volume.note_start(LOG)
    volume.note_record(Record(7, "a"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("json.dump", full)
    volume.note_start(LOG)
    volume.note_record(Record(7, "a"))
    with pytest.raises(OSError, match="No space left"):
        volume.note_record(Record(8, "b"))
    assert volume.record == Record(7, "a")


def test_the_lineage_of_the_last_run_is_remembered(tmp_path: Path) -> None:
    Volume(tmp_path).note_lineage(Lineage("b", "a", 100))
    assert Volume(tmp_path).lineage == Lineage("b", "a", 100)
    assert Lineage("b", "a", 100).holds(Disk(history="b", offset=900))
    assert Lineage("b", "a", 100).holds(Disk(history="a", offset=100))
    assert not Lineage("b", "a", 100).holds(Disk(history="a", offset=101))
    assert not Lineage("b", "a", 100).holds(Disk(history="c"))
    assert not Lineage().holds(Disk())


def test_the_record_outlives_the_sidecar_and_garbage_is_no_record(tmp_path: Path) -> None:
    Volume(tmp_path).note_record(Record(7, "a"))
    assert Volume(tmp_path).record == Record(7, "a")
    (tmp_path / ".valkey-operator" / "record").write_text("{half")
    assert Volume(tmp_path).record == Record()


def test_of_two_pods_of_one_node_one_has_the_volume(tmp_path: Path) -> None:
    first, second = Volume(tmp_path), Volume(tmp_path)
    assert first.lock()
    assert first.lock()
    assert not second.lock()
    assert first._lock is not None
    os.close(first._lock)
    assert second.lock()


def test_a_lock_of_our_own_may_have_the_number_of_the_supervisors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_one = os.open(tmp_path, os.O_RDONLY)
    os.close(next_one)
    monkeypatch.setattr("valkey_operator.sidecar.disk.LOCK", next_one)
    volume = Volume(tmp_path)
    assert volume.lock()
    assert volume._lock == next_one


TAKE_AND_END = """
import pathlib, sys
from valkey_operator.sidecar.disk import Volume
sys.exit(0 if Volume(pathlib.Path(sys.argv[1])).lock() else 1)
"""


def test_a_lock_is_held_while_the_next_sidecar_starts(tmp_path: Path) -> None:
    """By the very lines of the supervisor: it opens the file, and each sidecar inherits it."""
    opening = [line for line in SUPERVISOR.splitlines() if "lock" in line]
    script = "\n".join([*opening, f'"{sys.executable}" -c "$1" "$2"', "echo $?", "read -r _", ""])
    script = script.replace("/data/", f"{tmp_path}/")
    with subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", TAKE_AND_END, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as supervisor:  # fmt: skip
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "0\n"
        # That sidecar has ended, and its supervisor still lives.
        assert not Volume(tmp_path).lock()
        supervisor.communicate("\n", timeout=10)
    assert Volume(tmp_path).lock()


@pytest.mark.parametrize(
    ("last", "wanted", "files", "starts"),
    [
        (None, True, [], True),
        (None, False, [], False),
        (True, True, ["log"], True),
        (False, True, ["snapshot"], False),
        (False, True, ["log"], False),
        (False, True, ["log", "snapshot"], False),
        (False, True, [], True),
        (True, False, ["log"], True),
        (True, False, [], False),
        (None, True, ["log"], True),
    ],
)
def test_a_server_starts_from_what_the_last_one_has_written(
    tmp_path: Path, last: bool | None, wanted: bool, files: list[str], starts: bool
) -> None:
    volume = Volume(tmp_path)
    if last is not None:
        volume.note_start(Kept(snapshots=True, appendonly=last))
    (tmp_path / "appendonlydir").mkdir()
    if "log" in files:
        (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("x")
    if "snapshot" in files:
        (tmp_path / "dump.rdb").write_text("x")
    assert volume.starts_with_log(wanted) is starts

"""`kubectl valkey convert` as people type it: where manifests come from, and how it ends."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command_line import typed

DRAFT = """\
apiVersion: valkey.io/v1alpha1
kind: ValkeyCluster
metadata: {name: NAME}
spec: {masterCount: 3, replicasPerMaster: 1, pvc: {storageSize: 1Gi}}
"""
LOSSY = DRAFT.replace("masterCount: 3", "masterCount: 3, turbo: true")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str:
    """The exit code, or the sentence that ends it with 1."""
    return typed(monkeypatch, "convert", *arguments)


def coming_in(content: bytes) -> io.TextIOWrapper:
    """Read as the terminal's own text it would be another."""
    return io.TextIOWrapper(io.BytesIO(content), "latin-1")


def names(text: str) -> list[str]:
    return [found["metadata"]["name"] for found in yaml.safe_load_all(text)]


def test_files_folders_and_what_comes_in_are_read_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "b.yml").write_text(DRAFT.replace("NAME", "b"))
    (folder / "deep" / "a.yaml").write_text(DRAFT.replace("NAME", "a"))
    (folder / "deep" / "notes.txt").write_text("no manifest")
    (folder / "deep" / "deeper" / "c.yaml").write_text(DRAFT.replace("NAME", "c"))
    (folder / "one.yaml").write_text(DRAFT.replace("NAME", "one"))
    monkeypatch.setattr(sys, "stdin", coming_in(DRAFT.replace("NAME", "in").encode()))
    assert run(monkeypatch, "-f", "one.yaml", "-f", "deep", "-f", "-") == 0
    assert names(capsys.readouterr().out) == ["one", "a", "b", "in"]
    assert run(monkeypatch, "-R", "-f", "deep") == 0
    assert names(capsys.readouterr().out) == ["a", "b", "c"]


def test_what_cannot_be_carried_over_ends_with_3_and_still_shows_the_rest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.yaml").write_text(LOSSY.replace("NAME", "x"))
    assert run(monkeypatch, "-f", "x.yaml") == 3
    strict = capsys.readouterr()
    assert names(strict.out) == ["x"]
    assert strict.err == "not carried over: x.yaml:1: ValkeyCluster x: spec.turbo: nobody knows this field\n"
    assert run(monkeypatch, "-f", "x.yaml", "--lenient") == 0
    assert capsys.readouterr() == strict


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("gone.yaml", "kubectl valkey: gone.yaml cannot be read: No such file or directory"),
        ("empty", "kubectl valkey: empty has no file that ends in .yaml, .yml, .json"),
        ("binary.yaml", "kubectl valkey: binary.yaml cannot be read: it is no text in UTF-8"),
        ("nothing.yaml", "kubectl valkey: there is no object in nothing.yaml"),
        ("bad.yaml", "kubectl valkey: bad.yaml:2: this is no YAML: mapping values are not allowed here"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, said: str
) -> None:
    (folder / "empty").mkdir()
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / "nothing.yaml").write_text("# nothing\n---\n")
    (folder / "bad.yaml").write_text("a: b\n c: d\n")
    assert run(monkeypatch, "-f", file) == said


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("given", "said"), [(b"\xff\xfe\x00", "it is no text in UTF-8"), (None, "it is closed")]
)
def test_what_comes_in_and_cannot_be_read_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, given: bytes | None, said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", coming_in(given) if given else None)
    assert run(monkeypatch, "-f", "-") == f"kubectl valkey: standard input cannot be read: {said}"


@pytest.mark.parametrize("hidden", ["locked", "locked/x.yaml", "open"])
def test_what_one_may_not_look_into_is_told_and_not_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    """Whoever runs the tests may look everywhere: the refusals are played."""
    (folder / "open" / "locked").mkdir(parents=True)
    (folder / "open" / "a.yaml").write_text(DRAFT.replace("NAME", "a"))

    def is_dir(path: Path) -> bool:
        if path.parts[0] == "locked":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return path.name == "open"

    def scandir(path: str | Path) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scanned(path)

    scanned = os.scandir
    monkeypatch.setattr(Path, "is_dir", is_dir)
    monkeypatch.setattr(os, "scandir", scandir)
    place = "open/locked" if hidden == "open" else hidden
    said = f"kubectl valkey: {place} cannot be read: Permission denied"
    assert run(monkeypatch, "-R", "-f", hidden) == said


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", [[], ["-f", "x", "--from", "somebody"], ["x.yaml"]])
def test_a_wrong_usage_ends_with_2(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    assert run(monkeypatch, *arguments) == 2

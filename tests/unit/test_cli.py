"""What the command line says when a cluster cannot be asked, and how little it loads when none is needed."""

from __future__ import annotations

import argparse
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from tests.command_line import typed
from valkey_operator.cli import completion, main
from valkey_operator.cli.command import Command

LOADED = "import sys, valkey_operator.cli.main; print(sorted({'aiohttp', 'asyncio', 'msgspec'} & set(sys.modules)))"


MAY_NOT = 'valkeys.valkey.io "x" is forbidden: User "u" cannot get resource "valkeys"'
ASKED = (["effective", "valkey", "x"], ["status", "x"], ["status", "x", "--watch"], ["switchover", "x"])


class NoSuchKind(http.server.BaseHTTPRequestHandler):
    """An API server without our CRDs."""

    def do_GET(self) -> None:
        self.send_error(404, "404 page not found")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        """Say nothing."""


class Forbids(NoSuchKind):
    """An API server that knows who asks, and does not let them."""

    def do_GET(self) -> None:
        content = json.dumps(
            {"kind": "Status", "code": 403, "reason": "Forbidden", "message": MAY_NOT}
        ).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Knows(NoSuchKind):
    """An API server with one Valkey and some defaults; it lists where no name is given, and hides a namespace."""

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "elsewhere": {"image": "elsewhere:1"},
        "default": {"image": "own:1"},
    }

    def do_GET(self) -> None:
        *_, namespace, plural, name = self.path.partition("?")[0].split("/")
        if namespace == "hidden":
            return Forbids.do_GET(self)  # type: ignore[arg-type]
        spec = (
            self.DEFAULTS.get(namespace) if plural == "valkeyclusterdefaults" else {"labels": {"a.b/c": "d"}}
        )
        metadata = {"name": name, "namespace": namespace, "uid": "1", "resourceVersion": "1"}
        found: Any = {"kind": "Valkey", "metadata": metadata, "spec": spec}
        if not name:
            found = {"kind": "ValkeyList", "metadata": {"resourceVersion": "1"}, "items": []}
        if spec is None:
            found = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
        content = json.dumps(found).encode()
        self.send_response(200 if spec is not None else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        return None


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    kind = getattr(request, "param", NoSuchKind)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def said(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch, question: list[str]) -> str:
    content = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
    }
    (folder / "config").write_text(yaml.safe_dump(content))
    return str(typed(monkeypatch, *question, "--kubeconfig", str(folder / "config")))


@pytest.mark.parametrize("question", ASKED)
def test_a_cluster_without_our_kinds_is_told_from_a_missing_object(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: list[str]
) -> None:
    expected = "kubectl valkey: the cluster knows no Valkey: its CRDs are not installed"
    assert said(server, tmp_path, monkeypatch, question) == expected


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("server", [Forbids], indirect=True)
def test_who_may_not_look_is_told_what_is_missing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: list[str]
) -> None:
    expected = f"kubectl valkey: get valkeys.valkey.io default/x: {MAY_NOT}"
    assert said(server, tmp_path, monkeypatch, question) == expected


NONE_FOUND = (
    "no defaults were found in valkey-system: if the operator runs elsewhere, say --operator-namespace\n"
)


@pytest.mark.parametrize("server", [Knows], indirect=True)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], NONE_FOUND),
        (["--operator-namespace", "elsewhere"], ""),
        (["--operator-namespace", "nowhere"], ""),
        (
            ["--operator-namespace", "hidden"],
            "defaults of hidden, if there are any, are left out: get valkeyclusterdefaults.valkey.io "
            f"hidden/defaults: {MAY_NOT}\n",
        ),
    ],
)
def test_defaults_that_are_not_found_or_may_not_be_seen_are_not_left_out_in_silence(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    options: list[str], told: str,
) -> None:  # fmt: skip
    assert said(server, tmp_path, monkeypatch, ["effective", "valkey", "x", *options]) == "0"
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["image", "own:1", "defaults", "of", "default"] in rows
    assert ['labels["a.b/c"]', "d", "spec"] in rows
    assert shown.err == told


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize("server", [Knows], indirect=True)
@pytest.mark.parametrize("question", [*ASKED, ["reshard", "x"], ["cancel", "x"]])
def test_a_name_that_names_nothing_is_a_wrong_usage(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    question: list[str], name: str,
) -> None:  # fmt: skip
    asked = [name if word == "x" else word for word in question]
    assert said(server, tmp_path, monkeypatch, asked) == "2"
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"argument name: {name!r} is no name")


def test_the_proxy_of_the_environment_is_asked(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stands in for a proxy: it hears of a host that nobody knows."""
    monkeypatch.setenv("HTTP_PROXY", server)
    answer = said("http://nowhere.invalid", tmp_path, monkeypatch, ["status", "x"])
    assert answer == "kubectl valkey: the cluster knows no Valkey: its CRDs are not installed"
    monkeypatch.setenv("NO_PROXY", "nowhere.invalid")
    direct = said("http://nowhere.invalid", tmp_path, monkeypatch, ["status", "x"])
    assert "cannot connect to nowhere.invalid:80" in direct


@pytest.mark.parametrize("question", ASKED)
def test_a_cluster_that_cannot_be_reached_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: list[str]
) -> None:
    words = said("http://127.0.0.1:1", tmp_path, monkeypatch, question)
    assert words.startswith(
        "kubectl valkey: get valkeys.valkey.io default/x: cannot connect to 127.0.0.1:1: "
    )
    assert words.endswith("; look at `kubectl cluster-info`")


def test_commands_that_need_no_cluster_do_not_load_what_talks_to_one() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", main.COMMANDS, ids=lambda command: command.name)
def test_every_command_is_explained_and_completed(command: Command) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/kubectl-valkey.md").read_text()
    assert any(command.name in line for line in page.splitlines() if line.startswith("## "))
    assert command.name in completion.COMMAND.run(argparse.Namespace()).text

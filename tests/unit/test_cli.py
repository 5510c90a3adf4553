"""What the command line says when a cluster cannot be asked, and how little it loads when none is needed."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from valkey_operator.cli import main

LOADED = "import sys, valkey_operator.cli.main; print(sorted({'aiohttp', 'asyncio', 'msgspec'} & set(sys.modules)))"


class NoSuchKind(http.server.BaseHTTPRequestHandler):
    """An API server without our CRDs."""

    def do_GET(self) -> None:
        self.send_error(404, "404 page not found")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NoSuchKind) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def said(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    content = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
    }
    (folder / "config").write_text(yaml.safe_dump(content))
    asked = ["kubectl-valkey", "effective", "valkey", "x", "--kubeconfig", str(folder / "config")]
    monkeypatch.setattr(sys, "argv", asked)
    with pytest.raises(SystemExit) as ended:
        main.main()
    return str(ended.value.code)


def test_a_cluster_without_our_kinds_is_told_from_a_missing_object(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = "kubectl valkey: the cluster knows no Valkey: its CRDs are not installed"
    assert said(server, tmp_path, monkeypatch) == expected


def test_a_cluster_that_cannot_be_reached_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = said("http://127.0.0.1:1", tmp_path, monkeypatch)
    assert words.startswith(
        "kubectl valkey: get valkeys.valkey.io default/x: cannot connect to 127.0.0.1:1: "
    )
    assert words.endswith("; look at `kubectl cluster-info`")


def test_commands_that_need_no_cluster_do_not_load_what_talks_to_one() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

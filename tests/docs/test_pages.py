"""Every command of the pages is typed on a cluster, and has to show what the page says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.provider import checkout
from tests.docs.console import Command, blocks, commands
from tests.e2e.conftest import PLACE, operator

__all__ = ["operator"]

DOCS = checkout() / "docs"
TYPED = [
    "tutorial.md",
    "how-to/scale.md",
    "how-to/change-and-roll.md",
    "how-to/find-out-what-is-wrong.md",
    "how-to/come-from-elsewhere.md",
]
# Those that use files of this repository are typed in it, others where there is nothing.
IN_CHECKOUT = {"tutorial.md"}
# Blocks that are no commands.
READ = {"console", "yaml", "text", "python", "json", ""}
# Commands that nobody types, and of which the page says so: what brings up the cluster that the test begins with.
UNTYPED = {"tutorial.md": "make up\nmake shell\n"}


@pytest.fixture
def defaults(operator: Cluster) -> Iterator[None]:
    """Where nothing can be pulled, as `make up` has them."""
    kind = ("valkeyclusterdefaults", "--namespace", PLACE)
    before = operator.kubectl("get", *kind, "--output=name")
    operator.kubectl("apply", "-f", checkout() / "deploy" / "devcluster.yaml")
    yield
    if not before:
        operator.kubectl("delete", *kind, "--all")


@pytest.fixture
def environment(operator: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell with kubectl and our plugin, and a kubeconfig that a page may change; what a page leaves is deleted."""
    before = set(operator.kubectl("get", "namespaces", "--output=name").split())
    kubeconfig = tmp_path / "kubeconfig"
    shutil.copyfile(operator.kubeconfig, kubeconfig)
    programs = Path(operator.kubectl.program).parent
    yield {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": f"{programs}:{os.environ['PATH']}"}
    left = set(operator.kubectl("get", "namespaces", "--output=name").split()) - before
    if left:
        operator.kubectl("delete", *left, "--wait=false")


def typed(those: list[Command], environment: dict[str, str], place: Path | None = None) -> None:
    """One after the other; each has to succeed and to print what the page says."""
    for command in those:
        done = subprocess.run(
            ["bash", "-c", command.text],
            env=environment, cwd=place or checkout(), capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"line {command.line}: `{command.text}` failed: {done.stdout}{done.stderr}"
        )
        assert not (wrong := command.differs(done.stdout)), wrong


@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize("page", TYPED)
def test_a_page_can_be_followed_word_by_word(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    those = commands(DOCS / page)
    assert those, f"{page} has no commands"
    typed(those, environment, None if page in IN_CHECKOUT else tmp_path)


@pytest.mark.parametrize("page", TYPED)
def test_a_page_has_no_command_that_nobody_tries(page: str) -> None:
    found = blocks((DOCS / page).read_text())
    assert {language for language, _, _ in found} <= READ, f"{page}: commands belong into ```console"
    assert "".join(text for language, _, text in found if language == "text") == UNTYPED.get(page, "")

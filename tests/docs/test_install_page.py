"""The page on installing, typed on a cluster without an operator: each of its ways, one after the other."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import Cluster
from devcluster.command import CommandFailed
from tests.docs.console import Command, blocks, commands_of
from tests.docs.test_pages import DOCS, READ, typed
from tests.e2e.conftest import CHART, INSTALL, PLACE, RELEASE, RESTRICTED, Place, charts_of, operator
from tests.operator_image import load_as

__all__ = ["operator"]

PAGE = DOCS / "how-to" / "install.md"


def section(title: str) -> list[list[Command]]:
    """Of each block of commands below this heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no section {title}"
    return [commands_of(line, text) for language, line, text in blocks(found[1]) if language == "console"]


@pytest.fixture
def bare(operator: Cluster, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell for a cluster without an operator, on which the image of this chart can be had."""
    charts = charts_of(operator)
    load_as(operator, yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"], tmp_path)
    if left := deployments(operator):
        pytest.skip(f"the page deletes all deployments of the cluster, and there are {left}")
    charts("uninstall", *RELEASE, "--wait", "--cascade=foreground", "--timeout=180s")
    programs = [str(Path(program).parent) for program in (operator.kubectl.program, charts.program)]
    shutil.copyfile(operator.kubeconfig, tmp_path / "kubeconfig")
    yield {
        **os.environ,
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PATH": ":".join([*programs, os.environ["PATH"]]),
    }
    charts(*INSTALL, "--create-namespace", "--take-ownership", "--reset-values", "--wait")
    operator.kubectl("label", "namespace", PLACE, RESTRICTED, "--overwrite")


def deployments(cluster: Cluster) -> list[str]:
    """Those that nobody is deleting."""
    place = Place(cluster, "default")
    going = {
        each["metadata"]["name"]
        for each in json.loads(place.kubectl("get", "namespaces", "--output=json"))["items"]
        if "deletionTimestamp" in each["metadata"]
    }

    def found() -> list[dict[str, str]]:
        kinds = ("valkeys,valkeyclusters", "--all-namespaces", "--output=json")
        return [each["metadata"] for each in json.loads(cluster.kubectl("get", *kinds))["items"]]

    place.eventually(lambda: not any(each["namespace"] in going for each in found()), 240)
    return [f"{each['namespace']}/{each['name']}" for each in found()]


def test_the_page_can_be_followed_word_by_word(operator: Cluster, bare: dict[str, str]) -> None:
    (everywhere,), (some,), (plain, plain_upgrade) = map(
        section, ("For all namespaces", "For some namespaces", "Without Helm")
    )
    (upgrade,), (uninstall, remove) = map(section, ("Upgrade", "Uninstall"))
    for block in (everywhere, upgrade, uninstall, some, upgrade, uninstall):
        typed(block, bare)
    operator.kubectl("delete", "namespace", "team-a", "team-b", PLACE)
    operator.kubectl("delete", "--filename=deploy/crds")
    typed(plain, bare)
    # Where there are some of that name already, be they whose they may, nothing is overwritten.
    with pytest.raises(CommandFailed, match="AlreadyExists"):
        operator.kubectl("create", "--filename=deploy/crds")
    typed(plain_upgrade, bare)
    operator.kubectl("delete", "--filename=deploy/install.yaml", "--cascade=foreground")
    operator.kubectl("delete", "namespace", PLACE)
    charts_of(operator)(*INSTALL, "--create-namespace", "--take-ownership", "--wait")
    typed(remove, bare)
    assert "valkey.io" not in operator.kubectl("get", "crds", "--output=name")


def test_it_has_no_command_that_nobody_tries() -> None:
    assert {language for language, _, _ in blocks(PAGE.read_text())} <= READ

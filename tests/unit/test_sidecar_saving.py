"""What a server of a cluster does that cannot write down what it knows of the others, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster_servers import servers
from valkey_operator.sidecar import saving
from valkey_operator.valkey.cluster import SAVING


@pytest.mark.parametrize(
    ("version", "behaviours"), [("9.1", ["best-effort", "sync"]), ("8.0", ["", ""])], ids=["9.1", "8.0"]
)
async def test_a_server_is_told_to_go_on_while_its_volume_is_full(
    tmp_path_factory: pytest.TempPathFactory, version: str, behaviours: list[str]
) -> None:
    folder: Path = tmp_path_factory.mktemp("s")  # short: a socket's path has a limit
    async with servers(folder, ["a"], version=version) as everyone:
        a, said = everyone["a"], []
        for is_full in (True, False):
            await a.view()
            await saving.look(a.running_server(), a.directive, is_full=is_full)
            said.append((await a.view()).saving)
        assert said == behaviours


async def test_what_a_person_has_chosen_holds(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with servers(tmp_path_factory.mktemp("s"), ["a"], version="9.1") as everyone:
        a = everyone["a"]
        for is_full in (True, False):
            await a.view()
            await saving.look(
                a.running_server(), lambda name, _: {SAVING: "best-effort"}[name], is_full=is_full
            )
            assert (await a.view()).saving == "best-effort"

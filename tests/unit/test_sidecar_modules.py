"""Modules of the server's image: found in a folder, loaded by a real server, and reported."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sidecar_program import prepare, settings
from tests.unit.test_sidecar_server import VERSIONS, real
from valkey_operator.sidecar import files, modules, observer

# The least that a server takes for a module: it says its name.
SOURCE = """
int ValkeyModule_OnLoad(void **context, void **words, int count) {
    int (*get)(const char *, void *) = (int (*)(const char *, void *))context[0];
    void (*set)(void *, const char *, int, int) = 0;
    (void)words; (void)count;
    if (get("ValkeyModule_SetModuleAttribs", (void *)&set)) return 1;
    set(context, "smallest", 1, 1);
    return 0;
}
"""


def image(root: Path, *names: str) -> Path:
    folder = root / "usr/lib/valkey"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return root


def test_every_library_in_the_folder_is_a_module(tmp_path: Path) -> None:
    root = image(tmp_path, "libsearch.so", "libjson.so", "README")
    assert modules.found(root) == ("/usr/lib/valkey/libjson.so", "/usr/lib/valkey/libsearch.so")


def test_an_image_without_the_folder_has_none(tmp_path: Path) -> None:
    assert modules.found(tmp_path) == ()
    assert modules.found(Path("/proc", str(os.getpid()), "root", "nowhere")) == ()


def test_they_are_loaded_by_the_configuration_and_none_twice(tmp_path: Path) -> None:
    prepare(place := settings(tmp_path, "operator:9444"))
    (place.config / "valkey.conf").write_text("port 0\nloadmodule /usr/lib/valkey/a.so with words\n")
    files.write(place, place.node, modules=["/usr/lib/valkey/a.so", "/usr/lib/valkey/b.so"])
    written = (place.run / "valkey.conf").read_text().splitlines()
    assert [line for line in written if line.startswith("loadmodule")] == [
        "loadmodule /usr/lib/valkey/a.so with words",
        "loadmodule /usr/lib/valkey/b.so",
    ]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    source, made = tmp_path / "m.c", tmp_path / "m.so"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True, timeout=60)
    return made


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_reports_the_module_it_has_loaded(tmp_path: Path, version: str, library: Path) -> None:
    async with real(tmp_path, version, "--loadmodule", str(library)) as running:
        assert "smallest" in running.modules
        assert "smallest" in observer.server(running.info, running.modules).modules

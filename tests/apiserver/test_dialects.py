"""What `kubectl valkey convert` makes of every dialect is taken by a real API server that has our CRDs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from valkey_operator.dialects.convert import convert
from valkey_operator.dialects.reading import read

FIXTURES = Path(__file__).parents[1] / "fixtures" / "dialects"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.yaml"))
# Everything of theirs is left out, so nothing is to be applied.
EMPTY = {"draft-bundle-rotation", "draft-status", "official-node", "ours-refused", "smoketurner-incomplete"}
# They hold an object that is not ours and that no API server takes.
ODD = {"ours-untouched"}


def converted(name: str) -> str:
    return convert(read((FIXTURES / f"{name}.yaml").read_text(), name)).text


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EMPTY | ODD])
def test_what_was_converted_is_accepted(crds: Cluster, namespace: str, name: str) -> None:
    text = converted(name).replace("namespace: shop", f"namespace: {namespace}")
    text = text.replace("namespace: ops", f"namespace: {namespace}")
    made = crds.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-n",
        namespace,
        "-f",
        "-",
        stdin=text,
    )
    assert len(made.splitlines()) == text.count("\nkind: ")


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_what_is_left_out_leaves_nothing_to_apply(name: str) -> None:
    assert converted(name) == ""


def test_a_converted_manifest_goes_through_a_pipe(
    crds: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(crds.kubectl.program).parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(crds.kubeconfig))
    piped = (
        f"set -o pipefail; kubectl valkey convert -f - | kubectl apply -n {namespace} --dry-run=server -f -"
    )
    manifest = (FIXTURES / "draft-first.yaml").read_bytes()
    done = subprocess.run(["bash", "-c", piped], input=manifest, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().splitlines() == [
        "secret/orders-passwords created (server dry run)",
        "valkeycluster.valkey.io/orders created (server dry run)",
    ]

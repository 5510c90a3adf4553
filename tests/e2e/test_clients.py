"""Clients that others wrote, in pods of their own: they find a cluster by its Service's name and follow its changes."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import valkey

from tests.e2e.conftest import Place
from tests.e2e.test_one_node import SPEC

SECONDS = 12
LIBRARY, PROGRAM = "valkey.zip", "client.py"


@pytest.fixture
def grid(place: Place) -> Place:
    place.apply("ValkeyCluster", "grid", {**SPEC, "shards": 3, "replicas": 2})
    place.kubectl("wait", "--for=jsonpath={.status.state}=Ready", "valkeycluster/grid", "--timeout=120s")
    return place


def library() -> bytes:
    """valkey-py as it is installed here."""
    content, folder = io.BytesIO(), Path(valkey.__file__).parent
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.py")):
            archive.write(file, file.relative_to(folder.parent))
    return content.getvalue()


def start_client(place: Place) -> None:
    """In a pod of its own, with nothing but Python and the library."""
    program = (Path(__file__).parent / "in_pod_client.py").read_bytes()
    files = {LIBRARY: library(), PROGRAM: program}
    stored = {name: base64.b64encode(content).decode() for name, content in files.items()}
    container = {
        "name": "client",
        "image": "valkey-operator/operator:dev",
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/python3.13", f"/client/{PROGRAM}", "grid", str(SECONDS)],
        "env": [{"name": "PYTHONPATH", "value": f"/client/{LIBRARY}"}],
        "volumeMounts": [{"name": "client", "mountPath": "/client"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "client", "configMap": {"name": "client"}}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    items: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "client"}, "binaryData": stored},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec},
    ]
    wanted = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    place.cluster.kubectl("--namespace", place.namespace, "create", "-f", "-", stdin=wanted)


def primary_of(place: Place, shard: int) -> str:
    return str(place.get("valkeycluster", "grid")["status"]["shards"][shard]["primary"])


def test_valkey_py_goes_on_through_a_switchover(grid: Place) -> None:
    start_client(grid)
    grid.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
    before = primary_of(grid, 0)
    other = "grid-0-1" if before == "grid-0-0" else "grid-0-0"
    grid.kubectl("annotate", "valkeycluster", "grid", f"valkey.io/switchover={other}/by-test")
    grid.eventually(lambda: primary_of(grid, 0) == other)
    grid.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/client", "--timeout=120s")
    found = json.loads(grid.kubectl("logs", "client"))
    print(f"\n{found['written']} writes of valkey-py, {len(found['errors'])} errors: {found['errors'][:3]}")
    assert found["written"] > 100
    assert found["wrong"] == []
    assert found["errors"] == []
    assert len(found["primaries"]) == 3


def test_valkey_cli_follows_redirections(grid: Place) -> None:
    command = ("exec", "grid-2-1-0", "--container=valkey", "--", "valkey-cli", "-c", "-h", "grid")
    for number in range(12):
        assert grid.kubectl(*command, "SET", f"key:{number}", str(number)).strip() == "OK"
        assert grid.kubectl(*command, "GET", f"key:{number}").strip() == str(number)
